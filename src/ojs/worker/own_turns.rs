//! The words of a FETCH about the turns of its queues.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::members::{Member, OwnName, Span, slice, text_of};
use crate::base::QueueOrder;
use crate::ojs::key::{Likeness, Text};
use crate::ojs::scan::{ScanError, Scanner};

/// The words of a FETCH about the turns of its queues. Spec: fair-scheduling 5.2.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OwnTurns {
    /// The order that it names; none where it names none of the set.
    pub order: Option<QueueOrder>,
    /// Weights by queue, from 1 to [`QueueOrder::WEIGHT_MAX`], of the queues of the FETCH; greater ones are the greatest.
    pub weights: BTreeMap<String, u32>,
    /// The places of their members among all.
    pub(super) members: SmallVec<[usize; 2]>,
}

/// Reads the words among the members of a body that was read before. None where there are none, or where they could be read in two ways.
pub(super) fn read(text: &str, members: &[Member], is_queue: impl Fn(&str) -> bool) -> Option<OwnTurns> {
    let mut own = SmallVec::new();
    let [mut strategy, mut weights] = [None; 2];
    for (place, member) in members.iter().enumerate() {
        for (name, value) in [(OwnName::Strategy, &mut strategy), (OwnName::Weights, &mut weights)] {
            match member.likeness(name) {
                Likeness::Different => {}
                Likeness::Exact if value.is_none() => {
                    *value = Some(member.value);
                    own.push(place);
                }
                Likeness::Exact | Likeness::Variant => return None,
            }
        }
    }
    if own.is_empty() {
        return None;
    }
    let order = strategy.and_then(|span| QueueOrder::parse(&text_of(slice(text, span)?)?));
    let weights = weights.map(|span| read_weights(text, span, is_queue)).unwrap_or_default();
    Some(OwnTurns { order, weights, members: own })
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
