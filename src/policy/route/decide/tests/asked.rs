//! A spoke that asks its hub decides as it does by its view, where both see the regions alike.

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config as Runs, RngAlgorithm, TestRng, TestRunner};

use super::super::super::answer::moments;
use super::random::case;
use super::*;
use crate::base::Draw;
use crate::policy::{Answered, RouteAnswer, RouteQuestion, answer, explain_answered, route_answered};

const CASES: usize = 10_000;
/// Making a view costs more than routing by it.
const JOBS_OF_A_VIEW: usize = 24;

/// Through the bytes of question and answer, as over a connection to the hub whose view is `hub`.
fn asked(question: &RouteQuestion, hub: &View, now: Instant) -> Answered {
    let received = RouteQuestion::read(&question.body()).unwrap();
    assert_eq!(received.body(), question.body());
    let sent = serde_json::to_vec(&answer(hub, &received, now)).unwrap();
    let turn = question.moment.as_ref().unwrap().turn;
    Answered { answer: RouteAnswer::read(&sent).unwrap(), turn }
}

/// The answer with one of its orders only.
fn with_order(answered: &Answered, place: usize) -> Answered {
    let mut one = answered.clone();
    let orders = &answered.answer.orders;
    one.answer.orders = vec![orders.get(place).unwrap_or(&orders[0]).clone()];
    one
}

#[derive(Debug, Default)]
struct Seen {
    asked: usize,
    refused: usize,
    varied: usize,
    not_asked: usize,
}

fn compare(view: &View, job: &Job<'_>, inputs: Inputs<'_>, seed: u64, seen: &mut Seen) {
    let by_view = |draw, turn| route(view, job, Inputs { draw, turn, ..inputs });
    let Some(mut question) = RouteQuestion::of(view, job, None, inputs, seed) else {
        seen.not_asked += 1;
        let decided = by_view(inputs.draw, inputs.turn);
        let is_pinned = decided.as_ref().is_ok_and(|it| it.pinned);
        let is_own = decided.is_err() || view.is_cut_off();
        assert!(is_pinned || is_own, "{decided:?} is of a flexible job");
        return;
    };
    assert!(job.pin.is_none(), "a pinned job is asked about");
    seen.asked += 1;
    // Comparing every order of every job takes minutes: each hundredth job has all of them.
    let orders = if seen.asked.is_multiple_of(100) { 60 } else { 2 };
    question.moment.as_mut().unwrap().orders = orders;
    let answered = asked(&question, view, inputs.now);
    seen.varied += usize::from(answered.answer.orders.len() > 1);
    for (place, (draw, turn)) in moments(seed, inputs.turn).take(orders.into()).enumerate() {
        let one = with_order(&answered, place);
        let expected = by_view(draw, turn);
        let decided = route_answered(view, job, None, Inputs { draw, turn, ..inputs }, &one, &mut Grounds::default());
        assert_eq!(decided, expected, "order {place} of {answered:?}");
        seen.refused += usize::from(place == 0 && decided.is_err());
    }
    let (expected, explained) =
        (explain(view, job, inputs), explain_answered(view, job, inputs, &with_order(&answered, 0)));
    assert_eq!((&explained.outcome, explained.strategy), (&expected.outcome, expected.strategy));
    let target = explained.outcome.as_ref().ok().and_then(Decision::target);
    assert_eq!(answered.answer.target_region.as_ref(), target.map(|target| &view.region(target).id));
}

/// A job with another strategy and another queue, now and then pinned.
fn another<'j>(job: &Job<'j>, draw: &mut Draw) -> Job<'j> {
    const QUEUES: [&str; 3] = ["default", "gdpr", "bulk"];
    let mut among = |count: usize| usize::try_from(draw.below(count as u64)).unwrap();
    let affinity = Strategy::ALL.get(among(Strategy::ALL.len() + 1)).map(|strategy| strategy.as_str());
    let pin = (among(10) == 0).then_some("a");
    Job { pin, affinity, queue: QUEUES[among(QUEUES.len())], ..*job }
}

#[test]
fn a_spoke_that_asks_decides_as_by_its_view_on_10_000_random_jobs() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[45; 32]);
    let mut runner = TestRunner::new_with_rng(Runs::default(), rng);
    let mut seen = Seen::default();
    while seen.asked < CASES {
        let case = case().new_tree(&mut runner).unwrap().current();
        case.with(|view, job, inputs| {
            let mut draw = Draw::from_seed(case.seed());
            compare(view, job, inputs, case.seed(), &mut seen);
            for _ in 0..JOBS_OF_A_VIEW {
                let (seed, turn) = (draw.next(), draw.next());
                let job = another(job, &mut draw);
                compare(view, &job, Inputs { draw: Draw::from_seed(seed), turn, ..inputs }, seed, &mut seen);
            }
        });
    }
    let (refused, varied) = (seen.refused > CASES / 20, seen.varied > CASES / 100);
    assert!(refused && varied && seen.not_asked > CASES / 10, "{seen:?}");
}

/// An answer about a job of the hub with this view, asked for at turn 0 with this seed.
fn answered(view: &View, job: &Job<'_>, seed: u64) -> Answered {
    let now = Instant::now();
    let question = RouteQuestion::of(view, job, None, Inputs { turn: 0, ..inputs(now, seed) }, seed).unwrap();
    asked(&question, view, now)
}

