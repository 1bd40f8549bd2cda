//! The body of `POST /api/limits/throttle`, the request of an orchestrator to pause a source, to resume it, or to lower its concurrency.
//!
//! Shape: `{"source": {"queue": "email"}, "action": "pause", "ttl": "30m", "reason": TEXT, "ticket": TEXT, "author": NAME}`. The source has one
//! of the members `queue`, `type`, `tenant` and `region`. The actions are `pause` and `resume` of a queue, a type or a tenant, and
//! `concurrency`, with the member `calls`, and `resume` of a region. `ttl` is of `pause` and `concurrency`, and so is `force`, for a region that no
//! sidecar knows.

use serde::Deserialize;
use serde_json::Value;

use super::order::{Fields, Order};
use crate::base::{SwitchKind, SwitchSubject};

/// An order of an orchestrator.
#[derive(Debug, PartialEq, Eq)]
pub enum ThrottleRequest {
    /// Sets a switch.
    Set(Order),
    /// Ends one.
    End(Order),
}

impl ThrottleRequest {
    /// The longest body. Units: bytes.
    pub const BYTES_MAX: usize = 8 * 1024;

    /// Reads a body. `author`: the operator whose name is proven, whatever the body says.
    ///
    /// Errors: a sentence that names the member and the expected form.
    pub fn read(author: Option<&str>, body: &[u8]) -> Result<Self, String> {
        let body: Body = serde_json::from_slice(body).map_err(|error| format!("expected a JSON object: {error}"))?;
        let mut fields = Fields::timed_by("ttl");
        let texts = [("ttl", body.ttl), ("reason", body.reason), ("ticket", body.ticket), ("author", body.author)];
        for (key, value) in texts.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            fields.take(key, value.as_str().ok_or_else(|| format!("`{key}`: expected a text"))?.to_owned())?;
        }
        for (key, value) in [("calls", body.calls), ("force", body.force)] {
            value.map_or(Ok(()), |value| fields.take(key, value.to_string()))?;
        }
        let (key, name) = body.source.and_then(Source::one).ok_or(SOURCE_EXPECTED)?;
        fields.take(key, name)?;
        let action = body.action.as_ref().and_then(Value::as_str).unwrap_or_default();
        let sets = match action {
            "pause" | "concurrency" => true,
            "resume" => false,
            _ => return Err("`action`: expected pause, resume or concurrency".to_owned()),
        };
        let is_region = matches!(fields.subject(), Some(SwitchSubject::Region(_)));
        let kind = match (action, is_region) {
            ("pause", true) => return Err("`action`: a region is not paused; drain it with a switch".to_owned()),
            ("concurrency", false) => {
                return Err(
                    "`action`: expected pause or resume; the concurrency of a region only can be lowered".to_owned()
                );
            }
            (_, true) => SwitchKind::Throttle,
            (_, false) => SwitchKind::Pause,
        };
        let order = fields.of_kind(kind).by(author).checked(sets)?;
        Ok(if sets { Self::Set(order) } else { Self::End(order) })
    }
}

const SOURCE_EXPECTED: &str =
    "`source`: expected an object with one of the members queue, type, tenant and region, and a text";

/// The members of a body. A member that comes twice is an error of the parser.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    source: Option<Source>,
    action: Option<Value>,
    calls: Option<Value>,
    ttl: Option<Value>,
    force: Option<Value>,
    reason: Option<Value>,
    ticket: Option<Value>,
    author: Option<Value>,
}

/// The members of a source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    queue: Option<String>,
    #[serde(rename = "type")]
    job_type: Option<String>,
    tenant: Option<String>,
    region: Option<String>,
}

