//! Clients: each issues a call, repeats it as its SDK would, and enters the answers into the ledger.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::acks::Ack;
use super::connection::{Answer, Connection};
use super::ledger::{End, Ledger, Mark, Send, id_of, marks_in};
use super::shape::{self, Shape, Used};
use ojs_handles::{Clock, Draw};

/// SDKs give up after this.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The mean of the first wait of an SDK, which doubles; a tenth of the real one, so that a run sees more of them.
const BACKOFF: Duration = Duration::from_millis(50);
/// Between two tries to connect while no sidecar listens.
const CONNECT_EVERY: Duration = Duration::from_millis(20);

/// State that all clients share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) ledger: RefCell<Ledger>,
    /// Where the sidecar listens now.
    pub(super) address: Cell<SocketAddr>,
    /// Which of its processes that is.
    pub(super) epoch: Cell<u16>,
    /// How many 2xx this process has answered.
    pub(super) successes: Cell<u64>,
    pub(super) draw: RefCell<Draw>,
    pub(super) clock: Clock,
    pub(super) began: Instant,
    /// Between two jobs.
    pub(super) pace: Duration,
    pub(super) jobs_min: u64,
    /// Whether every restart of the plan has been: until then jobs are issued, however many there are.
    pub(super) restarted: Cell<bool>,
    /// No new call is issued after this, with any number missing.
    pub(super) until: Instant,
    pub(super) interrupted: Cell<bool>,
    /// Whether clients close their connections between two calls, and wait.
    pub(super) paused: Cell<bool>,
    pub(super) hostile: bool,
    /// Ids that hostile clients may use again.
    pub(super) used: RefCell<Vec<Used>>,
    /// Calls with a key and an outcome that their clients do not know yet.
    pub(super) open: RefCell<Vec<(Mark, Shape)>>,
    /// Whether this process has its journal on disk.
    pub(super) durable: Cell<bool>,
    /// The last calls with a key that are on disk and were answered with success: they are called again after a restart.
    pub(super) known: RefCell<VecDeque<(Mark, Shape)>>,
    /// The workers' answers.
    pub(super) acks: RefCell<Vec<Ack>>,
}

impl World {
    /// Draws the next call, and notes what it shares with an earlier job.
    fn draw_next(&self, first: Mark, ledger: &mut Ledger) -> Shape {
        let mut draw = self.draw.borrow_mut();
        if !self.hostile {
            return shape::draw(&mut draw, first, self.now_ms());
        }
        let (shape, earlier) = shape::draw_hostile(&mut draw, first, self.now_ms(), &mut self.used.borrow_mut());
        if let Some(issue) = earlier.and_then(|mark| ledger.issues.get_mut(mark as usize)) {
            issue.shares_id = true;
        }
        shape
    }

    fn is_stored(&self, mark: Mark) -> bool {
        let ledger = self.ledger.borrow();
        let last = ledger.issues.get(mark as usize).and_then(|issue| issue.sends.last());
        last.is_some_and(|send| matches!(send.end, End::Stored(_)))
    }

    fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// The next call, in its time; none when there are enough.
    async fn next(&self) -> Option<(Mark, Shape)> {
        let (first, shape) = {
            let mut ledger = self.ledger.borrow_mut();
            let first = ledger.next();
            let enough = self.restarted.get() && u64::from(first) >= self.jobs_min;
            if enough || Instant::now() >= self.until || self.interrupted.get() {
                return None;
            }
            let mut shape = self.draw_next(first, &mut ledger);
            std::mem::take(&mut shape.issues).into_iter().for_each(|issue| ledger.issue(issue));
            (first, shape)
        };
        tokio::time::sleep_until(self.began + self.pace.saturating_mul(first)).await;
        Some((first, shape))
    }
}

/// How long a client with a key insists after every region is well again, beside what the sidecar waits for late writes and reads.
const INSISTS: Duration = Duration::from_secs(5);
/// Between two of its tries.
const INSISTS_EVERY: Duration = Duration::from_millis(250);
/// Calls that are remembered for a repetition.
const KNOWN_MAX: usize = 32;
/// Ids that are remembered for another use.
const USED_MAX: usize = 64;

/// Repeats every call with a key that is still open, until its client knows, or the time is over.
pub(super) async fn insist(world: &Rc<World>, waits: Duration) {
    let open = std::mem::take(&mut *world.open.borrow_mut());
    let mut clients = tokio::task::JoinSet::new();
    for (first, shape) in open {
        let world = Rc::clone(world);
        clients.spawn_local(async move {
            let (until, mut connection) = (Instant::now() + INSISTS + waits, None);
            let shape = Shape { habits: shape.habits.once(), ..shape };
            while call(&world, &mut connection, first, &shape).await && Instant::now() < until {
                tokio::time::sleep(INSISTS_EVERY).await;
            }
        });
    }
    while clients.join_next().await.is_some() {}
}

