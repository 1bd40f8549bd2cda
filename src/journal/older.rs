//! Journals of the version before placements: unknown outcomes and keys, in tables of their own, which become placements.
//!
//! Keys whose call was under way when its process ended, and without a noted region, are left out: there is no region
//! to ask.

use rusqlite::{Connection, Row};

use super::change::Change;
use super::columns::{number, region};
use crate::outcome::{
    Absence, Copy, Digest, Fate, Identity, Lost, Moment, Place, Placement, Progress, Settled, Settlement, ShownTo, Told,
};

/// The version of these tables.
pub(super) const VERSION: i64 = 3;
/// The statement that drops the older tables.
pub(super) const DROP: &str = "DROP TABLE IF EXISTS unknown; DROP TABLE IF EXISTS keyed;";

/// The older record of a job.
struct Known {
    run: u64,
    placement: Placement,
    /// The id that its key was sent with last.
    known_as: Option<String>,
}

const STORED: Fate = Fate::Stored { progress: Progress::Waiting };

/// All records but leases, whose table is unchanged.
pub(super) fn placements(connection: &Connection) -> rusqlite::Result<Vec<Change>> {
    let mut rows = Vec::new();
    let mut statement = connection.prepare("SELECT * FROM unknown ORDER BY number")?;
    for row in statement.query_map([], unknown)? {
        rows.extend(row?);
    }
    let mut statement = connection.prepare("SELECT * FROM keyed ORDER BY at_ms")?;
    let mut keyed = statement.query([])?;
    while let Some(row) = keyed.next()? {
        add_key(row, &mut rows)?;
    }
    Ok(rows.into_iter().map(|Known { run, placement, .. }| Change::Placement(run, placement)).collect())
}

fn identity(row: &Row<'_>, tenant: Digest, key: Option<Digest>, request_id: String) -> rusqlite::Result<Identity> {
    // The older record has no caller: where regions restrict look-ups, their 404 then proves no absence.
    let shown_to = if row.get("private")? { ShownTo::Tenant } else { ShownTo::Everybody };
    let (body, caller) = (row.get("body")?, Digest::default());
    Ok(Identity { tenant, caller, shown_to, body, content: None, key, own_id: None, request_id })
}

fn place(row: &Row<'_>, [of, job_id]: [&str; 2]) -> rusqlite::Result<Option<Place>> {
    Ok(region(row, of)?.zip(row.get(job_id)?).map(|(region, job_id)| Place { region, job_id }))
}

/// A row that makes no sense is passed over: it could not be acted on.
fn unknown(row: &Row<'_>) -> rusqlite::Result<Option<Known>> {
    let Some(sent) = place(row, ["region", "job_id"])? else { return Ok(None) };
    let at_ms = number(row, "at_ms")?;
    let (at, resolved) = (Moment(at_ms), row.get::<_, Option<i64>>("resolved_ms")?);
    let (state, cancelled): (String, Option<String>) = (row.get("state")?, row.get("cancelled")?);
    let lost = if row.get("ended")? { Lost::Ended } else { Lost::TimedOut };
    let (how, fate) = match &*state {
        "pending" if row.get("proved")? => (None, Fate::Absent { by: Absence::Watched(at) }),
        "pending" => (None, Fate::Unknown { lost, since: at }),
        "landed" => (Some(Settlement::Stored), STORED),
        "absent" => (Some(Settlement::Absent), Fate::Absent { by: Absence::Final }),
        "doubled" => (Some(Settlement::Doubled), Fate::Stored { progress: Progress::Started }),
        "expired" => (Some(Settlement::Expired), Fate::Unknown { lost, since: at }),
        _ => return Ok(None),
    };
    let gone = |which| match cancelled.as_deref() == Some(which) {
        true if how.is_none() => Some(Fate::Cancelling { since: at, progress: Progress::Waiting }),
        true => Some(Fate::Cancelled { by_us: true }),
        false => None,
    };
    let stamp: Option<String> = row.get("federation_id")?;
    let copy = |place, fate| Copy { fate, ..Copy::sending(place, stamp.clone(), at) };
    let mut copies = vec![copy(sent, gone("late").unwrap_or(fate))];
    if let Some(going) = place(row, ["going_region", "going_job_id"])? {
        copies.push(copy(going, Fate::Unknown { lost: Lost::Ended, since: at }));
    }
    let elsewhere = place(row, ["elsewhere_region", "elsewhere_job_id"])?;
    if let Some(place) = elsewhere.clone() {
        copies.push(copy(place, gone("elsewhere").unwrap_or(STORED)));
    }
    let told = elsewhere.map_or(Told::Unknown, |place| Told::Stored { place, status: 201 });
    let ended = resolved.and_then(|at| u64::try_from(at).ok()).map_or(at, Moment);
    let settled = how.map(|how| Settled { how, at: ended });
    let identity = identity(row, row.get("tenant")?, None, row.get("request_id")?)?;
    let placement = Placement {
        number: number(row, "number")?,
        identity,
        at,
        unix_ms: at_ms,
        copies,
        told,
        settled,
        key_claim: None,
    };
    Ok(Some(Known { run: number(row, "run")?, placement, known_as: row.get("known_as")? }))
}

/// A key belongs to the record of its job; without one, its region has said that it has stored the job.
fn add_key(row: &Row<'_>, rows: &mut Vec<Known>) -> rusqlite::Result<()> {
    let (key, body): (Digest, Digest) = (row.get("key")?, row.get("body")?);
    let Some(job_id) = row.get::<_, Option<String>>("job_id")? else { return Ok(()) };
    let is_its = |it: &Known| {
        let mut ids = it.placement.ids().chain(it.known_as.as_deref());
        it.placement.identity.body == body && ids.any(|id| id == job_id)
    };
    if let Some(known) = rows.iter_mut().rev().find(|it| is_its(it)) {
        known.placement.identity.key = Some(key);
        return Ok(());
    }
    let (Some(region), at_ms) = (region(row, "region")?, number(row, "at_ms")?) else { return Ok(()) };
    let (at, place) = (Moment(at_ms), Place { region, job_id });
    let copies = vec![Copy { fate: STORED, ..Copy::sending(place.clone(), None, at) }];
    let told = Told::Stored { place, status: row.get("status")? };
    // The tenant is in the key's fingerprint, and was not kept by itself.
    let identity = identity(row, Digest::default(), Some(key), String::new())?;
    let last = rows.iter().map(|it| it.placement.number).max().unwrap_or(0);
    let number = (at_ms << 16).max(last + 1);
    let run = self::number(row, "run")?;
    let placement = Placement { number, identity, at, unix_ms: at_ms, copies, told, settled: None, key_claim: None };
    rows.push(Known { run, placement, known_as: None });
    Ok(())
}
