//! The central store of UWER: which task has which job, and the documents that were refused. Spec: UWER §3 and §4.
//!
//! Every answer comes once the record has committed: a sidecar accepts no task without it.

mod letters;
mod tasks;

use std::rc::Rc;

use aws_lc_rs::rand;
use http::StatusCode;
use serde_json::Value;

use super::access::Caller;
use super::endpoint::{Endpoint, LETTERS};
use super::response::Refusal;
use super::state::Hub;
use super::uwer_settings::UwerSettings;
use crate::replica::{RowNonce, Seal};
pub(super) use tasks::prune;

/// The store of one hub.
#[derive(Debug)]
pub(super) struct Uwer {
    pub(super) settings: UwerSettings,
    /// The key of dead letters.
    seal: Seal,
}

/// The file of the key cannot be used. Says neither path nor content.
#[derive(Debug, thiserror::Error)]
#[error("uwer.key_file: expected a file with 64 hexadecimal digits ({0}): make one with `openssl rand -hex 32`")]
pub struct UwerKeyError(&'static str);

impl Uwer {
    /// Reads the file of the key.
    ///
    /// Errors: [`UwerKeyError`].
    pub(super) fn load(settings: UwerSettings) -> Result<Self, UwerKeyError> {
        let seal = Seal::of_file(&settings.key_file).map_err(UwerKeyError)?;
        Ok(Self { settings, seal })
    }

    /// Bytes as the record keeps them. `None` only where the machine has no random bytes.
    fn sealed(&self, id: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let mut nonce = RowNonce::default();
        rand::fill(&mut nonce).ok()?;
        self.seal.seal(nonce, id.as_bytes(), bytes)
    }
}

/// Answers a request to the store.
pub(super) async fn answered(
    hub: &Rc<Hub>,
    endpoint: Endpoint,
    caller: &Caller,
    (path, query): (&str, &str),
    body: &[u8],
) -> Result<Value, Refusal> {
    let Some(store) = &hub.uwer else {
        let message = "this hub keeps no tasks of UWER: set `uwer` in its configuration".to_owned();
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_store", message));
    };
    match endpoint {
        Endpoint::ClaimTask => tasks::claim(hub, body).await,
        Endpoint::SettleTask => tasks::settle(hub, body).await,
        Endpoint::UwerTasks => tasks::show(hub, query).await,
        Endpoint::KeepLetter => letters::keep(hub, store, caller, body).await,
        Endpoint::Letters => letters::list(hub, query).await,
        _ => letters::show(hub, store, path.strip_prefix(LETTERS).unwrap_or(path), query).await,
    }
}
