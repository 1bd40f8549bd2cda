//! Decides when a drill is to end.

use std::time::Duration;

use super::super::drill_order::{Cause, Drill};
use crate::base::RegionId;
use crate::base::text::print_duration;
use crate::switch::{DrillCounts, Unwell};

/// Fewer diverted jobs say nothing: one of them may fail anywhere.
const JOBS_MIN: u64 = 20;
/// As many failures as this, beside those that the control group would have had of as many jobs, are no accident of one job.
const EXCESS_MIN: u128 = 3;

/// Why a drill is to end now, with the figures for people; none where it goes on. `counts`: of all sidecars. `unhealthy`: the regions that the hub's probes find so.
pub(super) fn judge(
    drill: &Drill,
    counts: &DrillCounts,
    unhealthy: &[RegionId],
    unix_ms: u64,
) -> Option<(Cause, String)> {
    let by_hub = unhealthy.iter().filter(|it| drill.well.contains(it)).map(|it| (it, Unwell::Unhealthy, "the hub"));
    // A region that was not well for the hub before is not lost by the drill.
    let by_sidecars = counts.unwell.iter().filter(|(region, _)| !drill.unwell.contains(region));
    let by_sidecars = by_sidecars.map(|(region, state)| (region, *state, "a sidecar"));
    let mut lost: Vec<_> = by_hub.chain(by_sidecars).collect();
    // An outage of the drilled region itself comes first: the drill would hide it.
    lost.sort_by_key(|(region, ..)| **region != drill.region);
    if let Some((region, state, by)) = lost.first() {
        let (cause, how) = match state {
            Unwell::Unhealthy => (Cause::RegionUnhealthy, "unhealthy"),
            Unwell::BreakerOpen => (Cause::BreakerOpen, "behind an open breaker"),
        };
        let cause = if **region == drill.region { Cause::DrilledRegionLost } else { cause };
        return Some((cause, format!("{region} is {how}, by {by}")));
    }
    let (diverted, control) = (counts.all_diverted(), &counts.control);
    if diverted.jobs() >= JOBS_MIN {
        let of = |it: &crate::switch::DrillGroup| (it.troubled(), it.jobs());
        if drill.abort_failures.is_exceeded(of(&diverted), of(control)) && is_frequent(of(&diverted), of(control)) {
            let [(failed, all), (failed_there, all_there)] = [of(&diverted), of(control)];
            let detail = format!(
                "{failed} of {all} diverted jobs failed, and {failed_there} of {all_there} of the control group"
            );
            return Some((Cause::Failures, detail));
        }
        let bound = drill.abort_latency_ms.map(Duration::from_millis);
        if let Some((mean, bound)) = diverted.mean().zip(bound).filter(|(mean, bound)| mean > bound) {
            let [mean, bound] = [mean, bound].map(print_duration);
            return Some((Cause::Latency, format!("diverted jobs took {mean} on average, and may take {bound}")));
        }
    }
    (unix_ms >= drill.ends_ms).then(|| (Cause::TimeOver, String::new()))
}

