//! The record of a job: its copies, and the one among them that counts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::change::{Change, ChangeKind, JobFacts};
use super::unify::merged;
use crate::base::RegionId;
use crate::base::text::rfc3339;

/// One copy of a job, as the facts about it give it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// The job.
    pub job_id: String,
    /// The region that has it.
    pub region: RegionId,
    /// The tracking id, where it is known.
    pub federation_id: Option<String>,
    /// The region that it was replicated from.
    pub replicated_from: Option<String>,
    /// Its description; none where no fact has one, so that it is not known whether the job is bound.
    pub job: Option<JobFacts>,
    /// Its state, in the words of OJS.
    pub state: String,
    /// When it came into this state. Units: milliseconds since the Unix epoch.
    pub changed_ms: u64,
    /// Whether a worker has ever got it.
    pub is_started: bool,
    /// The facts, in the order of the copy's life.
    pub history: Vec<Change>,
}

impl Copy {
    /// The copy that these facts are about; they are of one job in one region, each once. `None` without any.
    fn of(facts: Vec<Change>) -> Option<Self> {
        let mut facts = merged(facts);
        facts.sort_by_key(|it| (it.lease_ms, it.kind, it.at_ms));
        let first = facts.first()?;
        let (job_id, region) = (first.job_id.clone(), first.region.clone());
        let text = |of: fn(&Change) -> &Option<String>| facts.iter().filter_map(|it| of(it).clone()).max();
        let (federation_id, replicated_from) = (text(|it| &it.federation_id), text(|it| &it.replicated_from));
        let job = facts.iter().find_map(|it| it.job.clone());
        let present = present(&facts)?;
        let state = present.state.clone().unwrap_or_else(|| present.kind.state().to_owned());
        let changed_ms = present.at_ms;
        let is_started = facts.iter().any(|it| it.kind > ChangeKind::Created && it.kind != ChangeKind::Cancelled);
        Some(Self {
            job_id,
            region,
            federation_id,
            replicated_from,
            job,
            state,
            changed_ms,
            is_started,
            history: facts,
        })
    }

    /// The key of the order in which the last writer wins: when it was enqueued, then the region, then the job. The federation id, which
    /// the specification names as the tie-break, is the same for all copies. Spec: federation-spec §5.2.
    #[must_use]
    pub fn writer(&self) -> (u64, &RegionId, &str) {
        (self.enqueued_ms(), &self.region, &self.job_id)
    }

    /// When it was enqueued: by its region, else when the first fact about it was seen. Units: milliseconds since the Unix epoch.
    #[must_use]
    pub fn enqueued_ms(&self) -> u64 {
        self.stored_ms().unwrap_or_else(|| self.history.iter().map(|it| it.at_ms).min().unwrap_or(0))
    }

    /// When it was enqueued: by its region, else when a sidecar saw that it was stored. `None` where only later changes are known. Units:
    /// milliseconds since the Unix epoch.
    #[must_use]
    pub fn stored_ms(&self) -> Option<u64> {
        let created = || self.history.iter().find(|it| it.kind == ChangeKind::Created).map(|it| it.at_ms);
        self.job.as_ref().and_then(|it| it.enqueued_ms).or_else(created)
    }

    /// As look-ups show it. `here`: the region of the index; the description of a copy elsewhere was replicated from there. Spec:
    /// federation-spec §5.1.
    fn shown(&self, is_winner: bool, here: &RegionId) -> Value {
        let elsewhere = Some(self.region.as_str()).filter(|region| *region != here.as_str());
        let history = self.history.iter().map(|it| {
            let mut shown = json!({ "change": it.kind, "at": rfc3339(it.at_ms), "state": it.state });
            if let Some(source) = it.observed_by {
                shown["observed_by"] = json!(source);
            }
            shown
        });
        json!({
            "job_id": self.job_id,
            "region": self.region,
            "state": self.state,
            "changed_at": rfc3339(self.changed_ms),
            "enqueued_at": rfc3339(self.enqueued_ms()),
            "type": self.job.as_ref().map(|it| &it.job_type),
            "queue": self.job.as_ref().map(|it| &it.queue),
            "tenant": self.job.as_ref().map(|it| &it.tenant),
            "bound": self.job.as_ref().map(|it| it.bound),
            "replicated_from": self.replicated_from.as_deref().or(elsewhere),
            "winner": is_winner,
            "history": history.collect::<Vec<_>>(),
        })
    }
}

