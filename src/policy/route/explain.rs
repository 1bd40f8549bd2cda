//! The dry run: the same decision, with its reasons.

use std::fmt::Write as _;

use super::decide::{Decision, decide};
use super::ranking::{Inputs, Ranking, Slot, Standing};
use crate::base::Strategy;
use crate::policy::error::RouteError;
use crate::policy::index::RegionIndex;
use crate::policy::job::Job;
use crate::policy::refusal::Refusal;
use crate::policy::view::View;

/// The result that a live call would get, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The strategy that was asked for; `None` when the job's own attributes cannot be followed.
    pub strategy: Option<Strategy>,
    /// The decision, or the error.
    pub outcome: Result<Decision, RouteError>,
    /// Every region: candidates in the order in which they would be tried, then those that fell out.
    pub candidates: Vec<Scored>,
}

/// One region's part in a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The region.
    pub region: RegionIndex,
    /// From 0 to 1; 0 for a region that fell out.
    ///
    /// A candidate's score is that of the term that ranked it (see each strategy), and never more than the score of the
    /// candidate before it, because health, the ramp after a recovery and `prefer_regions` go before that term.
    pub score: f64,
    /// Why it fell out; `None` for a candidate.
    pub refusal: Option<Refusal>,
    /// The same for people.
    pub reason: String,
}

/// Takes the decision of a view, without a look at its drill, with its reasons; see [`super::explain()`].
pub(super) fn explained(view: &View, job: &Job<'_>, inputs: Inputs<'_>) -> Explanation {
    let mut ranking = Ranking::default();
    let outcome = decide(view, job, inputs, &mut ranking);
    Explanation { strategy: ranking.strategy, outcome, candidates: scored(view, &ranking) }
}

/// Every region of a ranking, as [`Explanation`] has them.
pub(super) fn scored(view: &View, ranking: &Ranking) -> Vec<Scored> {
    let mut ceiling = 1.0_f64;
    let candidates = ranking.slots.iter().enumerate().map(|(place, slot)| {
        ceiling = ceiling.min(slot.score.clamp(0.0, 1.0));
        let reason = reason(slot, place >= view.settings.candidates_max);
        Scored { region: slot.region, score: ceiling, refusal: None, reason }
    });
    candidates.chain(refused(ranking)).collect()
}

/// The regions that have fallen out of a ranking.
pub(super) fn refused(ranking: &Ranking) -> impl Iterator<Item = Scored> {
    let scored = |&(region, refusal): &(RegionIndex, Refusal)| Scored {
        region,
        score: 0.0,
        refusal: Some(refusal),
        reason: refusal.to_string(),
    };
    ranking.refused.iter().map(scored)
}

fn reason(slot: &Slot, beyond_redirects: bool) -> String {
    let mut text = slot.reason.to_string();
    text.push_str(match slot.standing {
        Standing::Sound => ", healthy",
        Standing::Pressed => ", healthy, asks for less",
        Standing::Paused => ", healthy, asked to be left alone for a while",
        Standing::RampingUp => ", healthy, ramping up after its recovery",
        Standing::Unknown => ", never probed",
        Standing::HeldDown => ", held down because it came and went too often",
        Standing::LastGood => ", not usable, tried because no region is",
        Standing::Silent => ", silent: it answers nothing",
    });
    if beyond_redirects {
        // Writing to a String cannot fail.
        let _ = write!(text, ", beyond the permitted redirects");
    }
    text
}
