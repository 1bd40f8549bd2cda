//! The audit trail as a log with signed heads: with a head, every later change of a row before it is found.
//!
//! Spec: RFC 9162 §2.1, §4.10. A leaf is a row as `ojs-sidecar audit export` writes it, without the end of the line.

use std::fs::File;
use std::io::Read as _;

use tokio::sync::Mutex;

use super::audit::Head as End;
use super::audit_settings::AuditSettings;
use super::record::{Record, RecordError};
use crate::evidence::{Envelope, Head, Signer, Tree, leaf_hash};

/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 1_000;
/// Parts that one call reads, so that others have their turn; a longer trail is read by further calls.
const PARTS_MAX: usize = 10;
/// A longer file is no key. Units: bytes.
const KEY_BYTES_MAX: u64 = 16 * 1024;

/// Why the key of the audit trail cannot be used. Says neither path nor content: a secret pasted in place of a path must not be shown.
#[derive(Debug, thiserror::Error)]
#[error("audit.key: {0}")]
pub struct AuditKeyError(String);

/// Why no head is signed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsigned {
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The record has another row than was written, or lacks one.
    #[error(
        "row {0} of the audit trail is missing, or is not as it was written: nothing is signed, export the trail and compare it with an earlier bundle"
    )]
    Changed(u64),
    /// A row that was signed is another one now: the record was changed, or is an earlier copy.
    #[error(
        "row {0} of the audit trail is not the one that was signed: the record was changed, or restored from a copy; nothing is signed until a restart of the hub"
    )]
    Back(u64),
    /// There are more rows than one call reads.
    #[error("the audit trail is being read, {0} rows so far: ask again")]
    Reading(u64),
    #[error("the key did not sign: {0}")]
    Key(#[from] crate::evidence::KeyError),
}

/// The log of the audit trail.
#[derive(Debug)]
pub(super) struct AuditLog {
    signer: Signer,
    name: String,
    /// The rows so far. Locked while rows are read, so that each is added once.
    rows: Mutex<(Tree, End)>,
}

impl AuditLog {
    /// Reads the key.
    ///
    /// Errors: [`AuditKeyError`].
    pub(super) fn load(settings: AuditSettings) -> Result<Self, AuditKeyError> {
        let cannot = |error| AuditKeyError(format!("expected the path of a private key: {error}"));
        if !std::fs::metadata(&settings.key).map_err(cannot)?.is_file() {
            return Err(AuditKeyError("expected the path of a private key: it is no file".to_owned()));
        }
        let mut content = Vec::new();
        let file = File::open(&settings.key).map_err(cannot)?;
        let length = file.take(KEY_BYTES_MAX + 1).read_to_end(&mut content).map_err(cannot)?;
        if length as u64 > KEY_BYTES_MAX {
            return Err(AuditKeyError("expected a private key; the file is longer than 16 KiB".to_owned()));
        }
        let signer = Signer::read(&content).map_err(|error| AuditKeyError(error.to_string()))?;
        Ok(Self { signer, name: settings.log, rows: Mutex::default() })
    }

    /// Signs the head of another tree, whose log has the name of this one and a part of its own.
    ///
    /// Errors: [`crate::evidence::KeyError::Unsigned`].
    pub(super) fn sign(
        &self,
        part: &str,
        tree: &Tree,
        now_ms: u64,
    ) -> Result<(Head, Envelope), crate::evidence::KeyError> {
        let head = Head::of(&format!("{}/{part}", self.name), tree, now_ms);
        let envelope = head.sign(&self.signer)?;
        Ok((head, envelope))
    }

    /// Reads the rows that were added since, and signs the head over all. `written`: the end of the trail as this hub knows it from its changes;
    /// others may have added rows behind it. `now_ms`: since the Unix epoch.
    ///
    /// Errors: [`Unsigned`].
    pub(super) async fn signed_head(
        &self,
        record: &Record,
        written: &End,
        now_ms: u64,
    ) -> Result<(Head, Envelope), Unsigned> {
        let mut rows = self.rows.lock().await;
        let (tree, end) = &mut *rows;
        if let Some(before) = end.number.checked_sub(1) {
            let signed = record.audit(before, 1).await?.pop();
            if signed.is_none_or(|row| (row.number, &row.hash) != (end.number, &end.hash)) {
                return Err(Unsigned::Back(end.number));
            }
        }
        for part in 0..=PARTS_MAX {
            if part == PARTS_MAX {
                return Err(Unsigned::Reading(end.number));
            }
            let part = record.audit(end.number, ROWS_AT_ONCE).await?;
            let is_last = part.len() < ROWS_AT_ONCE;
            for row in part {
                let changed = Unsigned::Changed(end.number + 1);
                let Some(line) = row.line().ok().filter(|_| row.follows(end)) else { return Err(changed) };
                if row.number == written.number && row.hash != written.hash {
                    return Err(changed);
                }
                tree.push(leaf_hash(line.as_bytes()));
                *end = End { number: row.number, hash: row.hash };
            }
            if is_last {
                break;
            }
        }
        if end.number < written.number {
            return Err(Unsigned::Changed(end.number + 1));
        }
        let head = Head::of(&self.name, tree, now_ms);
        Ok((head.clone(), head.sign(&self.signer)?))
    }
}