/// The fact that decides the state: the last final one, else the last one of the last lease.
fn present(facts: &[Change]) -> Option<&Change> {
    let finals = facts.iter().filter(|it| it.kind.is_final());
    finals.max_by_key(|it| (it.at_ms, it.kind)).or_else(|| facts.last())
}

/// All copies with one tracking id, or of one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The copies, by region and job.
    pub copies: Vec<Copy>,
}

impl Record {
    /// The record that these facts give, in whichever order and however often they come.
    #[must_use]
    pub fn of(facts: impl IntoIterator<Item = Change>) -> Self {
        let mut all: BTreeMap<(RegionId, String), BTreeMap<(ChangeKind, u64), Change>> = BTreeMap::new();
        for it in facts {
            let copy = all.entry((it.region.clone(), it.job_id.clone())).or_default();
            let fact = match copy.remove(&(it.kind, it.lease_ms)) {
                Some(known) => known.joined(it),
                None => it,
            };
            copy.insert((fact.kind, fact.lease_ms), fact);
        }
        Self { copies: all.into_values().filter_map(|facts| Copy::of(facts.into_values().collect())).collect() }
    }

    /// The copy that counts: the last writer's.
    #[must_use]
    pub fn winner(&self) -> Option<&Copy> {
        self.copies.iter().max_by(|a, b| a.writer().cmp(&b.writer()))
    }

