//! The connection of a hub to the hub of another region.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;

use super::connect::connect;
use super::failure::Failure;
use super::request::Requests;
use crate::config::{RegionTls, RegionUrl};
use crate::net::resolve::Resolve;
use crate::replica::CHANGE_BYTES_MAX;

/// The longest answer: a thousand facts of the longest kind, and the isolations beside them. Units: bytes.
const ANSWER_BYTES_MAX: usize = 1_000 * CHANGE_BYTES_MAX + 4 * 1024 * 1024;
/// For the body of an answer to arrive.
const BODY_WAIT: std::time::Duration = std::time::Duration::from_secs(10);

/// One connection to another hub.
#[derive(Debug)]
pub struct Pull(Requests);

impl Pull {
    /// Connects over mutual TLS. Must run within a local runtime.
    ///
    /// Errors: a sentence for the operator.
    pub async fn connect(url: &RegionUrl, tls: &RegionTls, resolver: &dyn Resolve) -> Result<Self, String> {
        let sender = connect(url, tls, resolver).await?;
        Ok(Self(Requests { url: url.clone(), sender }))
    }

    /// The document at a path.
    ///
    /// Errors: a sentence for the operator; the connection is to be made anew.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, String> {
        let body = self.get_bytes(path).await?;
        serde_json::from_slice(&body).map_err(|error| format!("the answer cannot be read: {error}"))
    }

    /// The bytes at a path.
    ///
    /// Errors: as for [`Self::get`].
    pub async fn get_bytes(&mut self, path: &str) -> Result<Bytes, String> {
        let request = self.0.get(path)?;
        let answer = self.0.answered(request).await.map_err(|failure| match failure {
            Failure::Refused(error) | Failure::Slow(error) | Failure::Lost(error) => error,
            Failure::Renewal => "the connection is over".to_owned(),
        })?;
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect();
        let body = tokio::time::timeout(BODY_WAIT, body).await.map_err(|_| "the answer did not arrive in time")?;
        Ok(body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes())
    }
}
