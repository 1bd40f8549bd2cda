//! The promise of a quota: whatever arrives, is lost or is killed, no hour has more jobs than it may, and no moment more than the burst.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::rate::HOUR;
use super::*;

const BASE_MS: u64 = 1_000_000 * SLOT_MS;

/// A request under way, with its answer once the hub has made it.
struct UnderWay {
    ask: BlockAsk,
    asked_ms: u64,
    answer: Option<(Block, u64)>,
}

/// A sidecar of the model.
#[derive(Default)]
struct Sidecar {
    process: u64,
    purse: Purse,
    answered: Option<u64>,
    under_way: Option<UnderWay>,
}

struct Model {
    rate: Rate,
    begun: Instant,
    now_ms: u64,
    ledger: Ledger,
    sidecars: Vec<Sidecar>,
    /// When each job starts. Units: milliseconds since the beginning.
    starts: Vec<u64>,
}

impl Model {
    fn new(rate: Rate, sidecars: usize) -> Self {
        let sidecars = (0..sidecars).map(|_| Sidecar::default()).collect();
        Self { rate, begun: Instant::now(), now_ms: 0, ledger: Ledger::default(), sidecars, starts: Vec::new() }
    }

    fn at(&self, ms: u64) -> Instant {
        self.begun + Duration::from_millis(ms)
    }

    /// A job arrives; `is_refused`: its region refuses it.
    fn arrive(&mut self, place: usize, delays: bool, is_refused: bool) {
        let now = self.at(self.now_ms);
        let purse = &self.sidecars[place].purse;
        let token = purse.take(now).or_else(|| if delays { purse.take_later(now) } else { None });
        match token {
            Some(token) if is_refused => purse.give_back(token),
            Some(Token::Now(_)) => self.starts.push(self.now_ms),
            Some(Token::Later(at_ms, _)) => self.starts.push(at_ms - BASE_MS),
            None => {}
        }
    }

    fn ask(&mut self, place: usize, needs: u64, wants_later: u64) {
        let (now, burst) = (self.at(self.now_ms), self.rate.burst);
        let it = &mut self.sidecars[place];
        let keep = if needs.is_multiple_of(5) { needs } else { u64::MAX };
        let (left, dropped, later) = it.purse.freeze(now, keep, wants_later > 0);
        let ask = BlockAsk {
            process: format!("{place} {}", it.process),
            sequence: it.purse.next_sequence(),
            answered: it.answered,
            left,
            dropped,
            wants: if keep == u64::MAX { burst } else { needs },
            needs,
            later,
            wants_later,
        };
        it.under_way = Some(UnderWay { ask, asked_ms: self.now_ms, answer: None });
    }

    /// The hub answers a request.
    fn hear(&mut self, place: usize) {
        let hub_ms = BASE_MS + self.now_ms;
        let Some(under_way) = self.sidecars[place].under_way.as_mut() else { return };
        if let Ok(block) = self.ledger.ask(self.rate, &under_way.ask, hub_ms) {
            under_way.answer = Some((block, hub_ms));
        }
    }

    /// The sidecar gets the answer.
    fn learn(&mut self, place: usize) {
        let Some(UnderWay { ask, asked_ms, answer: Some((block, hub_ms)) }) = self.sidecars[place].under_way.take()
        else {
            return;
        };
        let at = |ms: u64| self.at(asked_ms + ms.saturating_sub(hub_ms));
        let later: Vec<Later> = block
            .later
            .iter()
            .map(|(at_ms, left)| Later { at_ms: *at_ms, at: at(*at_ms), left: *left, spent: 0, named: 0 })
            .collect();
        self.sidecars[place].purse.grant(block.further, at(block.ends_ms), &later, None);
        self.sidecars[place].answered = Some(ask.sequence);
    }

    fn kill(&mut self, place: usize) {
        let it = &mut self.sidecars[place];
        *it = Sidecar { process: it.process + 1, ..Sidecar::default() };
    }

