//! Jobs that regions have stored, with answers that nothing has read yet.
//!
//! Reading an answer takes many times the instructions of a copy of it. So a call leaves the copy, and the thread of the connection to the
//! hub reads it.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use super::change::ChangeKind;
use super::details::Details;
use super::line::{Description, Ledgered, Seen};
use crate::base::RegionId;
use crate::base::text::read_rfc3339;
use crate::ojs::answer::ShownJob;
use crate::ojs::{JobDetails, Segments, segments_len};

/// A job that a region has stored, as the call knows it.
#[derive(Debug)]
pub struct Stored<'a> {
    /// The id that it was sent with, where it had one.
    pub own_id: Option<&'a [u8]>,
    /// Its tracking id, where it is known; one that is no text is none.
    pub federation_id: Option<&'a [u8]>,
    /// The region.
    pub region: &'a RegionId,
    /// When it was seen. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The job.
    pub described: Description,
    /// The job as it was sent; none where the ledger of the hub gets nothing of it.
    pub sent: Option<SentJob>,
}

/// A job as it was sent to its region.
#[derive(Debug, Clone)]
pub struct SentJob {
    /// Its body.
    pub pieces: Segments,
    /// Whether another region was meant for it.
    pub is_rerouted: bool,
}

impl SentJob {
    /// The bytes that it holds. Units: bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + segments_len(&self.pieces)
    }

    /// Gives the details of the job to `take`: of a bare one no more than where it went. `answer`: that of its region, where it shows the job alone.
    pub fn details<T>(&self, of: Ledgered, answer: &[u8], take: impl FnOnce(Details<'_>) -> T) -> T {
        let is_rerouted = self.is_rerouted;
        if of == Ledgered::Bare {
            return take(Details { is_rerouted, ..Details::default() });
        }
        let body: Cow<'_, [u8]> = match self.pieces.as_slice() {
            [one] => Cow::Borrowed(one),
            pieces => Cow::Owned(pieces.concat()),
        };
        let job = JobDetails::read(&body);
        let payload_digest = job.args.map(digest_of);
        let stored = JobDetails::of_answer(answer).args.filter(|stored| job.args.is_some_and(|args| args != *stored));
        let stored_digest = stored.map(digest_of);
        take(Details {
            priority: job.priority,
            payload_digest: payload_digest.as_deref(),
            stored_digest: stored_digest.as_deref(),
            replay_of: job.replay_of.as_deref(),
            is_rerouted,
            ..Details::default()
        })
    }
}

/// The digest of the arguments of a job: SHA-256 of their bytes, in lower-case hex.
fn digest_of(args: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, args).as_ref())
}

impl Stored<'_> {
    /// Reads the answer of its region. None where it shows another job: by its `unique` policy a region may have answered with one that this
    /// call does not describe.
    pub(super) fn read<T>(&self, answer: &[u8], take: impl FnOnce(&Seen<'_>) -> T) -> Option<T> {
        let shown = ShownJob::near_the_ends(answer).unwrap_or_else(|| ShownJob::read(answer));
        if shown.id.as_deref().is_some_and(|id| self.own_id.is_some_and(|own| own != id.as_bytes())) {
            return None;
        }
        let text = |id| std::str::from_utf8(id).ok();
        let job_id = shown.id.as_deref().or_else(|| self.own_id.and_then(text))?;
        let seen = Seen {
            job_id,
            region: self.region,
            kind: ChangeKind::Created,
            lease_ms: 0,
            at_ms: self.at_ms,
            federation_id: self.federation_id.and_then(text),
            state: shown.state.as_deref(),
            enqueued_ms: shown.enqueued_at.as_deref().and_then(read_rfc3339),
            described: Some(&self.described),
            details: None,
        };
        Some(match &self.sent {
            Some(sent) => sent
                .details(self.described.of_ledger(), answer, |details| take(&Seen { details: Some(details), ..seen })),
            None => take(&seen),
        })
    }
}

/// The room of a part: for the jobs, and for their texts. Units: jobs, bytes.
const PART_ROOM: (usize, usize) = (64, 32 * 1024);
/// A longer text is copied in pieces of so many: the C library copies more by an instruction that counts once a byte. Units: bytes.
const PIECE_BYTES: usize = 1024;

/// Stored jobs, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unread {
    parts: Vec<Part>,
    jobs: usize,
    /// The bytes of their texts.
    bytes: usize,
}

/// Some of them. Their texts stand one behind the other, and the room for them is never moved.
#[derive(Debug)]
struct Part {
    jobs: Vec<UnreadJob>,
    texts: Vec<u8>,
}

#[derive(Debug)]
struct UnreadJob {
    own_id_length: Option<usize>,
    federation_id_length: Option<usize>,
    region: RegionId,
    at_ms: u64,
    described: Description,
    sent: Option<Box<SentJob>>,
    answer_length: usize,
}

