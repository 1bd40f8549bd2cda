//! The result of a run: every job judged, and the sums.

use std::collections::HashMap;
use std::time::Duration;

use smallvec::SmallVec;

use super::acks::{self, Ack};
use super::availability::{self, RECOVERY_MS, Window};
use super::breakage::Breakage;
use super::case::{Case, Copy, Rules};
use super::ids::IDS;
use super::ledger::{self, JobId, Ledger, Mark, marks_in};
use super::out::say;
use super::plan::Plan;
use super::restarts::Restarts;
use super::rows;
use super::sockets::Sockets;
use super::stage::Stage;
use super::table::{Tally, line};
use crate::JobState;

/// The sidecar's permitted additional traffic: a share of the calls, a rate per second, and a burst for each process.
const BUDGET: (f64, f64, f64) = (0.2, 3.0, 30.0);
/// Acknowledgements that are named.
const NAMED_MAX: usize = 5;

/// Everything that is judged.
pub(super) struct Found<'f> {
    pub(super) stage: &'f Stage,
    pub(super) restarts: &'f Restarts,
    pub(super) sockets: &'f Sockets,
    pub(super) ledger: &'f Ledger,
    pub(super) acks: &'f [Ack],
    pub(super) windows: &'f [Window],
    pub(super) plan: Plan,
    pub(super) elapsed: Duration,
    pub(super) listed: Option<u64>,
}

/// Judges every job, prints the table, and says whether every promise was kept.
pub(super) fn report(found: &Found<'_>, again: &str) -> bool {
    let issues = &found.ledger.issues;
    let copies = copies(found.stage, issues.len());
    let rows = rows::by_job(found.restarts.rows.all(), issues, &copies);
    let rivals = rivals(found.ledger, &copies);
    let rules = Rules {
        grace_ms: u64::try_from(found.plan.grace().as_millis()).unwrap_or(u64::MAX),
        duplicate_ids: found.plan.duplicate_ids(),
    };
    let mut tally = Tally::default();
    for (((mark, issue), copies), rows) in (0..).zip(issues).zip(&copies).zip(&rows) {
        tally.add(
            mark,
            &Case {
                issue,
                copies,
                rows,
                arrivals: found.sockets.arrivals(issue.first),
                seen: found.sockets.seen(mark),
                epochs: &found.restarts.epochs,
                rivals: rivals.get(&mark).map_or(&[], Vec::as_slice),
                rules: &rules,
            },
        );
    }
    traffic(found);
    let mut kept = tally.print();
    kept &= attempts(found);
    kept &= processes(found);
    kept &= acknowledged(found, &copies);
    kept &= available(found);
    say(if kept { "\nchaos: every promise was kept" } else { "\nchaos: PROMISES WERE BROKEN" });
    if !kept {
        say(format_args!("the same plan again: demo {again}"));
    }
    kept
}

/// The copies of every job, by mark.
fn copies(stage: &Stage, count: usize) -> Vec<SmallVec<[Copy; 1]>> {
    let mut copies = vec![SmallVec::new(); count];
    for (region, place) in stage.regions.iter().zip(0..) {
        for job in region.jobs().iter() {
            let mark = marks_in(job.args.as_bytes()).next();
            let (Some(mark), Some(id)) = (mark, ledger::id_of(&job.id)) else { continue };
            let Some(of_mark) = copies.get_mut(mark as usize) else { continue };
            of_mark.push(Copy {
                region: place,
                id,
                cancelled: job.state == JobState::Cancelled,
                stored: job.stored,
                runs: job.runs,
                acknowledged: job.acknowledged,
                created_ms: job.created_ms,
            });
        }
    }
    copies
}

/// Of each job that shares its id with others, their copies.
fn rivals(ledger: &Ledger, copies: &[SmallVec<[Copy; 1]>]) -> HashMap<Mark, Vec<Copy>> {
    let shared = || (0..).zip(&ledger.issues).zip(copies).filter(|((_, issue), _)| issue.shares_id);
    let mut of_id: HashMap<JobId, Vec<(Mark, Copy)>> = HashMap::new();
    for ((mark, issue), copies) in shared() {
        let copies = copies.iter().map(|copy| (mark, *copy));
        of_id.entry(issue.own.unwrap_or(0)).or_default().extend(copies);
    }
    let others = |mark: Mark, id: JobId| {
        of_id.get(&id).into_iter().flatten().filter(move |(of, _)| *of != mark).map(|(_, copy)| *copy).collect()
    };
    shared().map(|((mark, issue), _)| (mark, others(mark, issue.own.unwrap_or(0)))).collect()
}

