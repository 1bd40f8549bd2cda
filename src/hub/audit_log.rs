//! The audit trail as a log with signed heads: with a head, every later change of a row before it is found.
//!
//! Spec: RFC 9162 §2.1, §4.10. A leaf is a row as `ojs-sidecar audit export` writes it, without the end of the line.

use tokio::sync::Mutex;

use super::audit::Head as End;
use super::audit_settings::AuditSettings;
use super::record::{Record, RecordError};
use crate::evidence::{Envelope, Head, Signer, Tree, leaf_hash};

/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 1_000;
/// Parts that one request reads, so that it ends; a longer trail is read by further ones.
const PARTS_MAX: usize = 100;
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
    /// The record has other rows than were written.
    #[error(
        "row {0} of the audit trail is not as it was written: nothing is signed, export the trail and compare it with an earlier bundle"
    )]
    Changed(u64),
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
        if std::fs::metadata(&settings.key).map_err(cannot)?.len() > KEY_BYTES_MAX {
            return Err(AuditKeyError("expected a private key; the file is longer than 16 KiB".to_owned()));
        }
        let content = std::fs::read(&settings.key).map_err(cannot)?;
        let signer = Signer::read(&content).map_err(|error| AuditKeyError(error.to_string()))?;
        Ok(Self { signer, name: settings.log, rows: Mutex::default() })
    }

    /// Reads the rows that were added since, and signs the head over all. `now_ms`: since the Unix epoch.
    ///
    /// Errors: [`Unsigned`].
    pub(super) async fn signed_head(&self, record: &Record, now_ms: u64) -> Result<(Head, Envelope), Unsigned> {
        let mut rows = self.rows.lock().await;
        let (tree, end) = &mut *rows;
        for _ in 0..PARTS_MAX {
            let part = record.audit(end.number, ROWS_AT_ONCE).await?;
            let is_last = part.len() < ROWS_AT_ONCE;
            for row in part {
                if !row.follows(end) {
                    return Err(Unsigned::Changed(row.number));
                }
                let line = row.line().map_err(|_| Unsigned::Changed(row.number))?;
                tree.push(leaf_hash(line.as_bytes()));
                *end = End { number: row.number, hash: row.hash };
            }
            if is_last {
                break;
            }
        }
        let head = Head::of(&self.name, tree, now_ms);
        Ok((head.clone(), head.sign(&self.signer)?))
    }
}