impl Source {
    /// Its member and the name there, where it has one only.
    fn one(self) -> Option<(&'static str, String)> {
        let all = [("queue", self.queue), ("type", self.job_type), ("tenant", self.tenant), ("region", self.region)];
        let mut named = all.into_iter().filter_map(|(key, name)| Some((key, name?)));
        named.next().filter(|_| named.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::Moment;

    fn read(author: Option<&str>, change: Value) -> Result<ThrottleRequest, String> {
        let mut body = json!({ "source": { "queue": "email" }, "action": "pause", "ttl": "30m", "reason": "r", "ticket": "T-1", "author": "ann" });
        for (key, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(body.as_object_mut().unwrap().remove(key)),
                value => body[key] = value.clone(),
            }
        }
        ThrottleRequest::read(author, body.to_string().as_bytes())
    }

    fn set(change: Value) -> String {
        match read(None, change) {
            Ok(ThrottleRequest::Set(order)) => order.switch(Moment(0), 0).unwrap().name(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_source_is_paused_and_resumed_and_a_region_gets_fewer_calls() {
        assert_eq!(set(json!({})), "pause queue email");
        assert_eq!(set(json!({ "source": { "tenant": "a b" } })), "pause tenant a b");
        let region = json!({ "region": "eu-west-1" });
        assert_eq!(
            set(json!({ "source": region, "action": "concurrency", "calls": 20 })),
            "throttle eu-west-1 to 20 calls"
        );
        for (source, kind) in [(region, SwitchKind::Throttle), (json!({ "type": "mail.send" }), SwitchKind::Pause)] {
            match read(None, json!({ "source": source, "action": "resume", "ttl": null })) {
                Ok(ThrottleRequest::End(order)) => assert_eq!(order.kind, Some(kind)),
                other => panic!("{other:?}"),
            }
        }
        let Ok(ThrottleRequest::Set(order)) = read(Some("eve"), json!({})) else { panic!("eve may") };
        assert_eq!(order.author, "eve", "a proven name counts");
    }

    #[test]
    fn every_error_names_its_member() {
        for (change, member) in [
            (json!({ "source": null }), "`source`"),
            (json!({ "source": {} }), "`source`"),
            (json!({ "source": { "queue": "a", "type": "b" } }), "`source`"),
            (json!({ "source": { "origin": "10.0.0.1" } }), "`origin`"),
            (json!({ "source": { "region": "a" }, "action": "concurrency", "calls": 5, "force": "yes" }), "`force`"),
            (json!({ "source": { "queue": "" } }), "`queue`"),
            (json!({ "action": null }), "`action`"),
            (json!({ "action": "stop" }), "`action`"),
            (json!({ "action": "concurrency", "calls": 5 }), "`action`"),
            (json!({ "source": { "region": "a" } }), "`action`"),
            (json!({ "source": { "region": "a" }, "action": "concurrency" }), "`calls`"),
            (json!({ "source": { "region": "a" }, "action": "concurrency", "calls": 0 }), "`calls`"),
            (json!({ "source": { "region": "a" }, "action": "concurrency", "calls": "5" }), "`calls`"),
            (json!({ "calls": 5 }), "`calls`"),
            (json!({ "ttl": null }), "`ttl`"),
            (json!({ "ttl": "long" }), "`ttl`"),
            (json!({ "ttl": 5 }), "`ttl`"),
            (json!({ "action": "resume" }), "`ttl`"),
            (json!({ "reason": null }), "`reason`"),
            (json!({ "ticket": "" }), "`ticket`"),
            (json!({ "author": null }), "`author`"),
            (json!({ "rate": 5 }), "`rate`"),
        ] {
            let error = read(None, change.clone()).unwrap_err();
            assert!(error.contains(member), "{change}: {error}");
        }
        for body in [r"[]", r#"{"source":"a"}"#, r#"{"source":{"queue":7}}"#, r#"{"action":"pause","action":"resume"}"#]
        {
            assert!(ThrottleRequest::read(None, body.as_bytes()).unwrap_err().contains("JSON object"), "{body}");
        }
        let twice = ThrottleRequest::read(None, br#"{"source":{"queue":"a","queue":"b"}}"#).unwrap_err();
        assert!(twice.contains("duplicate field `queue`"), "{twice}");
    }
}
