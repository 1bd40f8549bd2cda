//! Sidecars with few or no jobs, and the ledger that grants them tokens.

use super::*;
use crate::policy::SLOT_MS;

/// Sidecars, and the ledger of their hub.
struct Fleet {
    quota: Quota,
    ledger: Ledger,
    sidecars: Vec<Quoting>,
    begun: Instant,
    now_ms: u64,
}

impl Fleet {
    fn new(count: usize, max_per_hour: u64, burst: u64, over_limit: OverLimit) -> Self {
        let (any, begun) = (crate::policy::ANY.to_owned(), Instant::now());
        let (profile, local_per_hour, on_hub_loss) = (None, None, OnHubLoss::Hold);
        let (tenant, job_type) = (any.clone(), any);
        let (max_active, queues, local_active) = Default::default();
        let quota = Quota {
            tenant,
            job_type,
            profile,
            max_per_hour,
            burst,
            max_active,
            queues,
            over_limit,
            on_hub_loss,
            local_per_hour,
            local_active,
        };
        let sidecar = |_| {
            let sidecar = Quoting::new(Arc::default(), begun);
            sidecar.named(std::slice::from_ref(&quota));
            sidecar
        };
        let sidecars = (0..count).map(sidecar).collect();
        Self { quota, ledger: Ledger::default(), sidecars, begun, now_ms: 1_000_000 * SLOT_MS }
    }

    fn now(&self) -> Instant {
        self.begun + Duration::from_millis(self.now_ms - 1_000_000 * SLOT_MS)
    }

    /// Each sidecar looks once.
    fn look(&mut self) {
        let now = self.now();
        for (place, sidecar) in self.sidecars.iter().enumerate() {
            for tokens in sidecar.ask(now) {
                let QuotaTokens { quota, sequence, answered, left, dropped, wants, needs, later, wants_later } = tokens;
                let process = place.to_string();
                let ask = BlockAsk { process, sequence, answered, left, dropped, wants, needs, later, wants_later };
                let block = self.ledger.ask(self.quota.rate(), &ask, self.now_ms).unwrap();
                let behind = |at_ms: u64| at_ms.saturating_sub(self.now_ms);
                let later = block.later.iter();
                let later =
                    later.map(|&(at_ms, tokens)| crate::fleet::LaterTokens { at_ms, in_ms: behind(at_ms), tokens });
                let answer = QuotaAnswer::Granted {
                    quota,
                    further: block.further,
                    lasts_ms: behind(block.ends_ms),
                    later: later.collect(),
                    next_ms: block.next_ms.map(behind),
                    is_pressed: block.is_pressed,
                };
                sidecar.take(&[answer], now);
            }
        }
        self.now_ms += 250;
    }

    /// Whether a job at this sidecar finds a token.
    fn send(&self, place: usize) -> bool {
        let taken = self.sidecars[place].quotas.take((None, None), true, self.now());
        taken.is_ok_and(|token| {
            token.is_some_and(|token| {
                token.sent();
                token.due_ms().is_none()
            })
        })
    }
}

#[test]
fn a_job_is_served_although_another_sidecar_has_all_tokens_and_no_jobs() {
    for (burst, max_per_hour) in [(5, 5), (19, 300), (1, 1)] {
        for pause in [1, 5, 20, 40] {
            let mut fleet = Fleet::new(20, max_per_hour, burst, OverLimit::Refuse);
            (0..240).for_each(|_| fleet.look());
            let mut tries = 1;
            while !fleet.send(19) {
                (0..pause * 4).for_each(|_| fleet.look());
                tries += 1;
                assert!(tries <= 1 + 40_u64.div_ceil(pause), "{burst} {pause}: refused for 40 s");
            }
        }
    }
}

#[test]
fn sidecars_without_jobs_use_nothing_of_a_quota_that_delays() {
    let mut fleet = Fleet::new(20, 30, 5, OverLimit::Delay);
    (0..4 * 4_000).for_each(|_| fleet.look());
    let shown = fleet.ledger.shown(fleet.quota.rate(), fleet.now_ms);
    assert_eq!((shown.used, shown.later), (0, 0), "{shown:?}");
    // One with a wave of jobs leaves no trace an hour later but those that took a token.
    let taken = (0..40).filter(|_| fleet.send(3)).count() as u64;
    (0..4 * 600).for_each(|_| fleet.look());
    assert_eq!(fleet.ledger.shown(fleet.quota.rate(), fleet.now_ms).used, taken);
}
