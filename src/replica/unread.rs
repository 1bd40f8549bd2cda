//! Jobs that regions have stored, of which nothing has read yet the answers and the bytes.
//!
//! Reading takes many times the instructions of leaving. So a call leaves a copy of the answer and its hold of the job as it was sent, and the
//! thread of the connection to the hub reads both.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use super::change::ChangeKind;
use super::details::Details;
use super::line::Seen;
use super::outline::{Ledgered, Outline};
use crate::base::RegionId;
use crate::base::text::read_rfc3339;
use crate::ojs::answer::ShownJob;
use crate::ojs::{JobDetails, Segments, args_of_answer, segments_len};

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
    pub outline: Outline,
    /// The job as it was sent.
    pub sent: SentJob,
}

/// A job as it was sent to its region.
#[derive(Debug)]
pub struct SentJob {
    /// Its body; no pieces of a job whose outline does not read it.
    pub pieces: Segments,
    /// Whether another region was meant for it.
    pub is_rerouted: bool,
}

impl Stored<'_> {
    /// Reads the answer of its region and the job as it was sent. None where the answer shows another job: by its `unique` policy a region may have
    /// answered with one that this call does not describe.
    pub(super) fn read<T>(self, answer: &[u8], take: impl FnOnce(&Seen<'_>) -> T) -> Option<T> {
        let shown = ShownJob::near_the_ends(answer).unwrap_or_else(|| ShownJob::read(answer));
        if shown.id.as_deref().is_some_and(|id| self.own_id.is_some_and(|own| own != id.as_bytes())) {
            return None;
        }
        let text = |id| std::str::from_utf8(id).ok();
        let job_id = shown.id.as_deref().or_else(|| self.own_id.and_then(text))?;
        let (SentJob { pieces, is_rerouted }, ledgered) = (self.sent, self.outline.of_ledger());
        let body: Cow<'_, [u8]> = match pieces.as_slice() {
            [one] => Cow::Borrowed(one),
            pieces => Cow::Owned(pieces.concat()),
        };
        let job = JobDetails::read(&body);
        let described = self.outline.describe(&job);
        let digests = if ledgered == Ledgered::Described { digests(&job, answer) } else { [None, None] };
        let [payload_digest, stored_digest] = &digests;
        let details = match ledgered {
            Ledgered::No => None,
            // No more than where it went.
            Ledgered::Bare => Some(Details { is_rerouted, ..Details::default() }),
            Ledgered::Described => Some(Details {
                priority: job.priority,
                payload_digest: payload_digest.as_deref(),
                stored_digest: stored_digest.as_deref(),
                replay_of: job.replay_of.as_deref(),
                is_rerouted,
                ..Details::default()
            }),
        };
        Some(take(&Seen {
            job_id,
            region: self.region,
            kind: ChangeKind::Created,
            lease_ms: 0,
            at_ms: self.at_ms,
            federation_id: self.federation_id.and_then(text),
            state: shown.state.as_deref(),
            enqueued_ms: shown.enqueued_at.as_deref().and_then(read_rfc3339),
            described: Some(&described),
            details,
        }))
    }
}

/// The digests of the arguments as they were sent, and, where these are other bytes, as the region has shown them.
fn digests(job: &JobDetails<'_>, answer: &[u8]) -> [Option<String>; 2] {
    let Some(args) = job.args else { return [None, None] };
    let stored = args_of_answer(answer).filter(|stored| args != *stored);
    [Some(digest_of(args)), stored.map(digest_of)]
}

/// The digest of the arguments of a job: SHA-256 of their bytes, in lower-case hex.
fn digest_of(args: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, args).as_ref())
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
    /// The bytes of their texts, of their bodies, and of what their outlines hold.
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
    outline: Outline,
    sent: SentJob,
    answer_length: usize,
}

impl Unread {
    pub(super) fn add(&mut self, stored: Stored<'_>, answer: &[u8]) {
        let Stored { own_id, federation_id, region, at_ms, outline, sent } = stored;
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
        self.bytes += bytes + segments_len(&sent.pieces) + outline.bytes();
        part.jobs.push(UnreadJob { own_id_length, federation_id_length, region, at_ms, outline, sent, answer_length });
        self.jobs += 1;
    }

    pub(super) const fn len(&self) -> usize {
        self.jobs
    }

    /// The bytes that are held.
    pub(super) const fn bytes(&self) -> usize {
        self.jobs * size_of::<UnreadJob>() + self.bytes
    }