impl Unread {
    pub(super) fn add(&mut self, stored: Stored<'_>, answer: &[u8]) {
        let Stored { own_id, federation_id, region, at_ms, described, sent } = stored;
        let texts = [own_id, federation_id, Some(answer)];
        let bytes = texts.iter().flatten().map(|text| text.len()).sum();
        if !self.parts.last().is_some_and(|part| part.has_room(bytes)) {
            self.parts.push(Part::new(bytes));
        }
        let Some(part) = self.parts.last_mut() else { return };
        texts
            .iter()
            .flatten()
            .flat_map(|text| text.chunks(PIECE_BYTES))
            .for_each(|it| part.texts.extend_from_slice(it));
        let [own_id_length, federation_id_length] = [own_id, federation_id].map(|id| id.map(<[u8]>::len));
        let (region, answer_length) = (region.clone(), answer.len());
        self.bytes += bytes + sent.as_ref().map_or(0, SentJob::bytes);
        let sent = sent.map(Box::new);
        part.jobs.push(UnreadJob {
            own_id_length,
            federation_id_length,
            region,
            at_ms,
            described,
            sent,
            answer_length,
        });
        self.jobs += 1;
    }

    pub(super) const fn len(&self) -> usize {
        self.jobs
    }

    /// The bytes that are held, but for those of descriptions.
    pub(super) const fn bytes(&self) -> usize {
        self.jobs * size_of::<UnreadJob>() + self.bytes
    }

    /// Gives the jobs with their answers, oldest first.
    pub(super) fn for_each(self, mut take: impl FnMut(&Stored<'_>, &[u8])) {
        self.parts.into_iter().for_each(|part| part.for_each(&mut take));
    }
}

impl Part {
    fn new(bytes: usize) -> Self {
        Self { jobs: Vec::with_capacity(PART_ROOM.0), texts: Vec::with_capacity(bytes.max(PART_ROOM.1)) }
    }

    const fn has_room(&self, bytes: usize) -> bool {
        self.jobs.len() < PART_ROOM.0 && self.texts.capacity() - self.texts.len() >= bytes
    }

    fn for_each(self, mut take: impl FnMut(&Stored<'_>, &[u8])) {
        let mut texts = &*self.texts;
        for job in self.jobs {
            let UnreadJob { own_id_length, federation_id_length, region, at_ms, described, sent, answer_length } = job;
            let mut next = |length: Option<usize>| texts.split_off(..length?);
            let (own_id, federation_id) = (next(own_id_length), next(federation_id_length));
            let Some(answer) = next(Some(answer_length)) else {
                debug_assert!(false, "each job has its texts");
                return;
            };
            let sent = sent.map(|sent| *sent);
            take(&Stored { own_id, federation_id, region: &region, at_ms, described, sent }, answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::JobTexts;
    use super::*;

    /// The id and the tracking id of a call, and the answer.
    type Answered<'a> = (Option<&'a str>, Option<&'a [u8]>, &'a str);
    type Shown = (String, Option<String>, Option<String>, Option<u64>, bool);

    /// The job, its tracking id, its state and its time, and whether it is described, of each that is reported.
    fn shown(jobs: &[Answered<'_>]) -> Vec<Shown> {
        let region = RegionId::parse("eu").unwrap();
        let texts = JobTexts { queue: Some("q"), ..JobTexts::default() };
        let mut unread = Unread::default();
        for (own_id, federation_id, answer) in jobs {
            let (own_id, federation_id) = (own_id.map(str::as_bytes), *federation_id);
            let described = Description::new(None, Some(texts));
            unread.add(
                Stored { own_id, federation_id, region: &region, at_ms: 7, described, sent: None },
                answer.as_bytes(),
            );
        }
        let taken = std::mem::take(&mut unread);
        assert_eq!((taken.len(), unread.len(), unread.bytes()), (jobs.len(), 0, 0));
        let mut found = Vec::new();
        taken.for_each(|stored, answer| {
            found.extend(stored.read(answer, |seen| {
                assert_eq!((seen.region, seen.kind, seen.at_ms), (&region, ChangeKind::Created, 7));
                let is_described = seen.described == Some(&Description::new(None, Some(texts)));
                let text = |text: Option<&str>| text.map(str::to_owned);
                (seen.job_id.to_owned(), text(seen.federation_id), text(seen.state), seen.enqueued_ms, is_described)
            }));
        });
        found
    }

    #[test]
    fn an_answer_is_read_with_the_ids_of_its_own_call() {
        let of = |id: &str| {
            format!(
                r#"{{"job":{{"id":"{id}","state":"available","args":[1],"enqueued_at":"1970-01-31T00:00:00.005Z"}}}}"#
            )
        };
        let (one, other) = (of("one"), of("other"));
        let (available, at) = (Some("available".to_owned()), Some(2_592_000_005));
        let job = |id: &str, federation_id: Option<&str>| {
            (id.to_owned(), federation_id.map(str::to_owned), available.clone(), at, true)
        };
        let bare = |id: &str| (id.to_owned(), Some("f".to_owned()), None, None, true);
        let all = [
            (Some("one"), Some(&b"f1"[..]), &*one),
            (None, Some(b""), &other),
            // By its `unique` policy the region has answered with another job.
            (Some("one"), Some(b"f"), &other),
            (Some("two"), Some(b"f"), "stored"),
            (None, Some(b"f"), "stored"),
            (Some(""), None, "{}"),
            (Some("one"), Some(b"\xff"), &one),
            (None, None, &one),
        ];
        let expected = vec![
            job("one", Some("f1")),
            job("other", Some("")),
            bare("two"),
            (String::new(), None, None, None, true),
            job("one", None),
            job("one", None),
        ];
        assert_eq!(shown(&all), expected);
    }
}