/// How many of these jobs go to each region, all by one answer.
fn shares(view: &View, job: &Job<'_>, answered: &Answered, jobs: u64) -> Vec<u64> {
    let mut counts = vec![0; view.regions.len()];
    for number in 0..jobs {
        let given = inputs(Instant::now(), number);
        let decision = route_answered(view, job, None, given, answered, &mut Grounds::default()).unwrap();
        counts[decision.target().unwrap().get()] += 1;
    }
    counts
}

#[test]
fn jobs_by_one_cached_answer_are_spread_and_a_fleet_is_not_sent_to_one_region() {
    let view = three(|config| config.regions[0].weight = 3);
    let job = Job { affinity: Some("round-robin"), ..plain() };
    assert_eq!(shares(&view, &job, &answered(&view, &job, 7), 6_000), [2_000; 3], "each region has its turn");
    // Where weights or ties decide, one answer has many orders, and the answers to all spokes together follow the weights.
    for strategy in ["weighted", "latency-based", "overflow"] {
        let job = Job { affinity: Some(strategy), ..plain() };
        let mut sums = [0; 3];
        for seed in 0..100 {
            let one = shares(&view, &job, &answered(&view, &job, seed), 100);
            assert!(one.iter().all(|count| *count < 90), "{strategy}: one answer pins its jobs: {one:?}");
            sums.iter_mut().zip(&one).for_each(|(sum, count)| *sum += count);
        }
        let percent = sums.map(|sum| sum / 100);
        assert!((57..=63).contains(&percent[0]) && (17..=23).contains(&percent[1]), "{strategy}: {percent:?}");
    }
    // Where nothing varies, the answer has one order.
    assert_eq!(answered(&view, &plain(), 7).answer.orders.len(), 1);
}

#[test]
fn no_answer_widens_the_regions_of_a_job_or_opens_one_that_the_spoke_keeps_shut() {
    let view = three(|config| config.routing.rules = vec![rule("gdpr", &["eu", "ap"], None)]);
    let all = answered(&view, &plain(), 1);
    assert_eq!(all.answer.candidates.len(), 3);
    let gdpr = Job { queue: "gdpr", ..plain() };
    let decide = |view: &View, job: &Job<'_>| {
        let mut grounds = Grounds::default();
        let decision = route_answered(view, job, None, inputs(Instant::now(), 0), &all, &mut grounds);
        assert_eq!(grounds.decided_by, crate::policy::DecidedBy::Hub);
        decision.map(|decision| (decision.restricted, names(view, &decision)))
    };
    assert_eq!(decide(&view, &gdpr), Ok((true, "eu ap".to_owned())));
    let mut shut = view.clone();
    shut.regions[1].breaker = BreakerState::Open;
    assert_eq!(decide(&shut, &gdpr), Ok((true, "ap".to_owned())));
    shut.regions[2].switch = Some(SwitchKind::Drain);
    let refused = decide(&shut, &gdpr).unwrap_err();
    let RouteError::NoHealthyRegion { regions, .. } = refused else { panic!("{refused:?}") };
    let reasons: Vec<Refusal> = regions.iter().map(|(_, refusal)| *refusal).collect();
    assert_eq!(reasons, [Refusal::NotPermitted, Refusal::BreakerOpen, Refusal::Drained]);
    // Its own health of a region says nothing; that the region is silent to this spoke puts it last.
    let mut otherwise = view.clone();
    otherwise.regions[0].health = Health::Unhealthy;
    assert_eq!(decide(&otherwise, &plain()), Ok((false, "us eu ap".to_owned())));
    otherwise.regions[0].silent = true;
    assert_eq!(decide(&otherwise, &plain()), Ok((false, "eu ap us".to_owned())));
}

#[test]
fn the_hub_is_asked_about_no_job_that_may_not_go_to_its_region() {
    let view = three(|config| {
        config.regions[2].is_hub = true;
        config.routing.rules = vec![rule("gdpr", &["us", "eu"], None), rule("wide", &["eu", "ap"], None)];
    });
    let asked = |queue| {
        let job = Job { queue, ..plain() };
        let question = RouteQuestion::of(&view, &job, None, inputs(Instant::now(), 0), 0);
        question.map(|question| question.queue)
    };
    assert_eq!([asked("gdpr"), asked("wide"), asked("free")], [None, Some("wide".to_owned()), Some("free".to_owned())]);
}

#[test]
fn an_answer_that_is_none_is_refused() {
    for (body, words) in [
        ("{}", "the answer of the hub"),
        (r#"{"target_region":null,"strategy":"affinity","candidates":[],"orders":[[0]]}"#, "does not name"),
        (r#"{"target_region":"A","strategy":"affinity","candidates":[]}"#, "the answer of the hub"),
    ] {
        let error = RouteAnswer::read(body.as_bytes()).unwrap_err();
        assert!(error.contains(words), "{body}: {error}");
    }
    let orders = vec!["[]"; 61].join(",");
    let many = format!(r#"{{"target_region":null,"strategy":"affinity","candidates":[],"orders":[{orders}]}}"#);
    assert!(RouteAnswer::read(many.as_bytes()).unwrap_err().contains("more regions or orders"));
}
