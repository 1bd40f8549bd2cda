//! The arrived bytes: every decrypted byte and every request, kept for tests to judge.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The memory of an entry besides its bytes: heads and headers are small, but a long demo sees many of them.
const ENTRY_BYTES: usize = 1024;

/// How long [`Record::wait_for`] waits: far more than any local exchange takes, on a crowded machine as well.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// One request as the region read it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its place in the order in which the heads of all requests arrived at this region, from 0.
    pub order: u64,
    /// The connection it came by ([`RecordedConnection::number`]).
    pub connection: u64,
    /// The method.
    pub method: Method,
    /// The request target as it was sent: path and query, not decoded.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body so far.
    pub body: Bytes,
    /// Whether the body was read to its end.
    pub complete: bool,
    /// The subject of the client's certificate.
    pub client_subject: Option<String>,
}

/// One connection with a successful handshake.
#[derive(Debug, Clone)]
pub struct RecordedConnection {
    /// Its number, in the order of accepting, from 0.
    pub number: u64,
    /// The protocol: `http/1.1` or `h2`.
    pub protocol: &'static str,
    /// Whether TLS resumed an earlier session.
    pub resumed: bool,
    /// The subject of the client's certificate.
    pub client_subject: Option<String>,
    /// Whether it is still open.
    pub open: bool,
    /// Every byte that was read from it, after TLS.
    pub raw: Bytes,
}

/// The entries that [`Record::drain`] takes out.
#[derive(Debug, Clone)]
pub struct Drained {
    /// Requests that have arrived, or never will, in order of arrival.
    pub requests: Vec<Recorded>,
    /// The bytes of each connection, by its number.
    pub raw: Vec<(u64, Bytes)>,
    /// Whether something was dropped to stay below the bound.
    pub truncated: bool,
}

/// The record of a region; a cheap handle, usable from any thread.
#[derive(Debug, Clone)]
pub struct Record(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bytes_max: usize,
    kept: Mutex<Kept>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<Entry>,
    connections: VecDeque<ConnectionEntry>,
    next_order: u64,
    bytes: usize,
    truncated: bool,
}

#[derive(Debug)]
struct Entry {
    request: Recorded,
    // Grows while the body arrives; moved into `request.body` at its end.
    arriving: BytesMut,
}

#[derive(Debug)]
struct ConnectionEntry {
    connection: RecordedConnection,
    raw: BytesMut,
}