    /// The most jobs in any stretch of this length.
    fn most_within(&self, ms: u64) -> u64 {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        let (mut from, mut most) = (0, 0);
        for (place, start) in starts.iter().enumerate() {
            while *start - starts[from] > ms {
                from += 1;
            }
            most = most.max(place - from + 1);
        }
        most as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_hour_has_more_jobs_than_it_may_and_no_moment_more_than_the_burst(
        (max_per_hour, burst) in (1_u64..60, 1_u64..12),
        steps in proptest::collection::vec((0_usize..4, 0_u8..13, 0_u64..700, any::<bool>()), 1..500),
    ) {
        let rate = Rate { max_per_hour, burst };
        let mut model = Model::new(rate, 4);
        for (place, step, number, flag) in steps {
            match step {
                0..=3 => (0..number % 9).for_each(|_| model.arrive(place, flag, number.is_multiple_of(4))),
                4 | 5 => { model.ask(place, number % 20, number % 4); model.hear(place); model.learn(place); }
                6 => model.ask(place, number % 20, number % 4),
                7 => model.hear(place),
                8 => model.learn(place),
                // The request, or its answer, is lost.
                9 => model.sidecars[place].under_way = None,
                10 if flag => model.kill(place),
                11 if flag => model.sidecars[place].purse.close(),
                // A hub that is killed and comes back has its record.
                12 => model.ledger = serde_json::from_str(&serde_json::to_string(&model.ledger).unwrap()).unwrap(),
                _ => model.now_ms += number * if flag { 20 } else { 600 },
            }
            model.now_ms += number * 2;
        }
        prop_assert!(model.most_within(3_600_000) <= max_per_hour, "{} in an hour", model.most_within(3_600_000));
        for seconds in [0, 1, 5, 30, 120, 900] {
            let bucket = burst + max_per_hour * seconds / 3_600;
            prop_assert!(model.most_within(seconds * 1_000) <= bucket, "{seconds} s: {}", model.most_within(seconds * 1_000));
        }
    }
}

/// One sidecar that always has jobs, and asks every slot.
fn steady(rate: Rate, minutes: u64) -> u64 {
    let mut model = Model::new(rate, 1);
    for _ in 0..minutes * 60 {
        if model.now_ms.is_multiple_of(SLOT_MS) {
            model.ask(0, rate.burst + 1, 0);
            model.hear(0);
            model.learn(0);
        }
        (0..rate.burst).for_each(|_| model.arrive(0, false, false));
        model.now_ms += 1_000;
    }
    assert!(model.most_within(3_600_000) <= rate.max_per_hour);
    model.starts.len() as u64
}

#[test]
fn a_steady_stream_reaches_nearly_its_limit() {
    let rate = Rate { max_per_hour: 1_000, burst: Rate::burst_usual(1_000) };
    let started = steady(rate, 80);
    assert!((1_000..=1_400).contains(&started), "{started}");
    let least = Rate { max_per_hour: 3_600, burst: Rate::burst_min(3_600) };
    let started = steady(least, 20);
    assert!((500..=1_215).contains(&started), "{started}");
}

#[test]
fn a_block_goes_with_its_process_for_an_hour_and_dropped_tokens_come_back_at_once() {
    let rate = Rate { max_per_hour: 4, burst: 4 };
    let ask = |process: &str, sequence, left, dropped| BlockAsk {
        process: process.to_owned(),
        sequence,
        answered: None,
        left,
        dropped,
        wants: 4,
        needs: 4,
        later: Vec::new(),
        wants_later: 0,
    };
    let mut ledger = Ledger::default();
    assert_eq!(ledger.ask(rate, &ask("a", 1, 0, 0), BASE_MS).unwrap().further, 4);
    let other = ledger.ask(rate, &ask("b", 1, 0, 0), BASE_MS).unwrap();
    assert_eq!(
        (other.further, other.next_ms),
        (0, Some(BASE_MS + (HOUR + 6) * SLOT_MS)),
        "a may take all until its block ends"
    );
    assert!(ledger.ask(rate, &ask("a", 2, 4, 0), BASE_MS).unwrap().is_pressed);
    assert_eq!(ledger.ask(rate, &ask("a", 2, 0, 0), BASE_MS), Err(QuotaRefused::Late(2)));
    // It has taken one, and drops three.
    let last = BlockAsk { wants: 0, ..ask("a", 3, 0, 3) };
    assert_eq!(ledger.ask(rate, &last, BASE_MS).unwrap().further, 0);
    assert_eq!(ledger.ask(rate, &ask("b", 2, 0, 0), BASE_MS).unwrap().further, 2, "its share");
    assert_eq!(ledger.ask(rate, &ask("b", 3, 2, 0), BASE_MS).unwrap().further, 1, "and others leave one");
    let shown = ledger.shown(rate, BASE_MS);
    assert_eq!((shown.used, shown.granted), (1, 3));
    // b is killed.
    let late = BASE_MS + HOUR * SLOT_MS;
    assert_eq!(ledger.shown(rate, late).used, 4);
    assert_eq!(ledger.ask(rate, &ask("c", 1, 0, 0), late + SLOT_MS).unwrap().further, 1, "that of a is an hour old");
    assert_eq!(ledger.ask(rate, &ask("c", 2, 1, 0), late + 6 * SLOT_MS).unwrap().further, 3);
}

#[test]
fn later_tokens_are_for_times_with_room_and_count_there() {
    let rate = Rate { max_per_hour: 2, burst: 2 };
    let ask = |sequence, left, later: Vec<SpentLater>| BlockAsk {
        process: "a".to_owned(),
        sequence,
        answered: None,
        left,
        dropped: 0,
        wants: 2,
        needs: 9,
        later,
        wants_later: 3,
    };
    let mut ledger = Ledger::default();
    ledger.ask(rate, &BlockAsk { wants_later: 0, ..ask(1, 0, Vec::new()) }, BASE_MS).unwrap();
    let block = ledger.ask(rate, &ask(2, 0, Vec::new()), BASE_MS).unwrap();
    let hour = |number: u64| BASE_MS + number * (HOUR + 1) * SLOT_MS;
    assert_eq!((block.further, block.later.clone()), (0, vec![(hour(1), 2), (hour(2), 1)]));
    let spent = SpentLater { at_ms: hour(1), spent: 1, left: 0 };
    let block = ledger.ask(rate, &ask(3, 0, vec![spent]), BASE_MS).unwrap();
    assert_eq!(
        block.later,
        vec![(hour(1), 1), (hour(2), 2)],
        "one of the first hour was given back, and all of the second"
    );
    assert_eq!(ledger.shown(rate, BASE_MS).later, 4);
}

fn ask(process: &str, sequence: u64, needs: u64, later: Vec<SpentLater>) -> BlockAsk {
    let (left, dropped, wants, wants_later) = (0, 0, needs, needs);
    BlockAsk { process: process.to_owned(), sequence, answered: None, left, dropped, wants, needs, later, wants_later }
}

#[test]
fn later_tokens_that_no_job_took_are_free_again_once_their_process_says_so() {
    let rate = Rate { max_per_hour: 720, burst: 3 };
    let mut ledger = Ledger::default();
    let granted = |block: &Block| block.later.iter().map(|(_, tokens)| tokens).sum::<u64>();
    let block = ledger.ask(rate, &ask("a", 1, 20, Vec::new()), BASE_MS).unwrap();
    assert_eq!(granted(&block), 20);
    let last = block.later.last().unwrap().0 + SLOT_MS;
    let spent = SpentLater { at_ms: block.later[0].0, spent: 1, left: 0 };
    let late = |sequence, later| BlockAsk { dropped: 3, wants: 0, ..ask("a", sequence, 0, later) };
    // It names those that have not come.
    let mut rows: Vec<SpentLater> =
        block.later.iter().map(|&(at_ms, left)| SpentLater { at_ms, spent: 0, left }).collect();
    for step in 1..=last.saturating_sub(BASE_MS) / SLOT_MS / 4 + 1 {
        let now_ms = BASE_MS + 4 * step * SLOT_MS;
        rows.retain(|it| it.at_ms > now_ms);
        ledger.ask(rate, &late(1 + step, rows.clone()), now_ms).unwrap();
    }
    assert_eq!(ledger.shown(rate, last + 4 * SLOT_MS).used, 0, "no job took one");
    let mut other = Ledger::default();
    other.ask(rate, &ask("a", 1, 20, Vec::new()), BASE_MS).unwrap();
    other.ask(rate, &late(2, vec![spent]), spent.at_ms).unwrap();
    assert_eq!((other.shown(rate, spent.at_ms).used, other.shown(rate, spent.at_ms).later), (1, 0));
    // A process that is not heard again may have used all of them.
    let mut killed = Ledger::default();
    killed.ask(rate, &ask("a", 1, 20, Vec::new()), BASE_MS).unwrap();
    killed.ask(rate, &ask("b", 1, 0, Vec::new()), last + 60_000).unwrap();
    assert_eq!(killed.shown(rate, last + 60_000).used, 23);
}

#[test]
fn the_tokens_of_an_answer_that_was_lost_come_back_with_the_next_request() {
    let rate = Rate { max_per_hour: 10, burst: 10 };
    let mut ledger = Ledger::default();
    let wants =
        |sequence, answered, wants| BlockAsk { answered, wants_later: 0, ..ask("a", sequence, wants, Vec::new()) };
    assert_eq!(ledger.ask(rate, &wants(1, None, 4), BASE_MS).unwrap().further, 4);
    // Its jobs took those four; the answers to the next two requests are lost.
    for sequence in 2..4 {
        assert_eq!(ledger.ask(rate, &wants(sequence, Some(1), 10), BASE_MS).unwrap().further, 6);
    }
    assert_eq!(ledger.ask(rate, &wants(4, Some(1), 10), BASE_MS).unwrap().further, 6);
    let shown = ledger.shown(rate, BASE_MS);
    assert_eq!((shown.used, shown.granted), (4, 6));
    // One that does not say which answers it has may have taken all of them.
    assert_eq!(ledger.ask(rate, &wants(5, None, 10), BASE_MS).unwrap().further, 0);
    assert_eq!(ledger.shown(rate, BASE_MS).used, 10);
}

#[test]
fn a_request_gets_its_later_tokens_however_many_others_have_reserved() {
    for (max_per_hour, burst, least) in
        [(1, 1, 0), (720, 3, 720 * 5), (7_200, 30, 120 * 64), (100_000, 2_000, 120 * 64)]
    {
        let rate = Rate { max_per_hour, burst };
        let (mut ledger, mut granted) = (Ledger::default(), 0);
        for number in 0..120 {
            let block = ledger.ask(rate, &ask(&format!("{number}"), 1, 64, Vec::new()), BASE_MS).unwrap();
            granted += block.later.iter().map(|(_, tokens)| tokens).sum::<u64>();
        }
        assert!((least..=6 * max_per_hour).contains(&granted), "{rate:?}: {granted}");
    }
}

#[test]
fn the_quota_of_a_job_is_the_narrowest_one() {
    let quota = |tenant: &str, job_type: &str| Quota {
        tenant: tenant.to_owned(),
        job_type: job_type.to_owned(),
        profile: None,
        max_per_hour: 5,
        burst: 5,
        max_active: None,
        queues: Vec::new(),
        over_limit: OverLimit::Refuse,
        on_hub_loss: OnHubLoss::Hold,
        local_per_hour: None,
        local_active: None,
    };
    let all = vec![quota("a", "mail"), quota("a", ANY), quota(ANY, "mail"), quota(ANY, ANY)];
    let table = QuotaTable::new(all.clone(), &QuotaTable::default());
    let of = |table: &QuotaTable, tenant, job_type| table.of(tenant, job_type).map(|it| it.quota.key());
    for (tenant, job_type, place) in
        [(Some("a"), "mail", 0), (Some("a"), "x", 1), (Some("b"), "mail", 2), (None, "mail", 2), (None, "x", 3)]
    {
        assert_eq!(of(&table, tenant, Some(job_type)), Some(all[place].key()));
    }
    let fewer = QuotaTable::new(all[..1].to_vec(), &table);
    assert_eq!(of(&fewer, Some("b"), Some("mail")), None);
    assert!(std::sync::Arc::ptr_eq(&fewer.iter().next().unwrap().purse, &table.iter().next().unwrap().purse));
}