/// Repeats the last calls with a key that went well, as clients do that were restarted, too: each must be recognised.
pub(super) async fn recall(world: &Rc<World>) {
    // Once each: a later repetition could be excused by what the process in between forgot.
    let known = std::mem::take(&mut *world.known.borrow_mut());
    let mut clients = tokio::task::JoinSet::new();
    // At once: one that meets a fault does not hold up the others, nor the plan.
    for (first, shape) in known {
        let world = Rc::clone(world);
        clients.spawn_local(async move { call(&world, &mut None, first, &shape).await });
    }
    while clients.join_next().await.is_some() {}
}

/// One client, which issues calls until there are enough.
pub(super) async fn work(world: Rc<World>) {
    let mut connection = None;
    while let Some((first, shape)) = world.next().await {
        if call(&world, &mut connection, first, &shape).await {
            world.open.borrow_mut().push((first, shape));
        } else if world.hostile && world.durable.get() && shape.key.is_some() && world.is_stored(first) {
            let mut known = world.known.borrow_mut();
            known.push_back((first, shape));
            if known.len() > KNOWN_MAX {
                known.pop_front();
            }
        } else if let Some(used) = shape.used.filter(|it| world.hostile && world.is_stored(it.mark)) {
            let mut all = world.used.borrow_mut();
            if all.len() < USED_MAX {
                all.push(used);
            }
        }
    }
}

/// One call with all its repetitions; true when it has a key and an outcome that its client does not know.
async fn call(world: &World, connection: &mut Option<Connection>, first: Mark, shape: &Shape) -> bool {
    let mut left = shape.habits;
    let (count, before) = {
        let ledger = world.ledger.borrow();
        let members = ledger.issues.iter().skip(first as usize).take_while(|issue| issue.first == first);
        (members.count(), ledger.issues.get(first as usize).map_or(0, |issue| issue.sends.len()))
    };
    for number in before..before + 12 {
        let Some(open) = connected(world, connection).await else { return false };
        let (epoch, began_ms) = (world.epoch.get(), world.now_ms());
        let answer = tokio::time::timeout(TIMEOUT, open.ask(first, number, shape)).await.unwrap_or(None);
        if answer.is_none() {
            *connection = None;
        }
        let ended_ms = world.now_ms();
        let told = Told::of(answer.as_ref(), first, count);
        {
            let mut ledger = world.ledger.borrow_mut();
            ledger.calls += shape.parts;
            told.count(&mut ledger, answer.as_ref());
            for (end, mark) in told.ends.iter().zip(first..) {
                ledger.sent(mark, Send { epoch, began_ms, ended_ms, end: *end, ours: told.is_ours });
            }
        }
        if told.status == 201 {
            world.successes.set(world.successes.get() + 1);
        }
        let again = match told.status {
            0 => take(&mut left.replays),
            429 | 502..=504 => take(&mut left.retries),
            500 if left.insists && told.is_unknown => take(&mut left.retries),
            200..=299 => std::mem::take(&mut left.repeats),
            _ => false,
        };
        if !again {
            return shape.key.is_some() && (told.status == 0 || told.is_unknown);
        }
        let doublings = u32::try_from((number - before).min(4)).unwrap_or(0);
        let part = 0.5 + world.draw.borrow_mut().unit();
        tokio::time::sleep(BACKOFF.saturating_mul(1 << doublings).mul_f64(part)).await;
    }
    false
}

const fn take(left: &mut usize) -> bool {
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}

/// A connection to the process that runs now; none when there is none for so long that the run has failed.
async fn connected<'c>(world: &World, connection: &'c mut Option<Connection>) -> Option<&'c mut Connection> {
    while world.paused.get() {
        *connection = None;
        tokio::time::sleep(CONNECT_EVERY).await;
    }
    let is_usable = connection.as_ref().is_some_and(|it| it.is_usable(world.address.get()));
    if !is_usable {
        *connection = None;
        let until = Instant::now() + 2 * TIMEOUT;
        while connection.is_none() && Instant::now() < until && !world.interrupted.get() {
            *connection = Connection::open(world.address.get()).await;
            if connection.is_none() {
                tokio::time::sleep(CONNECT_EVERY).await;
            }
        }
    }
    connection.as_mut()
}

/// An answer's statement about each job of its call.
struct Told {
    status: u16,
    /// Of an error: ours, or the region's code.
    reason: String,
    is_unknown: bool,
    /// Whether it is the sidecar's own error.
    is_ours: bool,
    ends: Vec<End>,
}

