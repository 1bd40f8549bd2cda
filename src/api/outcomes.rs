//! `GET /v1/federation/outcomes`: jobs whose fate is open, or was, with their resolution.

use serde_json::{Value, json};

use crate::base::text::rfc3339;
use crate::journal::Journal;
use crate::ojs::{ErrorDocument, query_text};
use crate::outcome::{Absence, Copy, Fate, Lost, Place, Placement, Progress, Ruling, State, Told};
use crate::proxy::Proxy;
use crate::spool::Head;

/// Shown when the call does not say how many.
const LIMIT: usize = 100;
/// The most that one answer shows.
const LIMIT_MAX: usize = 1_000;

/// The parameters of the question.
#[derive(Debug, Default)]
struct Wanted {
    state: Option<State>,
    job_id: Option<String>,
    federation_id: Option<String>,
    region: Option<String>,
    before: Option<u64>,
    limit: Option<usize>,
}

/// Shape: the newest first; `?state=`, `?job_id=`, `?federation_id=` and `?region=` select, `?limit=` is the number,
/// `?cursor=` continues at `next_cursor` of an answer. Times in RFC 3339, `null` for unknown values.
///
/// Errors: 400 for a parameter that there is not, and for a state, a limit or a cursor that is none.
pub(super) fn document(proxy: &Proxy, query: Option<&str>) -> Result<Vec<u8>, ErrorDocument> {
    let wanted = Wanted::read(query.unwrap_or_default())?;
    let journal = &proxy.shared.journal;
    let limit = wanted.limit.unwrap_or(LIMIT);
    // One more says whether there are more.
    let mut found = journal.placements(limit + 1, |it| wanted.takes(it));
    let next = (found.len() > limit).then(|| found.truncate(limit)).and_then(|()| found.last()).map(|it| it.number);
    let outcomes: Vec<Value> = found.iter().map(|it| outcome_row(journal, it)).collect();
    let document = json!({
        "durable": journal.is_durable(),
        "unknown": journal.count(State::Unknown),
        "watched": journal.count(State::Watched),
        "outcomes": outcomes,
        "next_cursor": next.map(|number| number.to_string()),
        "spool": spooled(proxy, &wanted),
    });
    Ok(document.to_string().into_bytes())
}

impl Wanted {
    fn read(query: &str) -> Result<Self, ErrorDocument> {
        let mut wanted = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "state" => wanted.state = Some(State::parse(value).ok_or_else(ErrorDocument::outcomes_query)?),
                "limit" => {
                    let limit = value.parse().ok().filter(|it| (1..=LIMIT_MAX).contains(it));
                    wanted.limit = Some(limit.ok_or_else(ErrorDocument::outcomes_query)?);
                }
                "cursor" => wanted.before = Some(value.parse().map_err(|_| ErrorDocument::outcomes_query())?),
                "job_id" => wanted.job_id = Some(query_text(value)),
                "federation_id" => wanted.federation_id = Some(query_text(value)),
                "region" => wanted.region = Some(query_text(value)),
                _ => return Err(ErrorDocument::outcomes_query()),
            }
        }
        Ok(wanted)
    }

    fn takes(&self, it: &Placement) -> bool {
        // The record of a key whose job went well is shown by its id only.
        let is_shown = it.has_traces() || it.settled.is_some() || self.job_id.is_some();
        let has = |test: &dyn Fn(&Copy) -> bool| it.copies.iter().any(test);
        is_shown
            && self.before.is_none_or(|before| it.number < before)
            && self.state.is_none_or(|state| it.state() == state)
            && self.job_id.as_ref().is_none_or(|id| it.ids().any(|known| known == id))
            && self.federation_id.as_ref().is_none_or(|id| has(&|copy| copy.stamp.as_ref() == Some(id)))
            && self.region.as_ref().is_none_or(|region| has(&|copy| copy.place.region.as_str() == region))
    }
}