/// Whether enough of the jobs failed besides those that would have at the share of the control group.
fn is_frequent((failed, all): (u64, u64), (failed_there, all_there): (u64, u64)) -> bool {
    let [failed, all, failed_there, all_there] = [failed, all, failed_there, all_there.max(1)].map(u128::from);
    let excess = failed.saturating_mul(all_there).saturating_sub(failed_there.saturating_mul(all));
    excess >= EXCESS_MIN.saturating_mul(all_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Share;
    use crate::switch::DrillGroup;

    fn id(text: &str) -> RegionId {
        RegionId::parse(text).unwrap()
    }

    fn drill() -> Drill {
        let text = || "x".to_owned();
        Drill {
            id: text(),
            region: id("us"),
            share: Share::parse("5%").unwrap(),
            began_ms: 0,
            ends_ms: 1_000,
            abort_failures: Share::parse("1%").unwrap(),
            abort_latency_ms: Some(50),
            well: vec![id("us"), id("eu")],
            unwell: vec![id("ap")],
            reason: text(),
            ticket: text(),
            author: text(),
            ended: None,
        }
    }

    /// Counts of jobs in `eu`, and of the control group.
    fn counts(diverted: [u64; 4], control: [u64; 4]) -> DrillCounts {
        let group = |[stored, refused, failed, unknown]: [u64; 4]| DrillGroup {
            stored,
            refused,
            failed,
            unknown,
            ..DrillGroup::default()
        };
        let diverted = [(id("eu"), group(diverted))].into();
        DrillCounts { diverted, control: group(control), ..DrillCounts::default() }
    }

    fn cause(counts: &DrillCounts, unhealthy: &[&str], at: u64) -> Option<Cause> {
        let unhealthy: Vec<RegionId> = unhealthy.iter().map(|it| id(it)).collect();
        judge(&drill(), counts, &unhealthy, at).map(|(cause, _)| cause)
    }

    #[test]
    fn a_drill_ends_when_more_diverted_jobs_fail_than_others() {
        for (diverted, control, expected) in [
            ([19, 0, 0, 0], [0; 4], None),
            ([0, 0, 19, 0], [0; 4], None),
            ([0, 0, 20, 0], [0; 4], Some(Cause::Failures)),
            ([99, 0, 1, 0], [0; 4], None),
            ([19, 0, 1, 0], [0; 4], None),
            ([98, 0, 2, 0], [0; 4], None),
            ([97, 0, 3, 0], [0; 4], Some(Cause::Failures)),
            ([97, 1, 1, 1], [100, 0, 0, 0], Some(Cause::Failures)),
            ([97, 1, 1, 1], [99, 1, 0, 0], None),
            ([98, 2, 0, 0], [98, 2, 0, 0], None),
            ([90, 10, 0, 0], [95, 5, 0, 0], Some(Cause::Failures)),
        ] {
            assert_eq!(cause(&counts(diverted, control), &[], 0), expected, "{diverted:?} {control:?}");
        }
    }

    #[test]
    fn a_drill_ends_when_a_region_is_lost_and_first_the_drilled_one() {
        let none = DrillCounts::default();
        assert_eq!(cause(&none, &[], 999), None);
        assert_eq!(cause(&none, &["ap"], 0), None, "it was not well before");
        assert_eq!(cause(&none, &["eu"], 0), Some(Cause::RegionUnhealthy));
        assert_eq!(cause(&none, &["eu", "us"], 0), Some(Cause::DrilledRegionLost));
        let open = DrillCounts { unwell: [(id("eu"), Unwell::BreakerOpen)].into(), ..DrillCounts::default() };
        assert_eq!(cause(&open, &[], 0), Some(Cause::BreakerOpen));
        let before = DrillCounts { unwell: [(id("ap"), Unwell::Unhealthy)].into(), ..DrillCounts::default() };
        assert_eq!(cause(&before, &[], 0), None, "the hub found it unwell before");
        let own = DrillCounts { unwell: [(id("us"), Unwell::BreakerOpen)].into(), ..open };
        assert_eq!(cause(&own, &[], 0), Some(Cause::DrilledRegionLost));
        assert_eq!(cause(&none, &[], 1_000), Some(Cause::TimeOver));
    }

    #[test]
    fn a_drill_ends_when_diverted_jobs_take_too_long() {
        let mut slow = counts([20, 0, 0, 0], [0; 4]);
        let group = slow.diverted.get_mut(&id("eu")).unwrap();
        group.waited_us = 20 * 50_000;
        assert_eq!(cause(&slow, &[], 0), None);
        slow.diverted.get_mut(&id("eu")).unwrap().waited_us += 20;
        assert_eq!(cause(&slow, &[], 0), Some(Cause::Latency));
    }
}
