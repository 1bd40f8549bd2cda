//! Answers of regions to batches and bulk enqueues, and one answer out of several.
//!
//! Jobs and items are copied as the regions wrote them; only an item's `index` is rewritten, because a region counts within its
//! own part.

use crate::ojs::copy::{is_of_fence, mentions_fence};
use crate::ojs::error::ErrorDocument;
use crate::ojs::member::{DEPTH_MAX, text};
use crate::ojs::scan::{ScanError, Scanner};

/// A job in an answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Listed<'b> {
    /// The job as the region wrote it.
    pub bytes: &'b [u8],
    /// Its id.
    pub id: Option<String>,
}

/// A line of the answer to a bulk enqueue.
#[derive(Clone, PartialEq, Eq)]
pub struct Item<'b> {
    /// The index of its job in the body that was sent to the region.
    pub index: usize,
    /// Whether the job is stored.
    pub stored: bool,
    /// The job's id, where it is stored.
    pub id: Option<String>,
    bytes: &'b [u8],
    /// Where the number of `index` stands in `bytes`.
    number: (usize, usize),
}

/// A line of our own answer to a bulk enqueue.
#[derive(Debug)]
pub enum Line<'b> {
    /// A region's own.
    Region(Item<'b>),
    /// A job that no region has stored, and why.
    Failed(&'b ErrorDocument),
}

impl std::fmt::Debug for Listed<'_> {
    // A job's content belongs in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listed").field("id", &self.id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (index, stored) = (&self.index, &self.stored);
        f.debug_struct("Item").field("index", index).field("stored", stored).finish_non_exhaustive()
    }
}

/// Whether a region that returns existing jobs has returned a tombstone of ours for one of the jobs: that one is not
/// stored.
#[must_use]
pub fn shows_fence(body: &[u8]) -> bool {
    let is_one = |(start, end): &(usize, usize)| body.get(*start..*end).is_some_and(is_of_fence);
    mentions_fence(body)
        && ["jobs", "items"].iter().filter_map(|name| elements(body, name)).any(|places| places.iter().any(is_one))
}

/// The jobs in the answer to a batch, in order; none where it is no such answer. Spec: ojs-protocol 2.1.
#[must_use]
pub fn jobs(body: &[u8]) -> Option<Vec<Listed<'_>>> {
    if shows_fence(body) {
        return None;
    }
    let listed = |(start, end)| {
        let bytes = &body[start..end];
        Listed { bytes, id: text(bytes, "id").map(std::borrow::Cow::into_owned) }
    };
    Some(elements(body, "jobs")?.into_iter().map(listed).collect())
}

/// The items in the answer to a bulk enqueue of `count` jobs, by their index.
///
/// None where it is no such answer, or does not have one item for each of them.
#[must_use]
pub fn items(body: &[u8], count: usize) -> Option<Vec<Item<'_>>> {
    if shows_fence(body) {
        return None;
    }
    let places = elements(body, "items")?;
    let item = |(start, end)| Item::read(body.get(start..end)?);
    let mut items: Vec<Item<'_>> = places.into_iter().map(item).collect::<Option<_>>()?;
    items.sort_by_key(|item| item.index);
    let is_whole = items.len() == count && items.iter().enumerate().all(|(place, item)| item.index == place);
    is_whole.then_some(items)
}

/// The answer to a batch with these jobs.
#[must_use]
pub fn batch(jobs: &[Listed<'_>]) -> Vec<u8> {
    let mut body = Vec::with_capacity(jobs.iter().map(|job| job.bytes.len() + 1).sum::<usize>() + 32);
    body.extend_from_slice(b"{\"jobs\":[");
    for (place, job) in jobs.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(job.bytes);
    }
    body.extend_from_slice(format!("],\"count\":{}}}", jobs.len()).as_bytes());
    body
}

/// The answer to a bulk enqueue with these lines, in the order of the request.
#[must_use]
pub fn bulk(lines: &[Line<'_>]) -> Vec<u8> {
    let stored = lines.iter().filter(|line| line.is_stored()).count();
    let (total, failed) = (lines.len(), lines.len() - stored);
    let mut body = format!(r#"{{"total":{total},"succeeded":{stored},"failed":{failed},"items":["#).into_bytes();
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        line.write(index, &mut body);
    }
    body.extend_from_slice(b"]}");
    body
}

impl<'b> Item<'b> {
    fn read(bytes: &'b [u8]) -> Option<Self> {
        let (mut number, mut job, mut error) = (None, None, None);
        let mut read = || -> Result<(), ScanError> {
            let mut scanner = Scanner::new(bytes, DEPTH_MAX)?;
            scanner.object(|scanner, key| {
                let present = scanner.next() != Some(b'n');
                let place = scanner.skip()?;
                match &*key.decode() {
                    "index" => number = Some(place),
                    "job" => job = present.then_some(place),
                    "error" => error = present.then_some(place),
                    _ => {}
                }
                Ok::<(), ScanError>(())
            })?;
            Ok(())
        };
        read().ok()?;
        let number = number?;
        let index = std::str::from_utf8(bytes.get(number.0..number.1)?).ok()?.parse().ok()?;
        let stored = error.is_none();
        let id = job.filter(|_| stored).and_then(|(start, end)| text(bytes.get(start..end)?, "id"));
        Some(Self { index, stored, id: id.map(std::borrow::Cow::into_owned), bytes, number })
    }
}

impl Line<'_> {
    /// Whether its job is stored.
    #[must_use]
    pub const fn is_stored(&self) -> bool {
        match self {
            Self::Region(item) => item.stored,
            Self::Failed(_) => false,
        }
    }

    fn write(&self, index: usize, to: &mut Vec<u8>) {
        match self {
            Self::Region(item) => {
                let (start, end) = item.number;
                to.extend_from_slice(&item.bytes[..start]);
                to.extend_from_slice(index.to_string().as_bytes());
                to.extend_from_slice(&item.bytes[end..]);
            }
            Self::Failed(document) => {
                to.extend_from_slice(format!(r#"{{"index":{index},"status":"failed","error":"#).as_bytes());
                to.extend_from_slice(&document.to_member());
                to.push(b'}');
            }
        }
    }
}

/// Where the elements of an array stand that is a member of the body; of the last one where there are several.
pub(in crate::ojs) fn elements(body: &[u8], name: &str) -> Option<Vec<(usize, usize)>> {
    let mut found = None;
    let mut read = || -> Result<(), ScanError> {
        let mut scanner = Scanner::new(body, DEPTH_MAX)?;
        scanner.object(|scanner, key| {
            if key.decode() != name || scanner.next() != Some(b'[') {
                return scanner.skip().map(drop);
            }
            let mut places = Vec::new();
            scanner.array(|scanner| {
                places.push(scanner.skip()?);
                Ok::<(), ScanError>(())
            })?;
            found = Some(places);
            Ok(())
        })?;
        scanner.end()
    };
    read().ok()?;
    found
}
