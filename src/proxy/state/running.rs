//! Enqueues that are under way under a name that they may be repeated by; shared by all threads.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::region_answer::RegionAnswer;
use crate::base::RegionId;
use crate::ojs::{Abridged, ErrorDocument, Segments};
use crate::outcome::Digest;

/// The name under which an enqueue is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// The fingerprint of the client's own job id.
    Job(Digest),
    /// The fingerprint of an `Idempotency-Key`.
    Key(Digest),
}

/// How an enqueue ended.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// It is stored, or counts as stored.
    Answered(Arc<RegionAnswer>, Option<RegionId>),
    /// The outcome is unknown.
    Unknown(Arc<ErrorDocument>),
    /// No region stored the job: a waiting call may try.
    Nothing,
}

/// The enqueues under way. Bounded by the calls that there can be at once.
#[derive(Debug, Clone, Default)]
pub struct Running(Arc<Mutex<HashMap<Name, Entry, RandomState>>>);

#[derive(Debug)]
struct Entry {
    body: Segments,
    /// How many sidecars it has passed.
    hops: u16,
    end: watch::Receiver<Option<End>>,
}

/// The first with its name.
#[derive(Debug)]
pub(crate) struct Turn {
    all: Running,
    name: Name,
    ended: watch::Sender<Option<End>>,
    end: Option<End>,
}

/// A place behind the first.
pub(crate) struct Wait(watch::Receiver<Option<End>>);

pub(crate) enum Joined {
    Turn(Turn),
    Wait(Wait),
    /// The same name is under way with another body; this waits until that is over.
    OtherBody(Wait),
    /// The enqueue came back by way of other sidecars: waiting for it would never end.
    Circle,
}

impl Running {
    /// Joins those with this name and body. A repetition comes by the same way as the first and so with as many `hops`; one with
    /// more is the first itself.
    pub(crate) fn join(&self, name: Name, body: Abridged<'_>, hops: u16) -> Joined {
        let mut running = self.0.lock();
        match running.get(&name) {
            Some(entry) if entry.hops < hops => Joined::Circle,
            Some(entry) if !body.equals(&entry.body) => Joined::OtherBody(Wait(entry.end.clone())),
            Some(entry) => Joined::Wait(Wait(entry.end.clone())),
            None => {
                let (sender, end) = watch::channel(None);
                running.insert(name.clone(), Entry { body: body.segments(), hops, end });
                Joined::Turn(Turn { all: self.clone(), name, ended: sender, end: None })
            }
        }
    }
}

impl Turn {
    /// Ends the turn and wakes the calls that wait for it.
    pub(crate) fn end(mut self, end: End) {
        self.end = Some(end);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The entry goes first: a woken call that tries again must find the name free.
        self.all.0.lock().remove(&self.name);
        if let Some(end) = self.end.take() {
            self.ended.send_replace(Some(end));
        }
    }
}

impl Wait {
    /// The end of the first call. A call that broke off may have stored the job or not; the journal has its record.
    pub(crate) async fn wait(mut self) -> End {
        let end = self.0.wait_for(Option::is_some).await;
        end.ok().and_then(|end| end.clone()).unwrap_or(End::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn those_with_one_name_wait_for_the_first_and_leave_nothing_behind() {
        let running = Running::default();
        let name = || Name::Job([7; 32]);
        let join = |body: u8, hops| running.join(name(), Abridged::whole(&Bytes::from(vec![body])), hops);
        let Joined::Turn(turn) = join(0, 1) else { panic!("the first has its turn") };
        let Joined::Wait(second) = join(0, 1) else { panic!("the second waits") };
        assert!(matches!(join(1, 1), Joined::OtherBody(_)));
        assert!(matches!(join(1, 2), Joined::Circle));
        turn.end(End::Unknown(Arc::new(ErrorDocument::outcome_unknown("a", None))));
        assert!(matches!(second.wait().await, End::Unknown(_)));
        assert!(running.0.lock().is_empty());
        let Joined::Turn(turn) = join(0, 1) else { panic!("its turn") };
        let Joined::Wait(second) = join(0, 1) else { panic!("the second waits") };
        drop(turn);
        assert!(matches!(second.wait().await, End::Nothing), "who breaks off holds nobody up");
        assert!(matches!(join(0, 1), Joined::Turn(_)));
    }
}
