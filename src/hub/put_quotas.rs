//! The quotas that operators have put at this hub, and the body that puts them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fleet::FeedQuotas;
use crate::policy::{ANY, OnHubLoss, OverLimit, QUOTAS_MAX, Quota, Rate};

/// The longest body: all quotas, each with the longest names and numbers. Units: bytes.
pub(super) const QUOTAS_BYTES_MAX: usize = 256 * 1024;
/// The largest number of an hour: tokens are counted in 32 bits at a sidecar.
const PER_HOUR_MAX: u64 = 100_000_000;
/// Names of tenants, types and profiles: a request for grants names each quota. Units: bytes.
const NAME_BYTES_MAX: usize = 128;

/// A rate with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Profile {
    max_per_hour: u64,
    burst: u64,
}

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
        let rate = members.rate()?;
        members.end(&["maxPerHour", "burst"])?;
        Ok((name, Profile { max_per_hour: rate.max_per_hour, burst: rate.burst }))
    };
    all.into_iter().map(profile).collect()
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// The members of a quota or a profile that were not read yet.
struct Members<'p> {
    path: &'p str,
    left: Map<String, Value>,
}

impl<'p> Members<'p> {
    fn of(value: Value, path: &'p str) -> Result<Self, String> {
        match value {
            Value::Object(left) => Ok(Self { path, left }),
            _ => Err(format!("`{path}`: expected an object")),
        }
    }

    /// A member; `null` counts as absent.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    fn number(&mut self, name: &str, min: u64, max: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (min..=max).contains(number));
        number.map(Some).ok_or_else(|| format!("`{}.{name}`: expected a whole number from {min} to {max}", self.path))
    }

    /// `maxPerHour` and `burst`.
    fn rate(&mut self) -> Result<Rate, String> {
        let path = self.path;
        if self.take("maxActive").is_some() {
            return Err(format!(
                "`{path}.maxActive`: quotas do not bound the jobs that are active at once; leave it out, and bound the `concurrency` of a pool of workers instead"
            ));
        }
        let lacks = || format!("`{path}.maxPerHour`: expected a whole number from 1 to {PER_HOUR_MAX}");
        let max_per_hour = self.number("maxPerHour", 1, PER_HOUR_MAX)?.ok_or_else(lacks)?;
        let least = Rate::burst_min(max_per_hour);
        let usual = Rate::burst_usual(max_per_hour).max(least);
        let burst = self.number("burst", least, max_per_hour)?.unwrap_or(usual);
        Ok(Rate { max_per_hour, burst })
    }

    /// A name, or any.
    fn subject(&mut self, name: &str) -> Result<String, String> {
        let expected = || {
            format!(
                "`{}.{name}`: expected an exact name of 1 to {NAME_BYTES_MAX} bytes without control characters and without `*`, or `*` for any",
                self.path
            )
        };
        match self.left.remove(name) {
            None | Some(Value::Null) => Ok(ANY.to_owned()),
            Some(Value::String(text)) if is_name(&text) && (text == ANY || !text.contains('*')) => Ok(text),
            Some(_) => Err(expected()),
        }
    }

    fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)], usual: T) -> Result<T, String> {
        let Some(value) = self.take(name) else { return Ok(usual) };
        let found = words.iter().find(|(word, _)| value == *word).map(|(_, value)| *value);
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        found.ok_or_else(|| format!("`{}.{name}`: expected one of {}", self.path, all.join(", ")))
    }

    fn quota(mut self, profiles: &BTreeMap<String, Profile>) -> Result<Quota, String> {
        let (path, profile) = (self.path, self.take("profile"));
        let (tenant, job_type) = (self.subject("tenant")?, self.subject("jobType")?);
        let (profile, rate) = match profile {
            None => (None, self.rate()?),
            Some(name) => {
                let known = name.as_str().and_then(|name| Some((name, profiles.get(name)?)));
                let (name, known) = known.ok_or_else(|| {
                    let names: Vec<&str> = profiles.keys().map(String::as_str).collect();
                    format!("`{path}.profile`: expected one of `profiles`, which are [{}]", names.join(", "))
                })?;
                if let Some(member) =
                    ["maxPerHour", "burst", "maxActive"].iter().find(|it| self.left.contains_key(**it))
                {
                    return Err(format!("`{path}.{member}`: expected no such member beside `profile`, which says it"));
                }
                (Some(name.to_owned()), Rate { max_per_hour: known.max_per_hour, burst: known.burst })
            }
        };
        let over_limit = OverLimit::ALL.map(|it| (it.as_str(), it));
        let over_limit = self.word("overLimit", &over_limit, OverLimit::Refuse)?;
        let on_hub_loss = OnHubLoss::ALL.map(|it| (it.as_str(), it));
        let on_hub_loss = self.word("onHubLoss", &on_hub_loss, OnHubLoss::Hold)?;
        let local_per_hour = self.number("localPerHour", 1, PER_HOUR_MAX)?;
        match (on_hub_loss, local_per_hour) {
            (OnHubLoss::Local, None) => {
                let why = "with `onHubLoss: local`, the jobs in an hour at each sidecar that reaches no hub";
                return Err(format!("`{path}.localPerHour`: expected a whole number from 1 to {PER_HOUR_MAX} {why}"));
            }
            (OnHubLoss::Hold | OnHubLoss::Refuse, Some(_)) => {
                return Err(format!("`{path}.localPerHour`: expected no such member without `onHubLoss: local`"));
            }
            _ => {}
        }
        self.end(&["tenant", "jobType", "profile", "maxPerHour", "burst", "overLimit", "onHubLoss", "localPerHour"])?;
        let Rate { max_per_hour, burst } = rate;
        Ok(Quota { tenant, job_type, profile, max_per_hour, burst, over_limit, on_hub_loss, local_per_hour })
    }

    fn end(self, known: &[&str]) -> Result<(), String> {
        match self.left.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                Err(format!("`{}.{name}`: expected no such member; there are {}", self.path, known.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let one = |quota: &str| format!(r#"{{"quotas":[{quota}]}}"#);
        for (body, words) in [
            (String::new(), ["JSON object", "`quotas`"]),
            ("{}".to_owned(), ["`quotas`", "array"]),
            (r#"{"quotas":[],"quota":1}"#.to_owned(), ["`quota`", "no such member"]),
            (r#"{"quotas":[],"quota_reason":1}"#.to_owned(), ["`quota_reason`", "text"]),
            (
                r#"{"quotas":[],"profiles":{"p":{"maxActive":3}}}"#.to_owned(),
                ["`profiles.p.maxActive`", "leave it out"],
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
            (one(r#"{"maxPerHour":10,"maxActive":5}"#), ["`quotas[0].maxActive`", "pool of workers"]),
            (one(r#"{"maxPerHour":10},{"maxPerHour":5,"tenant":"*"}"#), ["`quotas[1]`", "same tenant"]),
        ] {
            let why = QuotasBody::read(body.as_bytes()).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{body}: {why}");
        }
    }
}
