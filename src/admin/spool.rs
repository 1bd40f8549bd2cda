//! `/spool`: an operator lists the outage spool, and decides about jobs that are set aside, from this machine only.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::response::{document, error};
use crate::base::text::rfc3339;
use crate::ojs::query_text;
use crate::spool::{Health, Listed, Ordered, Spool};
use crate::telemetry::{Metrics, SpoolResult, event};

/// The methods of the list, and of an order, as `Allow` has them.
pub(super) const METHODS: &str = "GET, HEAD";
pub(super) const ORDER_METHODS: &str = "POST";
/// The most jobs that a list shows.
const LIST_MAX: usize = 1_000;
/// A sentence or two, which the log has. Units: bytes.
const REASON_BYTES_MAX: usize = 512;

/// The outage spool in the hands of operators.
#[derive(Debug, Clone)]
pub struct Spooling {
    /// The spool, where one is configured.
    pub spool: Option<Arc<Spool>>,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Whether only this machine reaches the listener.
    pub is_local: bool,
}

/// An order about one job, as the end of its path has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Retry,
    Discard,
    Aside,
}

/// Why an order was not carried out: the status, the code and the sentence.
type Refused = (StatusCode, &'static str, &'static str);

impl Spooling {
    /// Answers one call below `/spool`; `None` for a path that there is not.
    pub(super) async fn answer(&self, method: &Method, path: &str, query: Option<&str>) -> Option<Answered> {
        if path == "/spool" {
            let reads = matches!(*method, Method::GET | Method::HEAD);
            return Some(if reads { Answered::With(self.list()) } else { Answered::NotAllowed(METHODS) });
        }
        let (name, order) = path.strip_prefix("/spool/")?.rsplit_once('/')?;
        let order = match order {
            "retry" => Order::Retry,
            "discard" => Order::Discard,
            "aside" => Order::Aside,
            _ => return None,
        };
        if *method != Method::POST {
            return Some(Answered::NotAllowed(ORDER_METHODS));
        }
        let answer = match self.order(order, &query_text(name), query.unwrap_or_default()).await {
            Ok(value) => document(&value),
            Err((status, code, message)) => error(status, code, message),
        };
        Some(Answered::With(answer))
    }

    fn list(&self) -> Response<Bytes> {
        let Some(spool) = &self.spool else {
            return document(&json!({ "state": "off", "set_aside": [] }));
        };
        let counts = spool.counts();
        let aside: Vec<Value> = spool.list_aside(LIST_MAX).iter().map(shown).collect();
        let (state, reason) = state(spool.health());
        document(&json!({
            "state": state,
            "reason": reason,
            "waiting": counts.waiting,
            "refused": counts.refused,
            "expired": counts.expired,
            "damaged": counts.damaged,
            "bytes": counts.bytes,
            "oldest_age_seconds": counts.oldest.as_secs(),
            "set_aside": aside,
        }))
    }

    async fn order(&self, order: Order, name: &str, query: &str) -> Result<Value, Refused> {
        if !self.is_local {
            let message = "orders about spooled jobs are taken only where `listen.admin` is a loopback address, so that no other host can give \
                           them, or over `control.socket` (--socket)";
            return Err((StatusCode::FORBIDDEN, "not_local", message));
        }
        let reason = reason(query).ok_or((
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "`reason`: expected a text of 1 to 512 bytes without control characters, and nothing else",
        ))?;
        let Some(spool) = &self.spool else {
            return Err((StatusCode::NOT_FOUND, "not_found", "no outage spool is configured (`spool.path`)"));
        };
        let (ended, result) = match order {
            Order::Retry => (spool.retry(name).await, SpoolResult::Retried),
            Order::Discard => (spool.discard(name).await, SpoolResult::Discarded),
            Order::Aside => (spool.aside(name).await, SpoolResult::SetAside),
        };
        let (status, code, message) = match ended {
            Ordered::Done => {
                event::spool_ordered(&self.metrics, result, name, &reason);
                return Ok(json!({ "id": name, "order": result.as_str() }));
            }
            Ordered::NotFound => (
                StatusCode::NOT_FOUND,
                "not_found",
                "no job of this number or id is set aside, or waits where it is to be set aside; `ojs-sidecar spool` lists those set aside",
            ),
            Ordered::Ambiguous => (
                StatusCode::CONFLICT,
                "ambiguous",
                "several jobs have this id; give the number of one, as `ojs-sidecar spool` lists it",
            ),
            Ordered::Damaged => (
                StatusCode::CONFLICT,
                "damaged",
                "the row cannot be read, and perhaps neither where the job was sent: it can only be discarded",
            ),
            Ordered::Busy | Ordered::Sent => (
                StatusCode::CONFLICT,
                "under_way",
                "a try of this job, or another order about it, is under way; give the order again",
            ),
            Ordered::NotTried => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unusable",
                "the file of the spool cannot be used now; nothing was changed",
            ),
            Ordered::Unknown => {
                let message = "the file of the spool did not confirm the order in time: it may be in effect or not; look again with \
                               `ojs-sidecar spool`";
                (StatusCode::INTERNAL_SERVER_ERROR, "unknown", message)
            }
        };
        Err((status, code, message))
    }
}

/// The answer of a path below `/spool`.
pub(super) enum Answered {
    With(Response<Bytes>),
    NotAllowed(&'static str),
}

const fn state(health: Health) -> (&'static str, Option<&'static str>) {
    match health {
        Health::Opening => ("opening", None),
        Health::Ready => ("ready", None),
        Health::Unusable(why) => ("unusable", Some(why)),
    }
}

fn shown(it: &Listed) -> Value {
    json!({
        "id": it.number.to_string(),
        "job_id": it.job_id,
        "federation_id": it.federation_id,
        "state": it.state.as_str(),
        "reason": it.reason,
        "since": rfc3339(it.since_ms),
        "sent_to": it.regions,
    })
}

/// It is shown in logs.
fn reason(query: &str) -> Option<String> {
    let (name, value) = query.split_once('=')?;
    let text = query_text(value).trim().to_owned();
    let is_one = name == "reason" && !value.contains('&');
    (is_one && (1..=REASON_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_a_reason_and_nothing_else() {
        assert_eq!(reason("reason=seen%20by%20ana").as_deref(), Some("seen by ana"));
        for wrong in ["", "reason=", "reason=%20", "reason=a%0Ab", "why=a", "reason=a&force=1"] {
            assert_eq!(reason(wrong), None, "{wrong}");
        }
    }
}
