//! The end of an `Idempotency-Key` that all sidecars of a hub know.

use serde::{Deserialize, Serialize};

use super::claim::KeyClaim;
use super::copy::Place;
use super::hex::Digest;
use super::placement::{Placement, Settlement};
use super::told::Told;

/// The status of a stored job that was found later.
const CREATED: u16 = 201;

/// The end of a key, for its hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Verdict {
    /// The job is stored, and a repetition gets this status.
    Stored {
        /// Where.
        place: Place,
        /// The status of the answer.
        status: u16,
    },
    /// No region has the job: the key is free.
    Absent,
}

impl Placement {
    /// The end of its key; `None` while a job may come of it that is not known to be stored.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        if let Told::Stored { place, status } = &self.told {
            return Some(Verdict::Stored { place: place.clone(), status: *status });
        }
        // While another copy may come, it is not known which of the two is kept.
        if let Some(place) = self.stored().filter(|_| self.is_at_rest()) {
            return Some(Verdict::Stored { place: place.clone(), status: CREATED });
        }
        let is_open_ended =
            self.settled.is_some_and(|settled| matches!(settled.how, Settlement::Expired | Settlement::Doubled));
        (self.is_at_rest() && !is_open_ended).then_some(Verdict::Absent)
    }

    /// The verdict that its hub does not have.
    #[must_use]
    pub fn unsettled(&self) -> Option<Verdict> {
        self.key_claim.as_ref().filter(|claim| !claim.is_settled && self.identity.key.is_some())?;
        self.verdict()
    }

    /// Begins the claim of a further call.
    pub fn claim_key(&mut self, fresh: Digest) -> KeyClaim {
        let known = self.key_claim.as_deref().map(|claim| (claim.token, claim.attempt.saturating_add(1)));
        let (token, attempt) = known.unwrap_or((fresh, 1));
        let claim = KeyClaim { token, attempt, is_settled: false };
        self.key_claim = Some(Box::new(claim));
        claim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Moment, RegionId};
    use crate::outcome::{Event, Identity, Lost, Rules, ShownTo};
    use std::time::Duration;

    const RULES: Rules = Rules { grace: Duration::from_secs(1), lag: Duration::ZERO };

    fn placement() -> Placement {
        let identity = Identity {
            tenant: [0; 32],
            caller: [0; 32],
            shown_to: ShownTo::Everybody,
            body: [1; 32],
            content: None,
            key: Some([2; 32]),
            own_id: None,
            request_id: String::new(),
        };
        let mut placement = Placement::new(identity, Moment(1), 1);
        placement.claim_key([7; 32]);
        placement
    }

    fn place() -> Place {
        Place { region: RegionId::parse("a").unwrap(), job_id: "j".to_owned() }
    }

    #[test]
    fn a_key_is_free_only_when_no_region_may_have_its_job_and_settled_once_one_has() {
        let now = Moment(2);
        let mut sent = placement();
        assert_eq!(sent.unsettled(), None, "its call is under way");
        sent.apply(Event::Sending(place(), None), now, RULES);
        assert_eq!(sent.unsettled(), None);
        let mut lost = sent.clone();
        lost.apply(Event::Lost(0, Lost::Ended), now, RULES);
        lost.apply(Event::Told(Told::Unknown), now, RULES);
        assert_eq!(lost.unsettled(), None, "it may come");
        let mut refused = sent.clone();
        refused.apply(Event::NotStored(0), now, RULES);
        refused.apply(Event::Told(Told::Refused), now, RULES);
        assert_eq!(refused.unsettled(), Some(Verdict::Absent));
        sent.apply(Event::Stored(0), now, RULES);
        sent.apply(Event::Told(Told::Stored { place: place(), status: 200 }), now, RULES);
        assert_eq!(sent.unsettled(), Some(Verdict::Stored { place: place(), status: 200 }));
        lost.apply(Event::Stored(0), now, RULES);
        assert_eq!(lost.unsettled(), Some(Verdict::Stored { place: place(), status: 201 }));
        if let Some(claim) = &mut lost.key_claim {
            claim.is_settled = true;
        }
        assert_eq!(lost.unsettled(), None, "its hub has it");
        lost.apply(Event::Settled(Settlement::Expired), now, RULES);
        let again = lost.claim_key([8; 32]);
        assert_eq!((again.token, again.attempt, again.is_settled), ([7; 32], 2, false));
    }

    #[test]
    fn what_stays_unknown_or_is_there_twice_frees_no_key() {
        for how in [Settlement::Expired, Settlement::Doubled] {
            let mut placement = placement();
            placement.apply(Event::Sending(place(), None), Moment(2), RULES);
            placement.apply(Event::Lost(0, Lost::TimedOut), Moment(2), RULES);
            placement.apply(Event::Told(Told::Unknown), Moment(2), RULES);
            placement.apply(Event::Settled(how), Moment(3), RULES);
            assert_eq!(placement.unsettled(), None, "{how:?}");
        }
    }
}
