//! The manifest of a replay: a line for each of its jobs, with digest, new id and the note of its end. The audit trail has the root of the tree over
//! the lines (RFC 9162 §2.1), so that a bundle proves them. Spec: source-job-orchestrator §6.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};

use super::super::ledger;
use super::super::record::{RecordError, ReplayJob, ReplayStep};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::document::{Replay, find, shown_job};
use crate::evidence::{Tree, leaf_hash};
use crate::ojs::query_text;
use crate::replica::is_text;

/// Jobs in one answer: each is looked for in the ledger.
const JOBS_MAX: usize = 500;
/// Between the result of a replay and its manifest in a row of the audit trail.
const MARK: &str = "; manifest ";
/// The hex digits of a root.
const ROOT_DIGITS: usize = 64;
/// The hex digits of the random bits of a line.
const SALT_DIGITS: usize = 32;

/// The manifest of a replay, as its row in the audit trail names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedManifest {
    /// The replay.
    pub replay_id: String,
    /// The number of its jobs.
    pub jobs: u64,
    /// The root of the tree over its lines, in hex.
    pub root: String,
}

impl NotedManifest {
    /// The words of a row about it, behind the result, such as `; manifest fix 3 jobs 5fec...`.
    pub(super) fn suffix(&self) -> String {
        format!("{MARK}{} {} jobs {}", self.replay_id, self.jobs, self.root)
    }

    /// Reads the subject of a row. None for a row without a manifest.
    #[must_use]
    pub fn read(subject: &str) -> Option<Self> {
        let (_, noted) = subject.rsplit_once(MARK)?;
        let (replay_id, rest) = noted.split_once(' ')?;
        let (jobs, root) = rest.split_once(" jobs ")?;
        let is_digit = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
        if root.len() != ROOT_DIGITS || !root.bytes().all(is_digit) {
            return None;
        }
        Some(Self { replay_id: replay_id.to_owned(), jobs: jobs.parse().ok()?, root: root.to_owned() })
    }
}

/// The line of a job: JSON without its end. Bits that follow from those of the replay are in it, so that the hash of a line that is withheld says
/// nothing about its job.
fn line(replay_id: &str, salt: &str, job: &ReplayJob) -> String {
    let own = sign(&Key::new(HMAC_SHA256, salt.as_bytes()), job.place.to_string().as_bytes());
    let own: String = HEXLOWER.encode(own.as_ref()).chars().take(SALT_DIGITS).collect();
    let mut shown = shown_job(job);
    (shown["replay_id"], shown["salt"]) = (json!(replay_id), json!(own));
    shown.to_string()
}

/// The manifest of a replay whose jobs have all ended. None without a ledger, because no bundle has the lines then.
///
/// Errors: the record's.
pub(super) async fn noted(hub: &Hub, replay: &Replay) -> Result<Option<NotedManifest>, RecordError> {
    let (Some(_), Some(salt), replay_id) = (&hub.ledger, &replay.salt, &replay.id) else { return Ok(None) };
    let (mut tree, mut from) = (Tree::new(), 0);
    loop {
        let jobs = hub.record.replay_jobs(replay_id, &ReplayStep::ALL, from, JOBS_MAX).await?;
        jobs.iter().for_each(|job| tree.push(leaf_hash(line(replay_id, salt, job).as_bytes())));
        match jobs.last() {
            Some(last) if jobs.len() == JOBS_MAX => from = last.place + 1,
            _ => break,
        }
    }
    let (jobs, root) = (tree.size(), HEXLOWER.encode(&tree.root()));
    Ok(Some(NotedManifest { replay_id: replay_id.clone(), jobs, root }))
}

/// `GET /api/replays/{id}/manifest?root=R`: the lines of the replay that has ended with this root, in order; `cursor=C` from a place on, `tenant=T` for
/// the jobs of one tenant.
/// Of a line that is withheld there is the hash, and why: as for the history of the ledger. Where the record does not have
/// the replay any more, or another one has its name, there are no lines, and `dropped` is true.
///
/// Errors: 400 for another query, 404 without a ledger, 409 while the replay goes on.
pub(in crate::hub) async fn show(hub: &Hub, id: &str, query: &str) -> Result<Value, Refusal> {
    let (mut from, mut tenant, mut root) = (0, None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
        match name {
            "tenant" => tenant = Some(query_text(value)).filter(|it| is_text(it)),
            "cursor" => {
                let place = value.parse::<u64>().ok().filter(|it| i64::try_from(*it).is_ok());
                from = place.ok_or_else(|| wrong("`next_cursor` of an answer"))?;
            }
            "root" => root = Some(value),
            _ => return Err(wrong("`root`, `tenant` and `cursor` only")),
        }
        if name == "tenant" && tenant.is_none() {
            return Err(wrong("1 to 255 bytes without control characters"));
        }
    }
    let root =
        root.ok_or_else(|| Refusal::bad_request("`root`: expected the one that the audit trail names".to_owned()))?;
    let dropped = || json!({ "lines": [], "next_cursor": null, "dropped": true });
    if hub.record.replay(id).await?.is_none() {
        return Ok(dropped());
    }
    let (_, replay) = find(hub, id).await?;
    if replay.manifest.as_ref().is_some_and(|own| own != root) {
        return Ok(dropped());
    }
    let Some(salt) = replay.salt.as_ref().filter(|_| !replay.is_open()) else {
        let message = format!(
            "the replay {id} has no manifest: it has one once it has ended, unless an earlier version took its order"
        );
        return Err(Refusal::new(http::StatusCode::CONFLICT, "replay_open", message));
    };
    let mut jobs = hub.record.replay_jobs(id, &ReplayStep::ALL, from, JOBS_MAX + 1).await?;
    let next = jobs.get(JOBS_MAX).map(|it| it.place.to_string());
    jobs.truncate(JOBS_MAX);
    let mut lines = Vec::new();
    for job in &jobs {
        let line = line(id, salt, job);
        let leaf = HEXLOWER.encode(&leaf_hash(line.as_bytes()));
        let withheld = ledger::withheld_job(hub, (&job.job_id, job.region.as_deref()), tenant.as_deref()).await?;
        lines.push(json!({ "leaf": leaf, "line": Some(line).filter(|_| withheld.is_none()), "withheld": withheld }));
    }
    Ok(json!({ "lines": lines, "next_cursor": next, "dropped": false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written_whatever_a_job_is_called() {
        let noted = NotedManifest { replay_id: "fix-7".to_owned(), jobs: 3, root: "5fec".repeat(16) };
        let subject = format!("job a; manifest b 1 jobs c in us: replayed{}", noted.suffix());
        assert_eq!(NotedManifest::read(&subject), Some(noted));
        for other in ["", "replay fix: 3 replayed", "x; manifest", "x; manifest fix 3 jobs 5fec"] {
            assert_eq!(NotedManifest::read(other), None, "{other}");
        }
    }
}
