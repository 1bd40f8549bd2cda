//! The hub: the program's ledgers of tokens and shares of slots, on a record that outlives its processes.

use std::collections::BTreeMap;

use ojs_sidecar::fleet::{LaterTokens, PoolAnswer, PoolPlaces, QuotaAnswer, QuotaTokens};
use ojs_sidecar::policy::{BlockAsk, Ledger, LimitAsk, LimitHolders, LimitShare, Quota, QuotaRefused, SLOT_MS};

/// How long slots last, as at the program's hub. Units: milliseconds.
const TTL_MS: u64 = 30_000;

/// The record, with the requests carried out on it.
#[derive(Debug)]
pub struct Hub {
    pub is_up: bool,
    quotas: Vec<Quota>,
    ledgers: BTreeMap<String, Ledger>,
    holders: BTreeMap<String, LimitHolders>,
}

/// What a sidecar sends.
#[derive(Debug, Clone)]
pub struct Request {
    pub sidecar: usize,
    /// Of the process.
    pub started_unix_ms: u64,
    pub tokens: Vec<QuotaTokens>,
    pub slots: Vec<PoolPlaces>,
}

impl Hub {
    pub fn new(quotas: Vec<Quota>) -> Self {
        Self { is_up: true, quotas, ledgers: BTreeMap::new(), holders: BTreeMap::new() }
    }

    /// Its record is lost.
    pub fn forget(&mut self) {
        self.ledgers.clear();
        self.holders.clear();
    }

    /// Its record has lost the tokens that were taken before a time.
    pub fn forget_before(&mut self, ms: u64) {
        for ledger in self.ledgers.values_mut() {
            let mut rows = serde_json::to_value(&*ledger).unwrap();
            rows["taken"].as_object_mut().unwrap().retain(|slot, _| slot.parse::<u64>().unwrap() * SLOT_MS > ms);
            *ledger = serde_json::from_value(rows).unwrap();
        }
    }

    /// Carries a request out.
    pub fn answer(&mut self, request: &Request, now_ms: u64) -> (Vec<QuotaAnswer>, Vec<PoolAnswer>) {
        let tokens = request.tokens.iter().map(|it| self.grant(request, it, now_ms)).collect();
        let slots = request.slots.iter().map(|it| self.share(request, it, now_ms)).collect();
        (tokens, slots)
    }

    /// Until when it counts the slots of a sidecar for it, of a tenant's quota, without another request.
    pub fn counts_until(&self, sidecar: usize, tenant: &str) -> u64 {
        let of = self.holders.iter().filter(|(pool, _)| pool.split('\t').next() == Some(tenant));
        let holders = of.flat_map(|(_, holders)| holders.iter());
        holders.filter(|it| it.sidecar == sidecar.to_string()).map(|it| it.ends_ms).max().unwrap_or_default()
    }

    fn grant(&mut self, request: &Request, tokens: &QuotaTokens, now_ms: u64) -> QuotaAnswer {
        let QuotaTokens { quota, sequence, answered, left, dropped, wants, needs, later, wants_later } = tokens.clone();
        let rate = self.quotas.iter().find(|it| it.key() == quota).unwrap().rate();
        let process = format!("{} {}", request.sidecar, request.started_unix_ms);
        let ask = BlockAsk { process, sequence, answered, left, dropped, wants, needs, later, wants_later };
        match self.ledgers.entry(quota.clone()).or_default().ask(rate, &ask, now_ms) {
            Ok(block) => {
                let behind = |at_ms: u64| at_ms.saturating_sub(now_ms);
                let later = block.later.iter();
                QuotaAnswer::Granted {
                    quota,
                    further: block.further,
                    lasts_ms: behind(block.ends_ms),
                    later: later.map(|&(at_ms, tokens)| LaterTokens { at_ms, in_ms: behind(at_ms), tokens }).collect(),
                    next_ms: block.next_ms.map(behind),
                    is_pressed: block.is_pressed,
                }
            }
            Err(QuotaRefused::Late(sequence)) => QuotaAnswer::Late { quota, sequence },
            Err(QuotaRefused::Full) => unreachable!("there are fewer processes than a ledger takes"),
        }
    }

    fn share(&mut self, request: &Request, places: &PoolPlaces, now_ms: u64) -> PoolAnswer {
        let pool = places.pool.clone();
        let most = self.quotas.iter().find(|it| it.key() == pool).unwrap().max_active.unwrap();
        let holders = self.holders.entry(pool.clone()).or_default();
        holders.keep_over_silence(TTL_MS, now_ms);
        holders.expire(now_ms);
        let ask = LimitAsk {
            sidecar: request.sidecar.to_string(),
            started_unix_ms: request.started_unix_ms,
            sequence: places.sequence,
            holds: places.holds,
            granted: places.granted,
            needs: places.needs,
            wants: places.wants,
            longest_call_ms: places.longest_lease_ms,
            held: places.held.unwrap_or_default(),
        };
        match holders.share(most, TTL_MS, &[&ask], now_ms)[0] {
            LimitShare::Calls(places) => PoolAnswer::Granted { pool, places, lasts_ms: TTL_MS, renew_ms: TTL_MS / 6 },
            LimitShare::Late(sequence) => PoolAnswer::Late { pool, sequence },
            LimitShare::Full => unreachable!("there are fewer processes than a limit takes"),
        }
    }
}