/// Whether every acknowledgement came to its region, and only there.
fn acknowledged(found: &Found<'_>, copies: &[SmallVec<[Copy; 1]>]) -> bool {
    let verdict = acks::judge(found.acks, &found.sockets.acks, copies.iter().flatten());
    let (lost, astray) = (verdict.lost.len(), verdict.astray.len());
    line(
        "an acknowledgement reaches the region that leased the job",
        format_args!("{} ({} answered 200; {lost} lost, {astray} at other regions)", lost + astray, verdict.told),
    );
    for id in verdict.lost.iter().take(NAMED_MAX) {
        say(format_args!("\nVIOLATION an acknowledgement was lost: of {}", uuid::Uuid::from_u128(*id)));
    }
    for (id, place) in verdict.astray.iter().take(NAMED_MAX) {
        let region = IDS.get(usize::from(*place)).copied().unwrap_or("?");
        say(format_args!("\nVIOLATION an acknowledgement came to {region}: of {}", uuid::Uuid::from_u128(*id)));
    }
    lost + astray == 0
}

/// Whether flexible calls succeeded while a region was well.
fn available(found: &Found<'_>) -> bool {
    let verdict = availability::judge(&found.ledger.issues, found.windows, &found.restarts.epochs);
    line(
        "flexible calls succeed at 99.9 % while a region is well",
        format_args!(
            "{} ({} of {} failed, {} ended unknown, from {} s after it is well; the longest took {} ms)",
            u8::from(!verdict.is_kept()),
            verdict.failed - verdict.unknown,
            verdict.calls,
            verdict.unknown,
            RECOVERY_MS / 1_000,
            verdict.longest_ms
        ),
    );
    for (mark, number) in &verdict.examples {
        let send = found.ledger.issues.get(*mark).and_then(|issue| issue.sends.get(*number));
        if let Some(send) = send {
            say(format_args!(
                "    job {mark} call {number}: {} to {} ms: {:?}",
                send.began_ms, send.ended_ms, send.end
            ));
        }
    }
    verdict.is_kept()
}

/// The traffic.
fn traffic(found: &Found<'_>) {
    let (ledger, troubles) = (found.ledger, &found.stage.troubles);
    let mut statuses: Vec<(u16, u64)> = ledger.statuses.iter().map(|(status, count)| (*status, *count)).collect();
    statuses.sort_unstable();
    let words = |(status, count): &(u16, u64)| {
        if *status == 0 { format!("none: {count}") } else { format!("{status}: {count}") }
    };
    say(format_args!("\nchaos: {} jobs in {} s", ledger.issues.len(), found.elapsed.as_secs()));
    say(format_args!("  answers     {}", statuses.iter().map(words).collect::<Vec<_>>().join(", ")));
    for ((status, reason), count) in &ledger.reasons {
        say(format_args!("    {count:>9}  {status} {reason}"));
    }
    say(format_args!("  repetitions that were recognised: {}", ledger.replays));
    let struck: Vec<String> =
        found.stage.regions.iter().map(|region| format!("{} {}", region.id(), region.faults().struck())).collect();
    say(format_args!("  faults in regions: {}", struck.join(", ")));
    say(format_args!(
        "  on {} connections: {} cut, {} half-closed, {} swallowed, {} delayed",
        troubles.connections.get(),
        troubles.cut.get(),
        troubles.half_closed.get(),
        troubles.swallowed.get(),
        troubles.delayed.get()
    ));
    let done = |breakage: &Breakage| found.restarts.done.iter().filter(|it| *it == breakage).count();
    for breakage in std::iter::once(Breakage::None).chain(Breakage::ALL).chain(Breakage::HOSTILE) {
        if done(&breakage) > 0 {
            say(format_args!("  {:>4} x {}", done(&breakage), breakage.as_str()));
        }
    }
    let listed = found.listed.map_or_else(|| "?".to_owned(), |listed| listed.to_string());
    say(format_args!("  rows of the journal: {}; shown as not known at the end: {listed}", found.restarts.rows.len()));
}

/// Whether the regions were sent no more than the calls and the budget allow.
fn attempts(found: &Found<'_>) -> bool {
    let (share, floor, burst) = BUDGET;
    let processes = super::out::real(found.restarts.epochs.len() as u64);
    let allowed =
        super::out::real(found.ledger.calls) * (1.0 + share) + floor * found.elapsed.as_secs_f64() + burst * processes;
    let sent = super::out::real(found.sockets.enqueues);
    let kept = sent <= allowed;
    let ratio = sent / super::out::real(found.ledger.calls.max(1));
    line(
        "upstream enqueues at most 1.2 x calls + floor",
        format_args!(
            "{} ({sent} for {} calls, {ratio:.3} x; at most {allowed:.0}; {} questions for a job beside)",
            u8::from(!kept),
            found.ledger.calls,
            found.sockets.questions
        ),
    );
    kept
}

/// Whether every process logged the expected words and did its work.
fn processes(found: &Found<'_>) -> bool {
    let faults = &found.restarts.faults;
    line("each restart: a clear message, and routing goes on", faults.len());
    faults.iter().for_each(|fault| say(format_args!("\nVIOLATION {fault}")));
    if found.sockets.truncated {
        say("\nVIOLATION of the checker's own: a region's record was truncated, so that sockets were not fully read");
    }
    faults.is_empty() && !found.sockets.truncated
}
