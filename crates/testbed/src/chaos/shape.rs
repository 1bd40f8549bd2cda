//! The jobs that clients issue, in the shapes in which the SDKs send them.

use std::fmt::Write as _;

use uuid::Uuid;

use super::ids::IDS;
use super::ledger::{Issue, Mark, text_of};
use ojs_handles::Draw;

/// Every region.
pub(super) const ANYWHERE: u8 = (1 << IDS.len()) - 1;

const ENQUEUE: &str = "/ojs/v1/jobs";

/// A client's behaviour without a good answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Habits {
    /// How often it repeats on 429, 502, 503 and 504.
    pub(super) retries: usize,
    /// How often it repeats when the connection ends without an answer.
    pub(super) replays: usize,
    /// Whether it repeats after `outcome_unknown`, too: only with a key.
    pub(super) insists: bool,
    /// Whether it repeats a success, which must then be the same one.
    pub(super) repeats: bool,
}

impl Habits {
    /// Nothing is repeated.
    pub(super) const fn once(self) -> Self {
        Self { retries: 0, replays: 0, repeats: false, ..self }
    }
}

/// A call: its jobs, its body and its headers.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) issues: Vec<Issue>,
    pub(super) habits: Habits,
    pub(super) key: Option<String>,
    /// The number of its credentials.
    pub(super) caller: Option<u64>,
    pub(super) path: &'static str,
    pub(super) body: String,
    /// Regions that the call's pins name: a batch with several is sent in parts.
    pub(super) parts: u64,
    /// An id that may be used again once its job is stored.
    pub(super) used: Option<Used>,
}

/// A job that was stored under an id of its client's own.
#[derive(Debug, Clone)]
pub(super) struct Used {
    pub(super) mark: Mark,
    id: Uuid,
    meta: String,
    permitted: u8,
}

/// The kinds of clients in `reference`: how they enqueue, and which calls they repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sdk {
    /// Rust, JavaScript, Python: no id, and repeats on statuses.
    Usual,
    /// Go: no id, and repeats nothing.
    Go,
    /// The application gives an id; repeats on statuses.
    OwnId,
    /// Ruby: the full envelope with an id, and repeats once on a reset, too.
    Ruby,
    /// Something like Ruby without an id.
    Replaying,
    /// With an `Idempotency-Key`, repeated until it is known.
    Keyed,
    /// A batch of several jobs, in the usual client.
    Batch,
}

/// Callers with credentials.
const CALLERS: u64 = 8;

/// Draws the next call of hostile clients: one in twenty uses an id again, with another body; a third of those that repeat by a key or
/// an id of their own has credentials.
pub(super) fn draw_hostile(draw: &mut Draw, first: Mark, now_ms: u64, used: &mut Vec<Used>) -> (Shape, Option<Mark>) {
    if draw.below(20) == 0 && !used.is_empty() {
        let place = usize::try_from(draw.below(used.len() as u64)).unwrap_or(0);
        let Used { mark, id, meta, permitted } = used.swap_remove(place);
        let issue = Issue {
            client: "own id, used for another job before",
            permitted,
            own: Some(id.as_u128()),
            shares_id: true,
            keyed: false,
            hidden: false,
            first,
            sends: smallvec::SmallVec::new(),
        };
        let body = job(Sdk::OwnId, first, Some(id), &meta, draw);
        let habits = habits(Sdk::OwnId, draw);
        let shape =
            Shape { issues: vec![issue], habits, key: None, caller: None, path: ENQUEUE, body, parts: 1, used: None };
        return (shape, Some(mark));
    }
    let mut shape = self::draw(draw, first, now_ms);
    let repeats = shape.key.is_some() || shape.issues.iter().any(|issue| issue.own.is_some());
    shape.caller = (repeats && draw.below(3) == 0).then(|| draw.below(CALLERS));
    shape.issues.iter_mut().for_each(|issue| issue.hidden = shape.caller.is_some());
    (shape, None)
}

