//! A connection for one upgraded exchange: never pooled, HTTP/1.1 only.

use std::io;

use http::{Request, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::lease::RegionBody;
use super::limits::PoolLimits;
use super::turns::Turn;
use crate::net::body::Outgoing;
use crate::net::dial::{DialError, Endpoint, dial};
use crate::net::framing::judge_answer;

/// Sends a request on a connection of its own that can be switched to another protocol, and is made in this turn.
///
/// Errors: [`DialError`] when no answer came about; the switch itself is asked for with `hyper::upgrade::on`.
pub async fn upgrade(
    endpoint: &Endpoint<'_>,
    limits: &PoolLimits,
    request: Request<Outgoing>,
    turn: Turn<'_>,
) -> Result<Response<RegionBody>, DialError> {
    let stream = dial(endpoint, false).await?;
    drop(turn);
    let broken = |error| DialError::Connect(io::Error::other(error));
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        .max_buf_size(limits.buffer_bytes())
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    tokio::task::spawn_local(async move { drop(connection.with_upgrades().await) });
    let response = sender.send_request(request).await.map_err(broken)?;
    judge_answer(response.version(), response.headers())
        .map_err(|violation| DialError::Connect(io::Error::other(violation)))?;
    Ok(response.map(RegionBody::shared))
}
