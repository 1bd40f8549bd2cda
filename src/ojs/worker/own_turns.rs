//! The words of a FETCH about the turns of its queues.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::members::{Span, slice, text_of};
use crate::base::QueueOrder;
use crate::ojs::key::{Likeness, Text, likeness};
use crate::ojs::scan::{ScanError, Scanner};

const STRATEGY: &str = "strategy";
const WEIGHTS: &str = "weights";

/// The words of a FETCH about the turns of its queues. Spec: fair-scheduling 5.2.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OwnTurns {
    /// The order that it names; none where it names none of the set.
    pub order: Option<QueueOrder>,
    /// Weights by queue, from 1 to [`QueueOrder::WEIGHT_MAX`], of the queues of the FETCH; greater ones are the greatest.
    pub weights: BTreeMap<String, u32>,
    /// Where the names of their members begin.
    pub(super) members: SmallVec<[usize; 2]>,
}

/// Reads the words in a body that was read before. None where there are none, or where they could be read in two ways.
pub(super) fn read(text: &str, open: usize, is_queue: impl Fn(&str) -> bool) -> Option<OwnTurns> {
    let has = |name: &str| memchr::memmem::find(text.as_bytes(), name.as_bytes()).is_some();
    if !has(STRATEGY) && !has(WEIGHTS) {
        return None;
    }
    let mut members = SmallVec::new();
    let [mut strategy, mut weights] = [None; 2];
    let mut is_clear = true;
    let read = Scanner::again(text, open, &[]).object(|scanner, key| {
        let name = key.decode();
        let span = scanner.skip()?;
        for (known, value) in [(STRATEGY, &mut strategy), (WEIGHTS, &mut weights)] {
            match likeness(&name, known) {
                Likeness::Different => {}
                Likeness::Exact if value.is_none() => {
                    *value = Some(span);
                    members.push(key.at);
                }
                Likeness::Exact | Likeness::Variant => is_clear = false,
            }
        }
        Ok::<(), ScanError>(())
    });
    if read.is_err() || !is_clear || (strategy.is_none() && weights.is_none()) {
        return None;
    }
    let order = strategy.and_then(|span| QueueOrder::parse(&text_of(slice(text, span)?)?));
    let weights = weights.map(|span| read_weights(text, span, is_queue)).unwrap_or_default();
    Some(OwnTurns { order, weights, members })
}

/// A table that is none gives no weights.
fn read_weights(text: &str, (start, _): Span, is_queue: impl Fn(&str) -> bool) -> BTreeMap<String, u32> {
    let mut weights = BTreeMap::new();
    let read = Scanner::again(text, start, &[]).object(|scanner, queue: Text<'_>| {
        let (queue, span) = (queue.decode(), scanner.skip()?);
        let weight = slice(text, span).and_then(|raw| raw.parse::<u64>().ok()).filter(|weight| *weight > 0);
        if let Some(weight) = weight.filter(|_| is_queue(&queue)) {
            let weight = u32::try_from(weight).unwrap_or(u32::MAX).min(QueueOrder::WEIGHT_MAX);
            weights.insert(queue.into_owned(), weight);
        }
        Ok::<(), ScanError>(())
    });
    if read.is_ok() { weights } else { BTreeMap::new() }
}
