//! The shard's name in place of the queue's own: only its suffix is put in, so that the client's bytes stay.

use super::Splices;
use crate::ojs::envelope::Envelope;
use crate::ojs::shards::{Spot, Spots};

impl Splices {
    /// Puts the job into a shard of its queue, wherever it names the queue. Returns whether it names none, so that `options` need it: servers
    /// place a job by these.
    pub(super) fn shard(&mut self, envelope: &Envelope<'_>, suffix: &str, spots: &Spots) -> bool {
        let queue = envelope.queue();
        let named = |spot: Option<Spot>| spot.filter(|spot| matches!(spot, Spot::Named(_)));
        let is_named = named(spots.at_root).or(named(spots.in_options)).is_some();
        for spot in [spots.at_root, spots.in_options].into_iter().flatten() {
            match spot {
                Spot::Named(at) => self.splice(at..at, |plan| plan.text(suffix)),
                Spot::Empty(at) if !is_named => self.splice(at..at, |plan| plan.texts(&[queue, suffix])),
                Spot::Null(at) if !is_named => {
                    self.replace_null(at, |plan| plan.texts(&["\"", queue, suffix, "\""]));
                }
                Spot::Empty(_) | Spot::Null(_) | Spot::Odd => {}
            }
        }
        !is_named && spots.in_options.is_none()
    }

    fn texts(&mut self, texts: &[&str]) {
        texts.iter().for_each(|text| self.text(text));
    }
}