/// Draws the next call, with jobs numbered from `first`.
pub(super) fn draw(draw: &mut Draw, first: Mark, now_ms: u64) -> Shape {
    let sdk = match draw.below(100) {
        0..40 => Sdk::Usual,
        40..50 => Sdk::Go,
        50..60 => Sdk::OwnId,
        60..72 => Sdk::Ruby,
        72..75 => Sdk::Replaying,
        75..90 => Sdk::Keyed,
        _ => Sdk::Batch,
    };
    let count = if sdk == Sdk::Batch { 2 + u32::try_from(draw.below(4)).unwrap_or(0) } else { 1 };
    let mut jobs = Vec::new();
    let mut issues = Vec::new();
    let mut pins = 0_u8;
    let mut used = None;
    for mark in first..first.saturating_add(count) {
        let own = matches!(sdk, Sdk::OwnId | Sdk::Ruby).then(|| own_id(draw, now_ms));
        let (meta, permitted) = meta(draw);
        pins |= if permitted == ANYWHERE { 0 } else { permitted };
        jobs.push(job(sdk, mark, own, &meta, draw));
        used = own.map(|id| Used { mark, id, meta, permitted });
        let (client, keyed, own) = (name(sdk), sdk == Sdk::Keyed, own.map(|id| id.as_u128()));
        issues.push(Issue {
            client,
            permitted,
            own,
            shares_id: false,
            keyed,
            hidden: false,
            first,
            sends: smallvec::SmallVec::new(),
        });
    }
    let (path, body) = match sdk {
        Sdk::Batch => ("/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))),
        _ => (ENQUEUE, jobs.concat()),
    };
    // A flexible job beside two pins goes with the local part, which may be a third.
    let parts = u64::from(pins.count_ones()).max(1) + u64::from(pins.count_ones() > 1);
    let key = (sdk == Sdk::Keyed).then(|| format!("key-{first}"));
    Shape { issues, habits: habits(sdk, draw), key, caller: None, path, body, parts, used }
}

const fn name(sdk: Sdk) -> &'static str {
    match sdk {
        Sdk::Usual => "no id, retries on 429 and 502 to 504",
        Sdk::Go => "no id, never repeats",
        Sdk::OwnId => "own id, retries on statuses",
        Sdk::Ruby => "own id, replays on a reset",
        Sdk::Replaying => "no id, replays on a reset",
        Sdk::Keyed => "Idempotency-Key, insists",
        Sdk::Batch => "batch, retries on statuses",
    }
}

fn habits(sdk: Sdk, draw: &mut Draw) -> Habits {
    let (retries, replays, insists) = match sdk {
        Sdk::Usual | Sdk::OwnId | Sdk::Batch => (3, 0, false),
        Sdk::Go => (0, 0, false),
        Sdk::Ruby | Sdk::Replaying => (3, 1, false),
        Sdk::Keyed => (6, 4, true),
    };
    Habits { retries, replays, insists, repeats: sdk == Sdk::Keyed && draw.below(4) == 0 }
}

/// The client's own id: a UUID of version 7, as servers ask for.
fn own_id(draw: &mut Draw, now_ms: u64) -> Uuid {
    let mut random = [0; 10];
    let bits = (u128::from(draw.next()) << 64 | u128::from(draw.next())).to_le_bytes();
    random.iter_mut().zip(bits).for_each(|(to, from)| *to = from);
    uuid::Builder::from_unix_timestamp_millis(now_ms, &random).into_uuid()
}

/// The routing keys, and the regions that they permit.
fn meta(draw: &mut Draw) -> (String, u8) {
    match draw.below(10) {
        place @ 0..3 => {
            let id = usize::try_from(place).ok().and_then(|place| IDS.get(place)).copied().unwrap_or(IDS[0]);
            (format!(r#""meta":{{"ojs.federation.region":"{id}"}},"#), 1 << place)
        }
        3..6 => (r#""meta":{"ojs.federation.region_affinity":"overflow"},"#.to_owned(), ANYWHERE),
        6 => (r#""meta":{"ojs.federation.region_affinity":"round-robin"},"#.to_owned(), ANYWHERE),
        _ => (String::new(), ANYWHERE),
    }
}

fn job(sdk: Sdk, mark: Mark, own: Option<Uuid>, meta: &str, draw: &mut Draw) -> String {
    let mut job = String::from("{");
    if sdk == Sdk::Ruby {
        job.push_str(r#""specversion":"1.0","#);
    }
    if let Some(id) = own {
        // Writing to a text cannot fail.
        let _ = write!(job, r#""id":"{id}","#);
    }
    let queue =
        ["email", "video", "default"].get(usize::try_from(draw.below(3)).unwrap_or(0)).copied().unwrap_or("default");
    job.push_str(meta);
    match sdk {
        Sdk::Ruby => {
            let _ = write!(job, r#""queue":"{queue}","#);
        }
        _ => {
            let _ = write!(job, r#""options":{{"queue":"{queue}"}},"#);
        }
    }
    let _ = write!(job, r#""type":"chaos.job","args":["{}"]}}"#, text_of(mark));
    job
}