impl Told {
    fn of(answer: Option<&Answer>, first: Mark, count: usize) -> Self {
        let Some((status, _, body)) = answer else {
            let (reason, ends) = (String::new(), vec![End::Silent; count]);
            return Self { status: 0, reason, is_unknown: false, is_ours: false, ends };
        };
        let document: Value = serde_json::from_slice(body).unwrap_or_default();
        let details = &document["error"]["details"];
        let reason = details["reason"].as_str().unwrap_or_default();
        let is_unknown = matches!(reason, "outcome_unknown" | "partly_created");
        let end = |place: usize| match status.as_u16() {
            200..=299 => stored(&document, first, place, count),
            409 => End::Conflict,
            _ if is_unknown => unknown(details, place),
            status => End::Refused(status),
        };
        let ends = (0..count).map(end).collect();
        let code = document["error"]["code"].as_str().unwrap_or("no document");
        let is_ours = !reason.is_empty() && status.is_server_error();
        let reason = if reason.is_empty() { code } else { reason }.to_owned();
        Self { status: status.as_u16(), reason, is_unknown, is_ours, ends }
    }

    fn count(&self, ledger: &mut Ledger, answer: Option<&Answer>) {
        *ledger.statuses.entry(self.status).or_default() += 1;
        let Some((_, headers, _)) = answer else { return };
        if self.status >= 300 {
            *ledger.reasons.entry((self.status, self.reason.clone())).or_default() += 1;
        }
        ledger.replays += u64::from(headers.contains_key("ojs-federation-replayed"));
    }
}

/// The job in the answer: bare, under `job`, or in its place of `jobs`.
fn stored(document: &Value, first: Mark, place: usize, count: usize) -> End {
    let job = match &document["jobs"] {
        Value::Array(jobs) => jobs.get(place).unwrap_or(&Value::Null),
        _ if count > 1 => &Value::Null,
        _ => document.get("job").unwrap_or(document),
    };
    let shown = job["args"][0].as_str().and_then(|text| marks_in(text.as_bytes()).next());
    if let Some(other) = shown.filter(|mark| u64::from(*mark) != u64::from(first) + place as u64) {
        return End::Shown(other);
    }
    // A 2xx that names no job cannot be found: the judge looks for an id that no region has.
    End::Stored(job["id"].as_str().and_then(id_of).unwrap_or(0))
}

/// An error's statement about one job: of a batch that was split, each has its own fate.
fn unknown(details: &Value, place: usize) -> End {
    let names = |list: &str| details[list].as_array().map(|all| all.iter().any(|it| it.as_u64() == Some(place as u64)));
    if names("failed") == Some(true) || names("cancelled") == Some(true) {
        return End::Refused(500);
    }
    let of_batch =
        details["jobs"].as_array().into_iter().flatten().find(|job| job["index"].as_u64() == Some(place as u64));
    let id = of_batch.map_or(&details["job_id"], |job| &job["id"]).as_str().and_then(id_of);
    match (names("created"), id) {
        (Some(true), Some(id)) => End::Stored(id),
        _ => End::Unknown(id),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::super::ledger::text_of;
    use super::*;

    const ID: &str = "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f";

    #[track_caller]
    fn check(status: u16, document: &Value, expected: &[End]) {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = (status, HeaderMap::new(), Bytes::from(document.to_string()));
        assert_eq!(Told::of(Some(&answer), 4, expected.len()).ends, expected);
    }

    #[test]
    fn an_answer_says_of_each_job_what_became_of_it() {
        let id = id_of(ID);
        let stored = End::Stored(id.unwrap());
        check(201, &json!({ "job": { "id": ID } }), &[stored]);
        check(201, &json!({ "id": ID }), &[stored]);
        check(201, &json!({ "jobs": [{ "id": ID }, { "id": ID }] }), &[stored, stored]);
        let mine = |mark| json!({ "id": ID, "args": [text_of(mark)] });
        check(201, &json!({ "job": mine(4) }), &[stored]);
        check(200, &json!({ "job": mine(5) }), &[End::Shown(5)]);
        check(201, &json!({ "jobs": [mine(4), mine(4)] }), &[stored, End::Shown(4)]);
        check(201, &json!({}), &[End::Stored(0)]);
        check(409, &json!({}), &[End::Conflict]);
        check(503, &json!({ "error": { "details": { "reason": "retry_budget" } } }), &[End::Refused(503)]);
        let details = json!({ "reason": "outcome_unknown", "job_id": ID });
        check(500, &json!({ "error": { "details": details } }), &[End::Unknown(id)]);
        assert_eq!(Told::of(None, 0, 2).ends, [End::Silent; 2]);
    }

    #[test]
    fn a_batch_that_was_torn_says_of_each_job_what_became_of_it() {
        let jobs = json!([{ "index": 0, "id": ID }, { "index": 1, "id": ID }]);
        let details = json!({ "reason": "outcome_unknown", "created": [0], "unknown": [1], "failed": [2],
                              "cancelled": [3], "jobs": jobs });
        let id = id_of(ID);
        let refused = End::Refused(500);
        check(
            500,
            &json!({ "error": { "details": details } }),
            &[End::Stored(id.unwrap()), End::Unknown(id), refused, refused],
        );
    }
}
