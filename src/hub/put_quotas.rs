//! The quotas that operators have put at this hub, and the body that puts them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::quota_members::{Members, NAME_BYTES_MAX, Profile, is_name};
use crate::fleet::FeedQuotas;
use crate::policy::{ACTIVE_MAX, QUOTAS_MAX, Quota};

/// The longest body: all quotas, each with the longest names and numbers. Units: bytes.
pub(super) const QUOTAS_BYTES_MAX: usize = 256 * 1024;
/// The order that has put the quotas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PutBy {
    /// By the hub's clock. Units: milliseconds since the Unix epoch.
    pub(super) put_ms: u64,
    pub(super) reason: String,
    pub(super) ticket: String,
    pub(super) author: String,
}

/// The whole set. Bound: [`QUOTAS_MAX`] quotas and as many profiles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PutQuotas {
    pub(super) profiles: BTreeMap<String, Profile>,
    pub(super) quotas: Vec<Quota>,
    /// None before the first order.
    pub(super) put: Option<PutBy>,
}

/// A body that puts quotas.
#[derive(Debug)]
pub(super) struct QuotasBody {
    pub(super) profiles: BTreeMap<String, Profile>,
    pub(super) quotas: Vec<Quota>,
    /// The grounds, as far as the body has them.
    pub(super) reason: Option<String>,
    pub(super) ticket: Option<String>,
    pub(super) author: Option<String>,
}

impl PutQuotas {
    /// Whether it has the quotas of a body.
    pub(super) fn is_alike(&self, body: &QuotasBody) -> bool {
        self.put.is_some() && self.profiles == body.profiles && self.quotas == body.quotas
    }

    /// The data of an event of the feed.
    pub(super) fn event(&self) -> FeedQuotas {
        FeedQuotas { quotas: self.quotas.clone() }
    }

    /// One of them, by its name.
    pub(super) fn get(&self, key: &str) -> Option<&Quota> {
        self.quotas.iter().find(|it| it.key() == key)
    }
}

