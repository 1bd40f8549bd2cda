//! Requests to a hub over one connection.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::connect::authority;
use super::failure::Failure;
use crate::config::RegionUrl;
use crate::policy::ANSWER_BYTES_MAX as ROUTE_ANSWER_BYTES_MAX;
use crate::region::FiguresAnswer;
use crate::replica::IndexAnswer;

/// For the answer to a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Answers to statuses and reports have no body; those about keys and error documents are short. Units: bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The longest record of a job: some four thousand facts. Units: bytes.
const RECORD_BYTES_MAX: usize = 1024 * 1024;
/// The longest sums of figures: two thousand rows. Units: bytes.
const FIGURES_BYTES_MAX: usize = 1024 * 1024;
/// The path of questions about jobs. Spec: RFC-0001 §6.
const ROUTE: &str = "/v1/federation/route";
/// The code of an index that does not have a job.
pub const JOB_NOT_INDEXED: &str = "job_not_indexed";

/// A connection to a replica of the hub.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    pub(super) url: RegionUrl,
    pub(super) sender: SendRequest<Full<Bytes>>,
}

impl Requests {
    /// A request without a body.
    ///
    /// Errors: a sentence for the operator.
    pub(super) fn get(&self, path: &str) -> Result<Request<Full<Bytes>>, String> {
        self.request(Method::GET, path, Vec::new())
    }

    /// Sends a document and waits until the hub has taken it.
    pub(super) async fn send(&self, method: Method, path: &str, document: &impl Serialize) -> Result<(), Failure> {
        let request = self.with_document(method, path, document)?;
        self.answered(request).await.map(drop)
    }

    /// Sends a body and waits until the hub has taken it.
    pub(super) async fn send_bytes(&self, method: Method, path: &str, body: Vec<u8>) -> Result<(), Failure> {
        let request = self.request(method, path, body).map_err(Failure::Lost)?;
        self.answered(request).await.map(drop)
    }

    /// Sends bytes of jobs and waits until the hub has taken them. Returns the sentence of a hub that keeps none; none where it has taken them.
    pub(super) async fn send_bodies(&self, body: Vec<u8>) -> Result<Option<String>, Failure> {
        let request = self.request(Method::POST, "/v1/hub/bodies", body).map_err(Failure::Lost)?;
        let asked = async {
            let answer = self.sender.clone().send_request(request).await.map_err(Failure::lost)?;
            if answer.status() != StatusCode::NOT_FOUND {
                return accepted(answer).await.map(|_| None);
            }
            match accepted(answer).await {
                Err(Failure::Refused(error)) => Ok(Some(error)),
                other => other.map(|_| None),
            }
        };
        let slow = || Failure::Slow(format!("no answer to /v1/hub/bodies within {} s", TIMEOUT.as_secs()));
        tokio::time::timeout(TIMEOUT, asked).await.map_err(|_| slow())?
    }

    /// Sends a question about a job; the body of the answer.
    pub(super) async fn ask_where(&self, body: Vec<u8>) -> Result<Bytes, Failure> {
        let request = self.request(Method::POST, ROUTE, body).map_err(Failure::Lost)?;
        let body = Limited::new(self.answered(request).await?.into_body(), ROUTE_ANSWER_BYTES_MAX).collect();
        let body = tokio::time::timeout(TIMEOUT, body).await;
        let body = body.map_err(|_| Failure::Slow(format!("the answer to {ROUTE} did not arrive")))?;
        Ok(body.map_err(|error| Failure::Refused(error.to_string()))?.to_bytes())
    }