    /// Gives the jobs with their answers, oldest first.
    pub(super) fn for_each(self, mut take: impl FnMut(Stored<'_>, &[u8])) {
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

    fn for_each(self, mut take: impl FnMut(Stored<'_>, &[u8])) {
        let mut texts = &*self.texts;
        for job in self.jobs {
            let UnreadJob { own_id_length, federation_id_length, region, at_ms, outline, sent, answer_length } = job;
            let mut next = |length: Option<usize>| texts.split_off(..length?);
            let (own_id, federation_id) = (next(own_id_length), next(federation_id_length));
            let Some(answer) = next(Some(answer_length)) else {
                debug_assert!(false, "each job has its texts");
                return;
            };
            take(Stored { own_id, federation_id, region: &region, at_ms, outline, sent }, answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::line::{self, Description, JobTexts};
    use super::*;

    /// The id and the tracking id of a call, and the answer.
    type Answered<'a> = (Option<&'a str>, Option<&'a [u8]>, &'a str);
    type Shown = (String, Option<String>, Option<String>, Option<u64>, bool);

    fn sent(body: &'static str) -> SentJob {
        SentJob { pieces: std::iter::once(Bytes::from(body)).collect(), is_rerouted: true }
    }

    /// The job, its tracking id, its state and its time, and whether it is described, of each that is reported.
    fn shown(jobs: &[Answered<'_>]) -> Vec<Shown> {
        let region = RegionId::parse("eu").unwrap();
        let texts = JobTexts { queue: Some("q"), ..JobTexts::default() };
        let mut unread = Unread::default();
        for (own_id, federation_id, answer) in jobs {
            let (own_id, federation_id) = (own_id.map(str::as_bytes), *federation_id);
            let outline = Outline::new(false, Ledgered::No);
            let sent = sent(r#"{"queue":"q","args":[]}"#);
            unread.add(Stored { own_id, federation_id, region: &region, at_ms: 7, outline, sent }, answer.as_bytes());
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

    /// The columns of the report of a job, behind its time.
    fn columns(outline: Outline, sent: SentJob) -> String {
        let region = RegionId::parse("eu").unwrap();
        let stored = Stored { own_id: Some(b"j"), federation_id: None, region: &region, at_ms: 7, outline, sent };
        let mut line = Vec::new();
        assert_eq!(stored.read(br#"{"id":"j","args":[2]}"#, |seen| line::write(&mut line, seen)), Some(true));
        let line = String::from_utf8(line).unwrap();
        line.strip_prefix("j\teu\tcreated\t0\t7\t\t\t\t").unwrap().trim_end_matches('\n').to_owned()
    }

    #[test]
    fn the_report_of_a_job_has_what_is_read_in_it_and_what_only_its_call_knows() {
        let body = r#"{"type":"a","args":[1],"priority":3,"options":{"queue":"q"},"meta":{"tenant_id":"own"}}"#;
        let (digest, stored) = (digest_of(b"[1]"), digest_of(b"[2]"));
        let new = |ledgered| Outline::new(false, ledgered);
        assert_eq!(columns(new(Ledgered::No), sent(body)), "\ta\tq\town\t0");
        let caller = new(Ledgered::No).of_caller("caller");
        assert_eq!(columns(caller.clone(), sent(body)), "\ta\tq\town\t0");
        assert_eq!(columns(caller, sent("{}")), "\t\tdefault\tcaller\t0");
        let described = columns(new(Ledgered::Described).of_trial("i/2"), sent(body));
        assert_eq!(described, format!("\ta\tq\town\t0\t3\t{digest}\t{stored}\t\t\t\t1\ti/2"));
        let none = Description::new(None, Some(JobTexts { bound: true, ..JobTexts::default() }));
        let bare = Outline::new(true, Ledgered::Bare).written(none);
        assert!(!bare.reads_sent());
        let nothing = SentJob { pieces: Segments::new(), is_rerouted: false };
        assert_eq!(columns(bare, nothing), "\t\t\t\t1\t\t\t\t\t\t\t0");
    }

    #[test]
    fn the_bodies_and_outlines_that_wait_are_counted() {
        let region = RegionId::parse("eu").unwrap();
        let mut unread = Unread::default();
        let mut add = |outline, body| {
            let before = unread.bytes();
            let sent = sent(body);
            unread.add(Stored { own_id: None, federation_id: None, region: &region, at_ms: 7, outline, sent }, b"{}");
            unread.bytes() - before - size_of::<UnreadJob>() - 2
        };
        let outline = Outline::new(false, Ledgered::No);
        assert_eq!((add(outline.clone(), ""), add(outline.clone(), "{  }")), (0, 4));
        assert!(add(outline.of_caller(&"x".repeat(300)), "") >= 300);
    }
}
