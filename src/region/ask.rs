//! One small question of our own to a region: a health probe or a load poll.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, DATE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt;

use super::Region;
use super::ask_error::{AskError, HEALTH_PATH};
use crate::net::body::Outgoing;
use crate::net::pool::{Cut, Pool, RegionBody, SendError};
use crate::ojs::{answer, header, path_segment};

/// The answer to such a question is at most this long; a longer one is no answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const AGENT: &str = concat!("ojs-sidecar/", env!("CARGO_PKG_VERSION"));

/// Asks `GET path` of a region, within `timeout`, connecting included.
///
/// Errors: [`AskError`]. Redirects are not followed: they are answers.
pub async fn ask(region: &Region, pool: &Pool, path: &str, timeout: Duration) -> Result<(StatusCode, Bytes), AskError> {
    let asked =
        question(region, pool, (Method::GET, path, HeaderMap::new(), Bytes::new()), ANSWER_BYTES_MAX, timeout).await;
    asked.map(|(head, body)| (head.status, body))
}

/// A question about one job on our own behalf.
#[derive(Debug, Clone)]
pub enum JobQuestion {
    /// Looks it up.
    Look,
    /// Cancels it.
    Cancel,
    /// Creates it, from this body.
    Create(Bytes),
    /// Creates it, with headers of its client.
    Enqueue {
        /// The headers.
        headers: HeaderMap,
        /// The job.
        body: Bytes,
    },
}

/// Asks a region about one job on our own behalf. The answer may be as long as a job.
///
/// Errors: [`AskError`].
pub async fn ask_job(
    region: &Region,
    pool: &Pool,
    asked: &JobQuestion,
    id: &str,
    bytes_max: usize,
    timeout: Duration,
) -> Result<(StatusCode, Bytes), AskError> {
    let path = || format!("/ojs/v1/jobs/{}", path_segment(id));
    let create = |body: &Bytes| (Method::POST, "/ojs/v1/jobs".to_owned(), body.clone());
    let (method, path, body) = match asked {
        JobQuestion::Look => (Method::GET, path(), Bytes::new()),
        JobQuestion::Cancel => (Method::DELETE, path(), Bytes::new()),
        JobQuestion::Create(body) | JobQuestion::Enqueue { body, .. } => create(body),
    };
    let headers = if let JobQuestion::Enqueue { headers, .. } = asked { headers.clone() } else { HeaderMap::new() };
    let asked = question(region, pool, (method, &path, headers, body), bytes_max, timeout).await;
    asked.map(|(head, body)| (head.status, body))
}

/// Asks a region how many jobs wait in a queue; none where it does not say.
pub async fn ask_available(region: &Region, pool: &Pool, queue: &str, timeout: Duration) -> Option<u64> {
    let path = format!("/ojs/v1/queues/{}/stats", path_segment(queue));
    match ask(region, pool, &path, timeout).await.ok()? {
        (StatusCode::OK, body) => answer::queue_available(&body),
        // A region that does not know the queue has nothing in it; one that does not know the path says so in plain text.
        (StatusCode::NOT_FOUND, body) => answer::is_error_document(&body).then_some(0),
        _ => None,
    }
}

/// The content of a region's health answer, and its clock.
#[derive(Debug, Clone)]
pub struct HealthAnswer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The `status` in the body.
    pub word: Option<String>,
    /// The answer's `Date`; whole seconds.
    pub date: Option<SystemTime>,
}

/// Asks a region's health once, outside of any prober: for a command of an operator.
///
/// Errors: [`AskError`].
pub async fn ask_health(region: &Region, pool: &Pool, timeout: Duration) -> Result<HealthAnswer, AskError> {
    let (head, body) =
        question(region, pool, (Method::GET, HEALTH_PATH, HeaderMap::new(), Bytes::new()), ANSWER_BYTES_MAX, timeout)
            .await?;
    let date = head.headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    Ok(HealthAnswer { status: head.status, word: answer::health(&body).status, date })
}

/// Asks `GET path` of a region for its whole answer, which may be long.
///
/// Errors: [`AskError`].
pub async fn ask_long(
    region: &Region,
    pool: &Pool,
    path: &str,
    bytes_max: usize,
    timeout: Duration,
) -> Result<(StatusCode, Bytes), AskError> {
    let asked = question(region, pool, (Method::GET, path, HeaderMap::new(), Bytes::new()), bytes_max, timeout).await;
    asked.map(|(head, body)| (head.status, body))
}

/// Opens a stream of events: `GET path`, with the head within `timeout`, connecting included. The caller reads the body.
///
/// Errors: [`AskError`].
/// Cancel: dropped, the body closes its connection.
pub async fn open_events(
    region: &Region,
    pool: &Pool,
    path: &str,
    last_id: Option<&str>,
    timeout: Duration,
) -> Result<Response<RegionBody>, AskError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(last_id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert("last-event-id", last_id);
    }
    let sent = send(region, pool, (Method::GET, path, headers, Bytes::new()), timeout);
    tokio::time::timeout(timeout, sent).await.map_err(|_| AskError::Timeout)?
}

async fn question(
    region: &Region,
    pool: &Pool,
    (method, path, mut headers, body): (Method, &str, HeaderMap, Bytes),
    bytes_max: usize,
    timeout: Duration,
) -> Result<(http::response::Parts, Bytes), AskError> {
    headers.insert(ACCEPT, HeaderValue::from_static(header::MEDIA_TYPE));
    let asked = async {
        let (head, body) = send(region, pool, (method, path, headers, body), timeout).await?.into_parts();
        Ok((head, read(body, bytes_max).await?))
    };
    tokio::time::timeout(timeout, asked).await.map_err(|_| AskError::Timeout)?
}

/// Sends a request of our own. `timeout`: for connecting; the caller bounds the wait for the answer.
async fn send(
    region: &Region,
    pool: &Pool,
    (method, path, mut headers, body): (Method, &str, HeaderMap, Bytes),
    timeout: Duration,
) -> Result<Response<RegionBody>, AskError> {
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(header::OJS_VERSION, HeaderValue::from_static(header::VERSION));
    let path = PathAndQuery::try_from(path).map_err(|_| AskError::TooLong)?;
    let reach = region.reach(timeout).await;
    let endpoint = reach.endpoint(timeout);
    if !body.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(header::MEDIA_TYPE));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    let body = if body.is_empty() { Outgoing::EMPTY } else { Outgoing::pieces(&[body]) };
    let request = reach.request(method, &path, headers, body).ok_or(AskError::TooLong)?;
    let mut request = Some(request);
    pool.send(&endpoint, &mut request, std::time::Instant::now(), None).await.map_err(|error| match error {
        SendError::NotSent(why) => AskError::NotSent(why),
        SendError::Unknown(error) => AskError::Broken(error.into()),
        SendError::Broken(violation) => AskError::Broken(Cut::Broken(violation)),
        SendError::TimedOut => AskError::Timeout,
    })
}

async fn read(mut body: RegionBody, bytes_max: usize) -> Result<Bytes, AskError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(AskError::Broken)?.into_data() else { continue };
        if whole.len() + data.len() > bytes_max {
            return Err(AskError::TooLong);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