/// The jobs of the outage spool, the oldest first: those of the ids that are asked for; `null` without a spool. Other parameters select none.
fn spooled(proxy: &Proxy, wanted: &Wanted) -> Value {
    let Some(spool) = &proxy.shared.spool else { return Value::Null };
    let is_asked = wanted.state.is_none() && wanted.region.is_none() && wanted.before.is_none();
    let takes = |head: Option<&Head>| {
        wanted.job_id.as_deref().is_none_or(|id| head.is_some_and(|it| it.job_id() == id))
            && wanted
                .federation_id
                .as_deref()
                .is_none_or(|id| head.is_some_and(|it| it.federation_id.as_deref() == Some(id)))
    };
    let max = if is_asked { wanted.limit.unwrap_or(LIMIT) } else { 0 };
    let rows = spool.list(max, takes);
    rows.iter()
        .map(|it| {
            json!({
                "job_id": it.job_id,
                "federation_id": it.federation_id,
                "state": it.state.as_str(),
                "reason": it.reason,
                "since": rfc3339(it.since_ms),
                "sent_to": it.regions,
            })
        })
        .collect()
}

/// One row, as `GET /v1/federation/outcomes` shows it.
#[must_use]
pub fn outcome_row(journal: &Journal, it: &Placement) -> Value {
    let stored = it.stored();
    let sent = it.copies.last().map(|copy| &copy.place);
    let copies: Vec<Value> = it.copies.iter().map(|copy| shown(journal, copy)).collect();
    let due = it.copies.iter().filter(|copy| !copy.is_final()).map(|copy| copy.asked.due).min();
    let cancelled = it.copies.iter().find(|copy| copy.fate == Fate::Cancelled { by_us: true });
    json!({
        "id": it.number.to_string(),
        "state": it.state().as_str(),
        "told": client_knows(&it.told),
        "job_id": stored.or(sent).map(|place| &place.job_id).filter(|id| !id.is_empty()),
        "region": stored.or(sent).map(|place| place.region.as_str()),
        "federation_id": it.copies.last().and_then(|copy| copy.stamp.as_deref()),
        "request_id": it.identity.request_id,
        "cancelled_in": cancelled.map(|copy| copy.place.region.as_str()),
        "sent_at": rfc3339(it.unix_ms),
        "resolved_at": it.settled.map(|settled| rfc3339(journal.unix_ms(settled.at))),
        "next_ask_at": due.filter(|_| !it.is_at_rest()).map(|at| rfc3339(journal.unix_ms(at))),
        "copies": copies,
    })
}

fn client_knows(told: &Told) -> &'static str {
    match told {
        Told::Nothing => "nothing_yet",
        Told::BrokenOff => "nothing",
        Told::Unknown => "unknown",
        Told::Refused => "refused",
        Told::Stored { .. } => "stored",
    }
}

fn shown(journal: &Journal, copy: &Copy) -> Value {
    let Place { region, job_id } = &copy.place;
    let (state, detail) = match copy.fate {
        Fate::Sent => ("sent", None),
        Fate::Unknown { lost: Lost::Ended, .. } => ("unknown", Some("connection_ended")),
        Fate::Unknown { lost: Lost::TimedOut, .. } => ("unknown", Some("no_answer")),
        Fate::Absent { by: Absence::Watched(_) } => ("absent", Some("watched")),
        Fate::Absent { by: Absence::Fenced | Absence::Buried } => ("absent", Some("fenced")),
        Fate::Absent { by: Absence::Final } => ("absent", None),
        Fate::Stored { progress } => ("stored", Some(far(progress))),
        Fate::Cancelling { progress, .. } => ("cancelling", Some(far(progress))),
        Fate::Cancelled { by_us: true } => ("cancelled", Some("as_a_second_copy")),
        Fate::Cancelled { by_us: false } => ("cancelled", Some("by_somebody_else")),
        Fate::Overwritten => ("overwritten", None),
    };
    let until = match copy.fate {
        Fate::Absent { by: Absence::Watched(until) } => Some(rfc3339(journal.unix_ms(until))),
        _ => None,
    };
    json!({
        "region": region.as_str(),
        "job_id": Some(job_id).filter(|id| !id.is_empty()),
        "state": state,
        "detail": detail,
        "watched_until": until,
        "sent_at": rfc3339(journal.unix_ms(copy.sent)),
        "decided": copy.ruling.as_deref().map(|ruling| decided(journal, ruling)),
    })
}

fn decided(journal: &Journal, ruling: &Ruling) -> Value {
    json!({
        "as": if ruling.stored { "stored" } else { "absent" },
        "reason": ruling.reason,
        "at": rfc3339(journal.unix_ms(ruling.at)),
    })
}

const fn far(progress: Progress) -> &'static str {
    match progress {
        Progress::Waiting => "waiting",
        Progress::Started => "started",
        Progress::Ended => "ended",
        Progress::Cancelled => "cancelled",
        Progress::Stopped => "stopped",
    }
}