impl QuotasBody {
    /// Reads a body.
    ///
    /// Errors: a sentence that names the first member that breaks a rule, and the expected form.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let mut body: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
            format!("expected a JSON object with `quotas`, and perhaps `profiles`, `quota_reason`, `quota_ticket` and `author`: {error}")
        })?;
        let profiles = profiles(body.remove("profiles").unwrap_or_default())?;
        let Some(Value::Array(all)) = body.remove("quotas") else {
            return Err("`quotas`: expected an array, the whole set of quotas; an empty one takes all out".to_owned());
        };
        if all.len() > QUOTAS_MAX {
            return Err(format!("`quotas`: expected at most {QUOTAS_MAX} of them"));
        }
        let mut grounds = |name: &str| match body.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}`: expected text")),
        };
        let [reason, ticket, author] = ["quota_reason", "quota_ticket", "author"].map(&mut grounds);
        let (reason, ticket, author) = (reason?, ticket?, author?);
        if let Some(name) = body.keys().next() {
            return Err(format!(
                "`{name}`: expected no such member; there are `quotas`, `profiles`, `quota_reason`, `quota_ticket` and `author`"
            ));
        }
        let (mut quotas, mut keys) = (Vec::with_capacity(all.len()), BTreeSet::new());
        for (place, value) in all.into_iter().enumerate() {
            let path = format!("quotas[{place}]");
            let quota = Members::of(value, &path)?.quota(&profiles)?;
            if !keys.insert(quota.key()) {
                return Err(format!(
                    "`{path}`: another quota is for the same tenant and jobType; take one of them out"
                ));
            }
            quotas.push(quota);
        }
        check_active(&quotas)?;
        Ok(Self { profiles, quotas, reason, ticket, author })
    }
}

fn profiles(value: Value) -> Result<BTreeMap<String, Profile>, String> {
    let all = match value {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(all) => all,
        _ => return Err("`profiles`: expected an object of profiles by their names".to_owned()),
    };
    if all.len() > QUOTAS_MAX {
        return Err(format!("`profiles`: expected at most {QUOTAS_MAX} of them"));
    }
    let profile = |(name, value): (String, Value)| {
        let path = format!("profiles.{name}");
        let mut members = Members::of(value, &path)?;
        if !is_name(&name) {
            return Err(format!("`{path}`: expected a name of 1 to {NAME_BYTES_MAX} bytes without control characters"));
        }
        let numbers = members.numbers()?;
        members.end(&["maxPerHour", "burst", "maxActive"])?;
        Ok((name, numbers))
    };
    all.into_iter().map(profile).collect()
}

/// That there are not too many quotas with `maxActive`, and that each queue is listed once.
fn check_active(quotas: &[Quota]) -> Result<(), String> {
    let mut queues = BTreeMap::new();
    for (place, quota) in quotas.iter().enumerate() {
        for (at, queue) in quota.queues.iter().enumerate() {
            if let Some(other) = queues.insert(queue, place) {
                return Err(format!(
                    "`quotas[{place}].queues[{at}]`: {queue} is in `quotas[{other}].queues` already, and a queue holds the jobs of one quota; take one of them out"
                ));
            }
        }
    }
    match quotas.iter().enumerate().filter(|(_, it)| it.max_active.is_some()).nth(ACTIVE_MAX) {
        None => Ok(()),
        Some((place, _)) => Err(format!("`quotas[{place}].maxActive`: expected at most {ACTIVE_MAX} quotas with it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::OverLimit;

    #[test]
    fn a_body_is_the_whole_set_and_every_error_names_its_member() {
        let body = r#"{"profiles":{"small":{"maxPerHour":1000}},"quota_reason":"r","quota_ticket":"t",
            "quotas":[{"tenant":"acme","jobType":"mail","profile":"small","overLimit":"delay"},
                      {"maxPerHour":600,"burst":20,"onHubLoss":"local","localPerHour":60}]}"#;
        let read = QuotasBody::read(body.as_bytes()).unwrap();
        assert_eq!((read.reason.as_deref(), read.ticket.as_deref(), read.author), (Some("r"), Some("t"), None));
        let [first, second] = &read.quotas[..] else { panic!() };
        assert_eq!((first.max_per_hour, first.burst, first.over_limit), (1_000, 17, OverLimit::Delay));
        assert_eq!((second.key().as_str(), second.burst, second.local_per_hour), ("*\t*", 20, Some(60)));
        let active =
            r#"{"profiles":{"few":{"maxActive":3}},"quotas":[{"tenant":"acme","profile":"few","queues":["reports"]}]}"#;
        let read = QuotasBody::read(active.as_bytes()).unwrap();
        assert_eq!((read.quotas[0].max_active, read.quotas[0].has_rate()), (Some(3), false));
        assert_eq!(read.quotas[0].queues, ["reports"]);
        let many: Vec<_> = (0..=ACTIVE_MAX).map(|it| format!(r#"{{"tenant":"t{it}","maxActive":1}}"#)).collect();
        let many = format!(r#"{{"quotas":[{}]}}"#, many.join(","));
        assert!(QuotasBody::read(many.as_bytes()).unwrap_err().contains("`quotas[64].maxActive`"));
        let one = |quota: &str| format!(r#"{{"quotas":[{quota}]}}"#);
        for (body, words) in [
            (String::new(), ["JSON object", "`quotas`"]),
            ("{}".to_owned(), ["`quotas`", "array"]),
            (r#"{"quotas":[],"quota":1}"#.to_owned(), ["`quota`", "no such member"]),
            (r#"{"quotas":[],"quota_reason":1}"#.to_owned(), ["`quota_reason`", "text"]),
            (
                r#"{"quotas":[],"profiles":{"p":{"maxActive":0}}}"#.to_owned(),
                ["`profiles.p.maxActive`", "1 to 1000000"],
            ),
            (one("7"), ["`quotas[0]`", "object"]),
            (one("{}"), ["`quotas[0].maxPerHour`", "1 to 100000000"]),
            (one(r#"{"maxPerHour":10,"burst":11}"#), ["`quotas[0].burst`", "1 to 10"]),
            (one(r#"{"maxPerHour":3600,"burst":5}"#), ["`quotas[0].burst`", "15 to 3600"]),
            (one(r#"{"maxPerHour":10,"jobType":"mail.*"}"#), ["`quotas[0].jobType`", "`*` for any"]),
            (one(r#"{"maxPerHour":10,"tenant":""}"#), ["`quotas[0].tenant`", "exact name"]),
            (one(r#"{"profile":"big"}"#), ["`quotas[0].profile`", "`profiles`"]),
            (one(r#"{"maxPerHour":10,"overLimit":"stage"}"#), ["`quotas[0].overLimit`", "refuse, delay"]),
            (one(r#"{"maxPerHour":10,"onHubLoss":"pass"}"#), ["`quotas[0].onHubLoss`", "hold, local, refuse"]),
            (one(r#"{"maxPerHour":10,"onHubLoss":"local"}"#), ["`quotas[0].localPerHour`", "at each sidecar"]),
            (one(r#"{"maxPerHour":10,"localPerHour":5}"#), ["`quotas[0].localPerHour`", "without"]),
            (one(r#"{"maxPerHour":10,"max":5}"#), ["`quotas[0].max`", "no such member"]),
            (one(r#"{"maxActive":1000001}"#), ["`quotas[0].maxActive`", "1 to 1000000"]),
            (one(r#"{"maxActive":5,"burst":5}"#), ["`quotas[0].burst`", "without `maxPerHour`"]),
            (one(r#"{"maxActive":5,"queues":"q"}"#), ["`quotas[0].queues`", "array"]),
            (one(r#"{"maxActive":5,"queues":["q",""]}"#), ["`quotas[0].queues[1]`", "1 to 128"]),
            (one(r#"{"maxActive":5,"queues":["q","q"]}"#), ["`quotas[0].queues[1]`", "once"]),
            (one(r#"{"maxPerHour":10,"queues":["q"]}"#), ["`quotas[0].queues`", "`maxActive`"]),
            (one(r#"{"maxActive":5,"onHubLoss":"local"}"#), ["`quotas[0].localActive`", "at each sidecar"]),
            (one(r#"{"maxActive":5,"localActive":5}"#), ["`quotas[0].localActive`", "without"]),
            (
                one(r#"{"maxActive":5,"onHubLoss":"local","localActive":1,"localPerHour":1}"#),
                ["`quotas[0].localPerHour`", "stands for"],
            ),
            (
                one(r#"{"maxActive":5,"queues":["q"]},{"tenant":"a","maxActive":5,"queues":["p","q"]}"#),
                ["`quotas[1].queues[1]`", "`quotas[0].queues`"],
            ),
            (one(r#"{"maxPerHour":10},{"maxPerHour":5,"tenant":"*"}"#), ["`quotas[1]`", "same tenant"]),
        ] {
            let why = QuotasBody::read(body.as_bytes()).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{body}: {why}");
        }
    }
}