    /// Sends a document; the document of the answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str, document: &impl Serialize) -> Result<T, Failure> {
        let request = self.with_document(Method::POST, path, document)?;
        let body = Limited::new(self.answered(request).await?.into_body(), ANSWER_BYTES_MAX).collect();
        let body = tokio::time::timeout(TIMEOUT, body).await;
        let body = body.map_err(|_| Failure::Slow(format!("the answer to {path} did not arrive")))?;
        let body = body.map_err(Failure::lost)?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| Failure::Refused(format!("the answer to {path}: {error}")))
    }

    /// Looks a job up in the hub's index. `path`: with the query.
    pub(super) async fn look_up(&self, path: &str) -> Result<IndexAnswer, Failure> {
        let request = self.get(path).map_err(Failure::Lost)?;
        let asked = async {
            let answer = self.sender.clone().send_request(request).await.map_err(Failure::lost)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), RECORD_BYTES_MAX).collect().await;
            // A record that is too long is no loss of the connection.
            let body = body.map_err(|error| Failure::Refused(error.to_string()))?.to_bytes();
            Ok(index_answer(status, body))
        };
        let slow = || Failure::Slow(format!("no record within {} s", TIMEOUT.as_secs()));
        tokio::time::timeout(TIMEOUT, asked).await.map_err(|_| slow())?
    }

    /// Asks the central store of UWER; a request without a body is a GET. The status and the body of the answer.
    pub(super) async fn ask_store(&self, path: &str, body: Option<Vec<u8>>) -> Result<(StatusCode, Bytes), Failure> {
        let request = match body {
            Some(body) => self.request(Method::POST, path, body),
            None => self.get(path),
        };
        let request = request.map_err(Failure::Lost)?;
        let asked = async {
            let answer = self.sender.clone().send_request(request).await.map_err(Failure::lost)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), RECORD_BYTES_MAX).collect().await;
            Ok((status, body.map_err(|error| Failure::Refused(error.to_string()))?.to_bytes()))
        };
        let slow = || Failure::Slow(format!("no answer of the store within {} s", TIMEOUT.as_secs()));
        tokio::time::timeout(TIMEOUT, asked).await.map_err(|_| slow())?
    }

    /// Asks for the figures of the fleet.
    pub(super) async fn ask_figures(&self) -> Result<FiguresAnswer, Failure> {
        let request = self.get("/v1/hub/figures").map_err(Failure::Lost)?;
        let asked = async {
            let answer = self.sender.clone().send_request(request).await.map_err(Failure::lost)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), FIGURES_BYTES_MAX).collect().await;
            // Sums that are too long are no loss of the connection.
            let body = body.map_err(|error| Failure::Refused(error.to_string()))?.to_bytes();
            Ok(figures_answer(status, &body))
        };
        let slow = || Failure::Slow(format!("no figures within {} s", TIMEOUT.as_secs()));
        tokio::time::timeout(TIMEOUT, asked).await.map_err(|_| slow())?
    }

    /// The answer to a request, where it is a success.
    pub(super) async fn answered(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let path = request.uri().path().to_owned();
        let mut sender = self.sender.clone();
        let asked = async { accepted(sender.send_request(request).await.map_err(Failure::lost)?).await };
        let answered = tokio::time::timeout(TIMEOUT, asked).await;
        answered.map_err(|_| Failure::Slow(format!("no answer to {path} within {} s", TIMEOUT.as_secs())))?
    }

    fn with_document(
        &self,
        method: Method,
        path: &str,
        document: &impl Serialize,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let document = serde_json::to_vec(document).map_err(Failure::lost)?;
        self.request(method, path, document).map_err(Failure::Lost)
    }

    fn request(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
        let uri = Uri::builder()
            .scheme("https")
            .authority(authority(&self.url)?)
            .path_and_query(format!("{}{path}", self.url.base_path));
        let uri = uri.build().map_err(|error| error.to_string())?;
        let request = Request::builder().method(method).uri(uri).body(Full::new(Bytes::from(body)));
        request.map_err(|error| error.to_string())
    }
}

/// The answer to a look-up. Only a document with copies is a record.
fn index_answer(status: StatusCode, body: Bytes) -> IndexAnswer {
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    match (status, document["error"]["code"].as_str()) {
        (StatusCode::OK, _) if document["copies"].is_array() || document["jobs"].is_array() => IndexAnswer::Shown(body),
        (StatusCode::NOT_FOUND, Some(JOB_NOT_INDEXED)) => IndexAnswer::Absent,
        // A hub of a version without an index has no such path.
        (StatusCode::NOT_FOUND, Some(_)) => IndexAnswer::NoIndex,
        _ => IndexAnswer::Failed,
    }
}

/// The answer to a question for figures. A hub of a version without them has no such path.
fn figures_answer(status: StatusCode, body: &[u8]) -> FiguresAnswer {
    match status {
        StatusCode::OK => serde_json::from_slice(body).map_or(FiguresAnswer::Failed, FiguresAnswer::Summed),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => FiguresAnswer::Older,
        _ => FiguresAnswer::Failed,
    }
}

/// The answer, where it is a success; else its message.
async fn accepted(response: Response<Incoming>) -> Result<Response<Incoming>, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let document = body.ok().and_then(|body| serde_json::from_slice::<Value>(&body.to_bytes()).ok());
    let message = document.as_ref().and_then(|it| it["error"]["message"].as_str());
    let message = message.unwrap_or("without an error document");
    Err(Failure::Refused(format!("the hub answered {}: {message}", status.as_u16())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::FleetFigures;

    #[test]
    fn a_hub_without_the_path_is_an_earlier_one_and_later_ones_may_add_members() {
        let sums = r#"{"pools":[],"queues":[],"sidecars":2,"left_out":0,"rows_left_out":0,"age_ms":5,"later":1}"#;
        let expected = FleetFigures { sidecars: 2, age_ms: 5, ..FleetFigures::default() };
        for (status, body, answer) in [
            (StatusCode::OK, sums, FiguresAnswer::Summed(expected)),
            (StatusCode::OK, "{}", FiguresAnswer::Failed),
            (StatusCode::NOT_FOUND, "", FiguresAnswer::Older),
            (StatusCode::SERVICE_UNAVAILABLE, "", FiguresAnswer::Failed),
        ] {
            assert_eq!(figures_answer(status, body.as_bytes()), answer);
        }
    }
}
