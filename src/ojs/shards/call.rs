//! Calls that name a queue, with the name of a shard in its place.

use bytes::Bytes;
use smallvec::SmallVec;

use super::all::Shards;
use super::place::ShardedQueue;
use crate::ojs::channel::query_value;
use crate::ojs::member::DEPTH_MAX;
use crate::ojs::operation::{Class, Matched, Operation};
use crate::ojs::path::normal_path;
use crate::ojs::scan::{ScanError, Scanner};

/// Where a call names a queue with shards: in its path, in `queue` of its query, or in `queue`, `name` or `filter.queue` of its body.
#[derive(Debug)]
pub struct Naming<'s> {
    queue: &'s ShardedQueue,
    target: String,
    in_target: SmallVec<[usize; 2]>,
    in_body: SmallVec<[usize; 2]>,
}

impl<'s> Naming<'s> {
    /// Looks for a queue in a call; none where it names none that has shards.
    #[must_use]
    pub fn of(shards: &'s Shards, matched: &Matched, path: &str, query: Option<&str>, body: &[u8]) -> Option<Self> {
        let mut found = Found { shards, queue: None, in_target: SmallVec::new(), in_body: SmallVec::new() };
        let mut target = normal_path(path).into_owned();
        let is_of_queue = matched.class == Class::Queue || matched.operation == Operation::QueueEvents;
        if let Some(end) = matched.name_ends_at(&target).filter(|_| is_of_queue) {
            let from = target[..end].rfind('/').map_or(0, |slash| slash + 1);
            if found.is_it(&target[from..end]) {
                found.in_target.push(end);
            }
        }
        let is_filtered = filters_by_queue(matched, &target);
        if let Some(query) = query {
            target.push('?');
            for piece in query.split('&') {
                target.push_str(piece);
                if let Some((name, value)) = piece.split_once('=').filter(|_| is_filtered)
                    && query_value(name).as_deref() == Some("queue")
                    && query_value(value).is_some_and(|value| found.is_it(&value))
                {
                    found.in_target.push(target.len());
                }
                target.push('&');
            }
            target.pop();
        }
        let names = is_of_queue && matched.name_ends_at(&target).is_none();
        found.read(body, names);
        let Found { queue, in_target, in_body, .. } = found;
        Some(Self { queue: queue?, target, in_target, in_body })
    }

    /// The queue.
    #[must_use]
    pub const fn queue(&self) -> &'s ShardedQueue {
        self.queue
    }

    /// The path and query for the name with this suffix.
    #[must_use]
    pub fn target(&self, suffix: &str) -> String {
        with_suffix(&self.target, &self.in_target, suffix)
    }

    /// The body for the name with this suffix. `body`: the one that was looked through.
    #[must_use]
    pub fn body(&self, body: &Bytes, suffix: &str) -> Bytes {
        match std::str::from_utf8(body) {
            Ok(text) if !self.in_body.is_empty() && !suffix.is_empty() => {
                with_suffix(text, &self.in_body, suffix).into()
            }
            _ => body.clone(),
        }
    }
}

/// Whether servers take `queue` in the query for a filter; where they pass it over, each name would have the same answer.
fn filters_by_queue(matched: &Matched, path: &str) -> bool {
    const FILTERED: [&str; 4] = ["jobs", "dead-letter", "history", "unique-jobs"];
    matched.operation == Operation::List && path.split('/').any(|segment| FILTERED.contains(&segment))
}

struct Found<'s> {
    shards: &'s Shards,
    queue: Option<&'s ShardedQueue>,
    in_target: SmallVec<[usize; 2]>,
    in_body: SmallVec<[usize; 2]>,
}

impl Found<'_> {
    /// Whether a text is the name of the queue that the call is about, which the first one decides.
    fn is_it(&mut self, name: &str) -> bool {
        match self.queue {
            Some(queue) => queue.name() == name,
            None => {
                self.queue = self.shards.queue(name);
                self.queue.is_some()
            }
        }
    }

    /// Reads a body; of one that is no object nothing is known. `names`: whether `name` is that of a queue.
    fn read(&mut self, body: &[u8], names: bool) {
        let Ok(mut scanner) = Scanner::new(body, DEPTH_MAX) else { return };
        let mut ends = SmallVec::<[usize; 2]>::new();
        let read = scanner.object(|scanner, key| match &*key.decode() {
            "filter" if scanner.next() == Some(b'{') => {
                scanner.object(|scanner, key| self.member(scanner, key.decode() == "queue", &mut ends))?;
                Ok(())
            }
            name => self.member(scanner, name == "queue" || (names && name == "name"), &mut ends),
        });
        if read.is_ok() {
            self.in_body = ends;
        }
    }

    fn member(
        &mut self,
        scanner: &mut Scanner<'_, '_>,
        is_queue: bool,
        ends: &mut SmallVec<[usize; 2]>,
    ) -> Result<(), ScanError> {
        if is_queue && scanner.next() == Some(b'"') {
            let name = scanner.string()?.decode();
            if self.is_it(&name) {
                ends.push(scanner.at() - 1);
            }
            return Ok(());
        }
        scanner.skip().map(drop)
    }
}

/// A query with the names of all shards of a queue behind it, in a list of `queues`; none where that is not needed.
#[must_use]
pub fn query_of_all(shards: &Shards, query: &str) -> Option<String> {
    let mut is_changed = false;
    let piece = |piece: &str| {
        let list = piece.split_once('=').filter(|(name, _)| query_value(name).as_deref() == Some("queues"));
        let Some((name, list)) = list else { return piece.to_owned() };
        let names = list.split(',').flat_map(|given| {
            let queue = query_value(given).and_then(|name| shards.queue(&name));
            is_changed |= queue.is_some();
            queue.map_or_else(|| vec![given.to_owned()], |queue| queue.names().collect())
        });
        let names: Vec<String> = names.collect();
        format!("{name}={}", names.join(","))
    };
    let pieces: Vec<String> = query.split('&').map(piece).collect();
    is_changed.then(|| pieces.join("&"))
}

fn with_suffix(text: &str, ends: &[usize], suffix: &str) -> String {
    let mut whole = String::with_capacity(text.len() + ends.len() * suffix.len());
    let mut from = 0;
    for end in ends {
        whole.push_str(&text[from..*end]);
        whole.push_str(suffix);
        from = *end;
    }
    whole.push_str(&text[from..]);
    whole
}