impl Record {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Shared { bytes_max, kept: Mutex::default(), changed: watch::Sender::new(0) }))
    }

    /// Every request, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.requests_to("")
    }

    /// The requests with a target that starts with `path_prefix`, in order of arrival.
    #[must_use]
    pub fn requests_to(&self, path_prefix: &str) -> Vec<Recorded> {
        let kept = self.0.kept.lock();
        kept.requests.iter().filter(|entry| entry.request.path.starts_with(path_prefix)).map(Entry::seen).collect()
    }

    /// Every connection, in order of accepting.
    #[must_use]
    pub fn connections(&self) -> Vec<RecordedConnection> {
        self.0.kept.lock().connections.iter().map(ConnectionEntry::seen).collect()
    }

    /// The arrived bytes of each connection, after TLS, requests that broke off included.
    #[must_use]
    pub fn raw_bytes(&self) -> Vec<Bytes> {
        self.connections().into_iter().map(|connection| connection.raw).collect()
    }

    /// Whether `needle` occurs in anything that was ever received: raw bytes, targets, headers, reassembled bodies.
    ///
    /// Panics when the record was truncated: "not found" would prove nothing then.
    #[must_use]
    pub fn contains(&self, needle: &[u8]) -> bool {
        let kept = self.0.kept.lock();
        assert!(!kept.truncated, "the record is truncated: raise `RegionOptions::record_bytes_max` or clear it");
        let finder = memchr::memmem::Finder::new(needle);
        let found = |bytes: &[u8]| finder.find(bytes).is_some();
        kept.connections.iter().any(|entry| found(&entry.raw))
            || kept.requests.iter().any(|entry| {
                let request = &entry.request;
                let in_headers = || {
                    request
                        .headers
                        .iter()
                        .any(|(name, value)| found(name.as_str().as_bytes()) || found(value.as_bytes()))
                };
                found(request.path.as_bytes()) || found(&request.body) || found(&entry.arriving) || in_headers()
            })
    }

    /// Whether something was dropped to stay below the bound.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.0.kept.lock().truncated
    }

    /// Forgets everything so far; open connections go on being recorded.
    pub fn clear(&self) {
        let mut kept = self.0.kept.lock();
        kept.requests.clear();
        kept.connections.retain_mut(|entry| {
            entry.raw.clear();
            entry.connection.open
        });
        kept.bytes = kept.connections.len() * ENTRY_BYTES;
        kept.truncated = false;
    }

    /// Takes out the entries since the last time, so that a long run can be judged in bounded memory.
    ///
    /// Shape: requests whose bodies are still arriving stay until they have arrived or their connection has closed.
    /// `raw` has each connection's bytes since, so that a word may stand across two drains.
    #[must_use]
    pub fn drain(&self) -> Drained {
        let mut kept = self.0.kept.lock();
        let kept = &mut *kept;
        let open: std::collections::HashSet<u64> =
            kept.connections.iter().filter(|it| it.connection.open).map(|it| it.connection.number).collect();
        let (ended, arriving): (VecDeque<Entry>, VecDeque<Entry>) = std::mem::take(&mut kept.requests)
            .into_iter()
            .partition(|it| it.request.complete || !open.contains(&it.request.connection));
        kept.requests = arriving;
        let requests: Vec<Recorded> = ended.iter().map(Entry::seen).collect();
        let taken = kept.connections.iter_mut().map(|it| (it.connection.number, it.raw.split().freeze()));
        let raw: Vec<(u64, Bytes)> = taken.collect();
        kept.connections.retain(|it| it.connection.open);
        kept.bytes = (kept.connections.len() + kept.requests.len()) * ENTRY_BYTES
            + kept.requests.iter().map(|it| it.arriving.len()).sum::<usize>();
        Drained { requests, raw, truncated: std::mem::take(&mut kept.truncated) }
    }

    /// Waits until `seen` holds, asking again after every change.
    ///
    /// Panics after a minute: the expected requests have not come. Needs a runtime whose time runs.
    pub async fn wait_for(&self, seen: impl Fn(&Self) -> bool) {
        eventually(self.0.changed.subscribe(), || seen(self)).await;
    }

    pub(super) fn opened(&self, connection: RecordedConnection) {
        self.change(|kept| {
            kept.bytes += ENTRY_BYTES;
            kept.connections.push_back(ConnectionEntry { connection, raw: BytesMut::new() });
        });
    }

    pub(super) fn closed(&self, number: u64) {
        self.change(|kept| {
            if let Some(entry) = kept.connection(number) {
                entry.connection.open = false;
            }
        });
    }

    pub(super) fn arrived(&self, number: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.change(|kept| {
            if let Some(entry) = kept.connection(number) {
                entry.raw.extend_from_slice(bytes);
                kept.bytes += bytes.len();
            }
        });
    }

    /// Notes the head of a request and gives its order number.
    pub(super) fn began(&self, mut request: Recorded) -> u64 {
        self.change(|kept| {
            let order = kept.next_order;
            kept.next_order += 1;
            kept.bytes += ENTRY_BYTES;
            request.order = order;
            kept.requests.push_back(Entry { request, arriving: BytesMut::new() });
            order
        })
    }

    pub(super) fn body_part(&self, order: u64, bytes: &[u8]) {
        self.change(|kept| {
            if let Some(entry) = kept.request(order) {
                entry.arriving.extend_from_slice(bytes);
                kept.bytes += bytes.len();
            }
        });
    }

    /// Notes that a body was read to its end; saying so twice changes nothing.
    pub(super) fn body_ended(&self, order: u64) {
        self.change(|kept| {
            if let Some(entry) = kept.request(order).filter(|entry| !entry.request.complete) {
                entry.request.body = std::mem::take(&mut entry.arriving).freeze();
                entry.request.complete = true;
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let changed = {
            let mut kept = self.0.kept.lock();
            let changed = change(&mut kept);
            kept.truncate(self.0.bytes_max);
            changed
        };
        self.0.changed.send_modify(|version| *version += 1);
        changed
    }
}

/// Waits until `holds`, asking again after every change. Panics after a minute.
pub(super) async fn eventually(mut changed: watch::Receiver<u64>, holds: impl Fn() -> bool) {
    let waited = tokio::time::timeout(WAIT_MAX, async {
        // The version is marked as seen before the question, so that a change during it asks once more.
        changed.borrow_and_update();
        while !holds() {
            if changed.changed().await.is_err() {
                return;
            }
        }
    });
    assert!(waited.await.is_ok(), "what was waited for did not come within {WAIT_MAX:?}");
}

impl Entry {
    fn seen(&self) -> Recorded {
        let mut request = self.request.clone();
        if !request.complete {
            request.body = Bytes::copy_from_slice(&self.arriving);
        }
        request
    }
}

impl ConnectionEntry {
    fn seen(&self) -> RecordedConnection {
        RecordedConnection { raw: Bytes::copy_from_slice(&self.raw), ..self.connection.clone() }
    }
}

impl Kept {
    // Both lists are in order and the recent entries are asked for most: searched from the end.
    fn connection(&mut self, number: u64) -> Option<&mut ConnectionEntry> {
        self.connections.iter_mut().rev().find(|entry| entry.connection.number == number)
    }

    fn request(&mut self, order: u64) -> Option<&mut Entry> {
        self.requests.iter_mut().rev().find(|entry| entry.request.order == order)
    }

    fn truncate(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            self.truncated = true;
            let request = self.requests.pop_front();
            let connection = self.connections.pop_front();
            let freed =
                request.as_ref().map_or(0, |entry| ENTRY_BYTES + entry.arriving.len() + entry.request.body.len())
                    + connection.as_ref().map_or(0, |entry| ENTRY_BYTES + entry.raw.len());
            if request.is_none() && connection.is_none() {
                self.bytes = 0;
            }
            self.bytes = self.bytes.saturating_sub(freed);
        }
    }
}
