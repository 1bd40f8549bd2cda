//! One small question of our own to a region: a health probe or a load poll.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;

use super::Region;
use crate::net::body::Outgoing;
use crate::net::pool::{NotSent, Pool, RegionBody, SendError};
use crate::ojs::header;

/// The answer to such a question is at most this long; a longer one is no answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const AGENT: &str = concat!("ojs-sidecar/", env!("CARGO_PKG_VERSION"));

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// No connection came about.
    #[error(transparent)]
    NotSent(NotSent),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(hyper::Error),
    /// No whole answer within the time.
    #[error("no answer in time")]
    Timeout,
    /// The answer was longer than 64 KiB.
    #[error("the answer is longer than 64 KiB")]
    TooLong,
}

/// Asks `GET path` of a region, within `timeout`, connecting included.
///
/// Errors: [`AskError`]. Redirects are not followed: they are answers.
pub(super) async fn ask(
    region: &Region,
    pool: &Pool,
    path: &str,
    timeout: Duration,
) -> Result<(StatusCode, Bytes), AskError> {
    let mut headers = HeaderMap::with_capacity(5);
    headers.insert(ACCEPT, HeaderValue::from_static(header::MEDIA_TYPE));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(header::OJS_VERSION, HeaderValue::from_static(header::VERSION));
    let path = PathAndQuery::try_from(path).map_err(|_| AskError::TooLong)?;
    let reach = region.reach();
    let endpoint = reach.endpoint(timeout);
    let request = reach.request(Method::GET, &path, headers, Outgoing::Empty).ok_or(AskError::TooLong)?;
    let asked = async {
        let response = pool.send(&endpoint, request).await.map_err(|error| match error {
            SendError::NotSent(why) => AskError::NotSent(why),
            SendError::Unknown(error) => AskError::Broken(error),
        })?;
        let status = response.status();
        Ok((status, read(response.into_body()).await?))
    };
    tokio::time::timeout(timeout, asked).await.map_err(|_| AskError::Timeout)?
}

async fn read(mut body: RegionBody) -> Result<Bytes, AskError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(AskError::Broken)?.into_data() else { continue };
        if whole.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(AskError::TooLong);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
