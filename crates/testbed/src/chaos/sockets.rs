//! The bytes at the regions' sockets, judged piece by piece, so that a long run takes bounded memory: the marks seen at
//! each region, and its calls.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use http::Method;
use smallvec::SmallVec;

use super::ledger::{JobId, Mark, call_of, id_of, marks_in};
use crate::DemoRegion;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// The end of a connection's bytes is searched again with the following bytes: longer than a mark.
const CARRY: usize = 24;

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// By mark: the regions that saw it, a bit for each.
    seen: Vec<u8>,
    /// By the first mark of a call: the number of the call, region.
    arrivals: HashMap<Mark, SmallVec<[(u8, u8); 2]>>,
    /// Acknowledgements: of which job, at which region.
    pub(super) acks: HashSet<(JobId, u8)>,
    carried: HashMap<(u8, u64), Vec<u8>>,
    /// Enqueues that came to a region.
    pub(super) enqueues: u64,
    /// Questions for a job.
    pub(super) questions: u64,
    /// Whether a record could not keep everything.
    pub(super) truncated: bool,
}

impl Sockets {
    /// The regions at which a mark was seen.
    pub(super) fn seen(&self, mark: Mark) -> u8 {
        self.seen.get(mark as usize).copied().unwrap_or(0)
    }

    /// Where the calls came that began with this mark.
    pub(super) fn arrivals(&self, first: Mark) -> &[(u8, u8)] {
        self.arrivals.get(&first).map_or(&[], |all| all.as_slice())
    }

    /// Takes in what has arrived at a region since the last time.
    pub(super) fn look(&mut self, place: u8, region: &DemoRegion) {
        let drained = region.record().drain();
        self.truncated |= drained.truncated;
        for request in &drained.requests {
            if request.path == "/ojs/v1/workers/ack" {
                let document: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
                self.acks.extend(document["job_id"].as_str().and_then(id_of).map(|id| (id, place)));
            }
            if !request.path.starts_with("/ojs/v1/jobs") {
                continue;
            }
            if request.method == Method::GET {
                self.questions += 1;
            }
            if request.method != Method::POST {
                continue;
            }
            self.enqueues += 1;
            let id = request.headers.get("x-request-id").and_then(|value| value.to_str().ok());
            if let Some((first, send)) = id.and_then(call_of) {
                self.arrivals.entry(first).or_default().push((send, place));
            }
            marks_in(&request.body).for_each(|mark| self.note(mark, place));
        }
        for (number, raw) in drained.raw {
            let mut bytes = self.carried.remove(&(place, number)).unwrap_or_default();
            if raw.is_empty() {
                // Closed, or silent; its last bytes have been searched.
                continue;
            }
            bytes.extend_from_slice(&raw);
            let marks: SmallVec<[Mark; 16]> = marks_in(&bytes).collect();
            marks.into_iter().for_each(|mark| self.note(mark, place));
            bytes.drain(..bytes.len().saturating_sub(CARRY));
            self.carried.insert((place, number), bytes);
        }
    }

    fn note(&mut self, mark: Mark, place: u8) {
        let at = mark as usize;
        // A number that no client ever drew is no mark.
        if at >= MARKS_MAX {
            return;
        }
        if self.seen.len() <= at {
            self.seen.resize(at + 1, 0);
        }
        if let Some(seen) = self.seen.get_mut(at) {
            *seen |= 1_u8.wrapping_shl(u32::from(place));
        }
    }
}

const MARKS_MAX: usize = 100_000_000;

/// Looks until it is aborted.
pub(super) async fn watch(sockets: Rc<RefCell<Sockets>>, regions: Rc<Vec<DemoRegion>>) {
    loop {
        tokio::time::sleep(EVERY).await;
        for (region, place) in regions.iter().zip(0..) {
            sockets.borrow_mut().look(place, region);
        }
    }
}
