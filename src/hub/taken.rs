//! The isolations that hubs of other regions have set, as this hub has taken them over.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, RegionId, SwitchKind, SwitchSubject};
use crate::switch::{Isolation, Switch, Switches};

/// An isolation of another hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TakenIsolation {
    /// The region of the hub that has set it.
    pub(super) source: RegionId,
    /// The isolation as that hub shows it.
    pub(super) isolation: Isolation,
    /// Whether an operator has ended it here: it is kept, so that it is not taken over again while the source shows it.
    is_ended: bool,
}

/// The isolations of other hubs. Shape: at most one for each source and region.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Taken(Vec<TakenIsolation>);

/// The change that an answer of a source has made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// Those that are in force from now on.
    pub(super) set: Vec<Isolation>,
    /// Those that the source does not show any more.
    pub(super) ended: Vec<Isolation>,
}

impl Taken {
    /// Takes the isolations that a source shows in place of those that it has shown before. One whose time is over is left out.
    pub(super) fn follow(&mut self, source: &RegionId, shown: &[Isolation], now: Moment) -> Followed {
        let goes = |it: &mut TakenIsolation| it.source == *source && !shown.contains(&it.isolation);
        let gone = self.0.extract_if(.., goes).collect::<Vec<_>>();
        // An isolation that was set anew is no end of the one before.
        let is_over =
            |it: &TakenIsolation| !it.is_ended && !shown.iter().any(|shown| shown.region == it.isolation.region);
        let ended = gone.into_iter().filter(is_over).map(|it| it.isolation).collect();
        let mut set = Vec::new();
        for isolation in shown.iter().filter(|it| it.ends_ms > now.0) {
            if !self.0.iter().any(|it| it.source == *source && it.isolation.region == isolation.region) {
                self.0.push(TakenIsolation { source: source.clone(), isolation: isolation.clone(), is_ended: false });
                set.push(isolation.clone());
            }
        }
        Followed { set, ended }
    }

    /// Those that no operator has ended here, in the order in which they were taken over.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TakenIsolation> {
        self.0.iter().filter(|it| !it.is_ended)
    }

    /// Ends those of this kind, or of every kind, about a subject, and returns them.
    pub(super) fn end(&mut self, kind: Option<SwitchKind>, subject: &SwitchSubject) -> Vec<Switch> {
        let is_isolation = kind.is_none_or(|kind| kind == SwitchKind::Isolate);
        let of =
            |it: &&mut TakenIsolation| is_isolation && !it.is_ended && subject.region() == Some(&it.isolation.region);
        let end = |it: &mut TakenIsolation| {
            it.is_ended = true;
            it.isolation.switch()
        };
        self.0.iter_mut().filter(of).map(end).collect()
    }

    /// Forgets those whose time is over, and returns those of them that were in force.
    pub(super) fn expire(&mut self, now: Moment) -> Vec<Switch> {
        let over = self.0.extract_if(.., |it| it.isolation.ends_ms <= now.0);
        over.filter(|it| !it.is_ended).map(|it| it.isolation.switch()).collect()
    }

    /// When the first one in force ends.
    pub(super) fn first_end(&self) -> Option<Moment> {
        self.iter().map(|it| Moment(it.isolation.ends_ms)).min()
    }

    /// These together with switches of this hub: of two about a region the stricter one.
    pub(super) fn joined(&self, own: &Switches) -> Switches {
        let mut all = own.clone();
        self.iter().for_each(|it| all.join(it.isolation.switch()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment(1_000);

    fn id(text: &str) -> RegionId {
        RegionId::parse(text).unwrap()
    }

    fn isolation(region: &str, since_ms: u64) -> Isolation {
        let text = || "x".to_owned();
        Isolation { region: id(region), since_ms, ends_ms: 9_000, reason: text(), ticket: text(), author: text() }
    }

    fn of(regions: &[&str]) -> Vec<Isolation> {
        regions.iter().map(|region| isolation(region, 1)).collect()
    }

    fn names(taken: &Taken) -> Vec<String> {
        taken.iter().map(|it| format!("{} of {}", it.isolation.region.as_str(), it.source.as_str())).collect()
    }

    #[test]
    fn an_isolation_is_taken_once_and_ends_when_its_source_does_not_show_it() {
        let (mut taken, us, ap) = (Taken::default(), id("us"), id("ap"));
        assert_eq!(taken.follow(&us, &of(&["eu"]), NOW).set, of(&["eu"]));
        assert_eq!(taken.follow(&us, &of(&["eu"]), NOW), Followed::default());
        assert_eq!(taken.follow(&ap, &of(&["eu", "sa"]), NOW).set.len(), 2);
        assert_eq!(names(&taken), ["eu of us", "eu of ap", "sa of ap"]);
        assert_eq!(taken.follow(&ap, &[], NOW).ended, of(&["eu", "sa"]), "that of the other source stays");
        assert_eq!(names(&taken), ["eu of us"]);
        let again = taken.follow(&us, &[isolation("eu", 2)], NOW);
        assert_eq!((again.set.len(), again.ended.len()), (1, 0), "set anew");
    }

    #[test]
    fn an_isolation_that_an_operator_has_ended_comes_back_only_when_its_source_sets_another_one() {
        let (mut taken, us) = (Taken::default(), id("us"));
        taken.follow(&us, &of(&["eu"]), NOW);
        let subject = SwitchSubject::Region(id("eu"));
        assert!(taken.end(Some(SwitchKind::Drain), &subject).is_empty());
        assert_eq!((taken.end(None, &subject).len(), taken.end(None, &subject).len()), (1, 0));
        let mut read: Taken = serde_json::from_str(&serde_json::to_string(&taken).unwrap()).unwrap();
        assert_eq!(read.follow(&us, &of(&["eu"]), NOW), Followed::default(), "also after a restart");
        assert!(names(&read).is_empty() && read.first_end().is_none());
        assert_eq!(read.follow(&us, &[isolation("eu", 2)], NOW).set.len(), 1);
        read.end(None, &subject);
        assert_eq!(read.follow(&us, &[], NOW), Followed::default(), "its end here was noted");
        assert_eq!(read, Taken::default());
    }

    #[test]
    fn an_isolation_ends_in_its_time_also_while_its_source_still_shows_it() {
        let (mut taken, us) = (Taken::default(), id("us"));
        taken.follow(&us, &of(&["eu"]), NOW);
        assert_eq!((taken.first_end(), taken.expire(NOW).len()), (Some(Moment(9_000)), 0));
        assert_eq!(taken.expire(Moment(9_000)).len(), 1);
        assert_eq!(taken.follow(&us, &of(&["eu"]), Moment(9_000)), Followed::default());
    }

    #[test]
    fn an_own_switch_stays_beside_a_taken_one_and_the_stricter_one_counts() {
        let (mut taken, mut own) = (Taken::default(), Switches::default());
        own.set(Switch { kind: SwitchKind::Drain, ..isolation("eu", 1).switch() });
        taken.follow(&id("us"), &of(&["eu"]), NOW);
        assert_eq!(taken.joined(&own).of_region(&id("eu")), Some(SwitchKind::Isolate));
        taken.follow(&id("us"), &[], NOW);
        assert_eq!(taken.joined(&own).of_region(&id("eu")), Some(SwitchKind::Drain));
    }
}
