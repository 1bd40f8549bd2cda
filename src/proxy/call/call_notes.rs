//! Notes of calls with several jobs: the course of each part, and the first jobs of each.
//!
//! Such calls have notes of their own, so that a call with one job pays nothing for them.

use http::Response;

use super::exchange::Exchange;
use crate::journal::{CallKind, Note, NotedCall, milliseconds};
use crate::ojs::{Envelope, ErrorDocument};
use crate::policy::{RegionIndex, View};
use crate::proxy::state::{Proxy, Reply};

/// Jobs of one call that have a note: as many as a question is answered with. Each part has one, also where there are more parts.
pub(crate) const NOTED_MAX: usize = 16;

/// A job that has a note.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// The id of the job; the name of the definition, for the first job of one.
    pub(crate) job_id: Option<String>,
    federation_id: Option<String>,
    queue: String,
    job_type: String,
    /// The region that it names.
    pin: Option<RegionIndex>,
}

impl Member {
    /// A job with the ids that it came with.
    pub(crate) fn of(view: &View, envelope: &Envelope<'_>) -> Self {
        let attributes = envelope.attributes();
        Self {
            job_id: envelope.id().map(str::to_owned),
            federation_id: attributes.federation_id.as_deref().map(str::to_owned),
            queue: envelope.queue().to_owned(),
            job_type: envelope.job_type().unwrap_or_default().to_owned(),
            pin: attributes.region.as_deref().and_then(|pin| view.index_of(pin)),
        }
    }

    /// The same job with the id that it is sent with, and a tracking id where it is stamped with one.
    pub(crate) fn sent_as(self, job_id: Option<&str>, federation_id: Option<&str>) -> Self {
        let federation_id = federation_id.map(str::to_owned).or(self.federation_id);
        Self { job_id: job_id.map(str::to_owned), federation_id, ..self }
    }
}

/// Jobs of a call that share their fate.
#[derive(Debug)]
struct Part {
    /// The course of the part; lent to the call while the part is sent.
    course: Option<Box<Note>>,
    /// Which of them the decision was taken for.
    leader: Option<usize>,
    members: Vec<Member>,
}

/// The notes of one call.
#[derive(Debug)]
pub(crate) struct CallNotes {
    kind: CallKind,
    /// How many jobs it brings.
    pub(crate) jobs: usize,
    parts: Vec<Part>,
}

impl CallNotes {
    pub(crate) const fn new(kind: CallKind) -> Self {
        Self { kind, jobs: 0, parts: Vec::new() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds jobs that go, or do not go, together; returns their place. `leader` is the place of the one that was decided for.
    pub(crate) fn add(&mut self, course: Box<Note>, leader: Option<usize>, members: Vec<Member>) -> usize {
        self.parts.push(Part { course: Some(course), leader, members });
        self.parts.len() - 1
    }

    /// The note of a part, on which is written while it is sent.
    pub(crate) fn lend(&mut self, part: usize) -> Option<Box<Note>> {
        self.parts.get_mut(part)?.course.take()
    }

    pub(crate) fn give_back(&mut self, part: usize, course: Option<Box<Note>>) {
        if let Some(part) = self.parts.get_mut(part) {
            part.course = course;
        }
    }

    /// Keeps the notes of a call that is answered so.
    pub(crate) fn keep(self, proxy: &Proxy, exchange: &Exchange, answer: &Result<Response<Reply>, ErrorDocument>) {
        let (status, refusal) = match answer {
            Ok(response) => (response.status(), None),
            Err(document) => (document.status, Some(document.label())),
        };
        let noted: usize = self.parts.iter().map(|part| part.members.len()).sum();
        let count = |jobs: usize| u16::try_from(jobs).unwrap_or(u16::MAX);
        let call =
            NotedCall { kind: self.kind, jobs: count(self.jobs), unnoted: count(self.jobs.saturating_sub(noted)) };
        let ms = milliseconds(exchange.started().elapsed());
        for Part { course, leader, members } in self.parts {
            let Some(course) = course else { continue };
            for (place, member) in members.iter().enumerate() {
                let mut note = if leader == Some(place) { course.clone() } else { course.of_companion(member.pin) };
                if let Some(pin) = member.pin {
                    note.set_pin(pin);
                }
                (note.call, note.status, note.refusal, note.ms) = (Some(call), status.as_u16(), refusal, ms);
                note.request_id.set(exchange.request_id().as_bytes());
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                note.job_id.set(text(&member.job_id).as_bytes());
                note.federation_id.set(text(&member.federation_id).as_bytes());
                note.queue.set(member.queue.as_bytes());
                note.job_type.set(member.job_type.as_bytes());
                let went_as_planned = note.went_as_planned();
                proxy.notes.write(&proxy.shared.journal, &proxy.shared.registry, &mut note, went_as_planned);
            }
        }
    }
}

/// A note that is begun for several jobs. It never goes among those that are used again, see [`Note::call`].
pub(crate) fn begin(proxy: &Proxy) -> Box<Note> {
    let mut note = Box::<Note>::default();
    note.at_ms = proxy.shared.registry.clock().unix_ms_about();
    note
}

/// How many jobs of each part have a note: one of each, then the first ones until so many have one.
pub(crate) fn allot(sizes: impl Iterator<Item = usize> + Clone) -> Vec<usize> {
    let mut left = NOTED_MAX.saturating_sub(sizes.clone().count());
    let allotted = sizes.map(|size| {
        let more = size.saturating_sub(1).min(left);
        left -= more;
        size.min(1) + more
    });
    allotted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_call_has_a_note_and_the_first_jobs_have_the_others() {
        let check = |sizes: &[usize], expected: &[usize]| assert_eq!(allot(sizes.iter().copied()), expected);
        check(&[], &[]);
        check(&[3], &[3]);
        check(&[40], &[16]);
        check(&[40, 2], &[15, 1]);
        check(&[2, 40, 3], &[2, 13, 1]);
        check(&[2, 0, 1], &[2, 0, 1]);
        check(&[2; 20], &[1; 20]);
    }
}