    /// The document of look-ups in the index of the region `here`. `federation_id`: that of the winner.
    #[must_use]
    pub fn shown(&self, here: &RegionId) -> Value {
        let winner = self.winner();
        let is_winner = |copy: &Copy| winner.is_some_and(|it| std::ptr::eq(it, copy));
        json!({
            "federation_id": winner.and_then(|it| it.federation_id.clone()),
            "region": winner.map(|it| &it.region),
            "state": winner.map(|it| &it.state),
            "copies": self.copies.iter().map(|it| it.shown(is_winner(it), here)).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::change::tests::change;
    use super::*;

    fn state(facts: &[Change]) -> String {
        Record::of(facts.to_vec()).copies[0].state.clone()
    }

    #[test]
    fn the_state_of_a_copy_is_that_after_its_last_change() {
        let created = change(ChangeKind::Created, 0, 10);
        let (leased, failed) = (change(ChangeKind::Leased, 100, 100), change(ChangeKind::Failed, 100, 90));
        assert_eq!(state(std::slice::from_ref(&created)), "available");
        assert_eq!(state(&[leased.clone(), created.clone()]), "active");
        assert_eq!(
            state(&[failed.clone(), leased.clone(), created.clone()]),
            "retryable",
            "clocks differ: the lease orders them"
        );
        let dead = Change { state: Some("discarded".to_owned()), ..failed };
        assert_eq!(state(&[dead.clone(), leased.clone(), created.clone()]), "discarded", "the region has said so");
        let again = change(ChangeKind::Leased, 200, 200);
        assert_eq!(state(&[again.clone(), dead, leased.clone(), created.clone()]), "active");
        let completed = change(ChangeKind::Completed, 0, 150);
        assert_eq!(
            state(&[completed.clone(), leased, created, again]),
            "completed",
            "a lease that is not known orders nothing"
        );
    }

    #[test]
    fn a_job_without_a_description_is_not_said_to_be_free() {
        let here = RegionId::parse("us").unwrap();
        let leased = Record::of([change(ChangeKind::Leased, 100, 100)]).shown(&here);
        assert_eq!(leased["copies"][0]["bound"], Value::Null);
        assert_eq!(Record::of([copy("eu", "1", 5)]).shown(&here)["copies"][0]["bound"], false);
    }

    #[test]
    fn a_copy_of_another_region_is_shown_as_replicated_from_there() {
        let shown = |copy: Change, here: &str| {
            let record = Record::of([copy]).shown(&RegionId::parse(here).unwrap());
            record["copies"][0]["replicated_from"].clone()
        };
        assert_eq!((shown(copy("eu", "1", 5), "us"), shown(copy("eu", "1", 5), "eu")), (json!("eu"), Value::Null));
        let replica = Change { replicated_from: Some("ap".to_owned()), ..copy("eu", "1", 5) };
        assert_eq!(shown(replica, "us"), "ap");
    }

    fn copy(region: &str, job: &str, enqueued_ms: u64) -> Change {
        let region = RegionId::parse(region).unwrap();
        let facts = JobFacts { enqueued_ms: Some(enqueued_ms), ..JobFacts::default() };
        Change { region, job_id: job.to_owned(), job: Some(facts), ..change(ChangeKind::Created, 0, 1) }
    }

    /// The published vectors of conflicts, see docs/guide/hub.md.
    #[test]
    fn the_last_writer_wins_then_the_greater_region_then_the_greater_job() {
        for (copies, winner) in [
            (vec![copy("a", "1", 5), copy("b", "2", 4)], ("a", "1")),
            (vec![copy("a", "1", 5), copy("b", "2", 5)], ("b", "2")),
            (vec![copy("a", "1", 5), copy("a", "2", 5)], ("a", "2")),
            (vec![copy("c", "1", 5), copy("b", "9", 6), copy("a", "5", 6)], ("b", "9")),
        ] {
            for turn in 0..copies.len() {
                let mut copies = copies.clone();
                copies.rotate_left(turn);
                let record = Record::of(copies.clone());
                let found = record.winner().unwrap();
                assert_eq!((found.region.as_str(), found.job_id.as_str()), winner, "{copies:?}");
            }
        }
    }

    fn any_change() -> impl Strategy<Value = Change> {
        let kind = prop::sample::select(ChangeKind::ALL.to_vec());
        let text = || prop::option::of(prop::sample::select(vec!["x".to_owned(), "y".to_owned()]));
        let job = prop::option::of((text(), 0..4_u64).prop_map(|(queue, enqueued)| JobFacts {
            queue,
            enqueued_ms: Some(enqueued),
            ..JobFacts::default()
        }));
        let place = (prop::sample::select(vec!["a", "b"]), prop::sample::select(vec!["1", "2"]));
        (place, kind, 0..3_u64, 0..5_u64, text(), text(), job).prop_map(
            |((region, job_id), kind, lease_ms, at_ms, federation_id, state, job)| Change {
                job_id: job_id.to_owned(),
                region: RegionId::parse(region).unwrap(),
                federation_id,
                state,
                job,
                ..change(kind, lease_ms, at_ms)
            },
        )
    }

    proptest! {
        /// However often and in whichever order facts come, and wherever they were joined before, the record is the same.
        #[test]
        fn every_order_of_the_same_facts_gives_one_record(
            facts in prop::collection::vec(any_change(), 1..20), order in prop::collection::vec(0..20_usize, 20..60),
        ) {
            let expected = Record::of(facts.clone());
            let mut others = facts.clone();
            others.extend(order.iter().map(|at| facts[at % facts.len()].clone()));
            let shuffled = order.iter().map(|at| at % others.len()).collect::<Vec<_>>();
            for at in shuffled {
                others.swap(at, 0);
            }
            prop_assert_eq!(Record::of(others), expected.clone());
            let reversed = Record::of(facts.into_iter().rev());
            prop_assert_eq!(expected.winner(), reversed.winner());
        }
    }
}
