//! The members of a quota and of a profile, as a body has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::{ANY, OnHubLoss, OverLimit, QUOTA_QUEUES_MAX, Quota, Rate};

/// The largest number of an hour: tokens are counted in 32 bits at a sidecar.
const PER_HOUR_MAX: u64 = 100_000_000;
/// The most jobs that are active at once: as many as a pool of workers may have.
const ACTIVE_MOST: u64 = 1_000_000;
/// Names of tenants, types, queues and profiles: a request for grants names each quota. Units: bytes.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// The members of a quota.
const MEMBERS: [&str; 11] = [
    "tenant",
    "jobType",
    "profile",
    "maxPerHour",
    "burst",
    "maxActive",
    "queues",
    "overLimit",
    "onHubLoss",
    "localPerHour",
    "localActive",
];

/// The numbers of a quota, with a name. Those of a rate are 0 where it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Profile {
    #[serde(skip_serializing_if = "is_none")]
    pub(super) max_per_hour: u64,
    #[serde(skip_serializing_if = "is_none")]
    pub(super) burst: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_active: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
const fn is_none(number: &u64) -> bool {
    *number == 0
}

/// Whether a text is a name of a tenant, a type, a queue or a profile.
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// The members of a quota or a profile that were not read yet.
pub(super) struct Members<'p> {
    path: &'p str,
    left: Map<String, Value>,
}

impl<'p> Members<'p> {
    pub(super) fn of(value: Value, path: &'p str) -> Result<Self, String> {
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

    /// `maxPerHour` and `burst`, `maxActive`, or all of them.
    pub(super) fn numbers(&mut self) -> Result<Profile, String> {
        let path = self.path;
        let max_active = self.number("maxActive", 1, ACTIVE_MOST)?;
        let Some(max_per_hour) = self.number("maxPerHour", 1, PER_HOUR_MAX)? else {
            if max_active.is_none() {
                return Err(format!(
                    "`{path}.maxPerHour`: expected a whole number from 1 to {PER_HOUR_MAX}, or `maxActive` from 1 to {ACTIVE_MOST}, or both"
                ));
            }
            return match self.take("burst") {
                None => Ok(Profile { max_active, ..Profile::default() }),
                Some(_) => Err(format!("`{path}.burst`: expected no such member without `maxPerHour`")),
            };
        };
        let least = Rate::burst_min(max_per_hour);
        let usual = Rate::burst_usual(max_per_hour).max(least);
        let burst = self.number("burst", least, max_per_hour)?.unwrap_or(usual);
        Ok(Profile { max_per_hour, burst, max_active })
    }

    /// The queues that hold the jobs of the quota alone.
    fn queues(&mut self) -> Result<Vec<String>, String> {
        let expected = |at: String| {
            format!(
                "`{}.queues{at}`: expected a name of 1 to {NAME_BYTES_MAX} bytes without control characters, which the list has once",
                self.path
            )
        };
        let all = match self.left.remove("queues") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(all)) if all.len() <= QUOTA_QUEUES_MAX => all,
            Some(_) => {
                return Err(format!(
                    "`{}.queues`: expected an array of at most {QUOTA_QUEUES_MAX} names of queues",
                    self.path
                ));
            }
        };
        let mut names = Vec::with_capacity(all.len());
        for (at, value) in all.into_iter().enumerate() {
            match value {
                Value::String(name) if is_name(&name) && !names.contains(&name) => names.push(name),
                _ => return Err(expected(format!("[{at}]"))),
            }
        }
        Ok(names)
    }

    /// The limit of a sidecar without a hub, which `onHubLoss: local` needs beside `of`, and nothing else has.
    fn local(&mut self, name: &str, max: u64, of: Option<&str>, is_local: bool) -> Result<Option<u64>, String> {
        let path = self.path;
        let number = self.number(name, 1, max)?;
        match (of.filter(|_| is_local), number) {
            (Some(of), None) => Err(format!(
                "`{path}.{name}`: expected a whole number from 1 to {max} with `onHubLoss: local` and `{of}`, the number at each sidecar that reaches no hub"
            )),
            (None, Some(_)) if is_local => {
                Err(format!("`{path}.{name}`: expected no such member without the number that it stands for"))
            }
            (None, Some(_)) => Err(format!("`{path}.{name}`: expected no such member without `onHubLoss: local`")),
            _ => Ok(number),
        }
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

    pub(super) fn quota(mut self, profiles: &BTreeMap<String, Profile>) -> Result<Quota, String> {
        let (path, profile) = (self.path, self.take("profile"));
        let (tenant, job_type) = (self.subject("tenant")?, self.subject("jobType")?);
        let (profile, numbers) = match profile {
            None => (None, self.numbers()?),
            Some(name) => {
                let known = name.as_str().and_then(|name| Some((name, *profiles.get(name)?)));
                let (name, known) = known.ok_or_else(|| {
                    let names: Vec<&str> = profiles.keys().map(String::as_str).collect();
                    format!("`{path}.profile`: expected one of `profiles`, which are [{}]", names.join(", "))
                })?;
                if let Some(member) =
                    ["maxPerHour", "burst", "maxActive"].iter().find(|it| self.left.contains_key(**it))
                {
                    return Err(format!("`{path}.{member}`: expected no such member beside `profile`, which says it"));
                }
                (Some(name.to_owned()), known)
            }
        };
        let Profile { max_per_hour, burst, max_active } = numbers;
        let over_limit = OverLimit::ALL.map(|it| (it.as_str(), it));
        let over_limit = self.word("overLimit", &over_limit, OverLimit::Refuse)?;
        let on_hub_loss = OnHubLoss::ALL.map(|it| (it.as_str(), it));
        let on_hub_loss = self.word("onHubLoss", &on_hub_loss, OnHubLoss::Hold)?;
        let is_local = on_hub_loss == OnHubLoss::Local;
        let of_rate = (max_per_hour > 0).then_some("maxPerHour");
        let local_per_hour = self.local("localPerHour", PER_HOUR_MAX, of_rate, is_local)?;
        let local_active = self.local("localActive", ACTIVE_MOST, max_active.map(|_| "maxActive"), is_local)?;
        let queues = self.queues()?;
        if max_active.is_none() && !queues.is_empty() {
            return Err(format!("`{path}.queues`: expected no such member without `maxActive`"));
        }
        self.end(&MEMBERS)?;
        Ok(Quota {
            tenant,
            job_type,
            profile,
            max_per_hour,
            burst,
            max_active,
            queues,
            over_limit,
            on_hub_loss,
            local_per_hour,
            local_active,
        })
    }

    pub(super) fn end(self, known: &[&str]) -> Result<(), String> {
        match self.left.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                Err(format!("`{}.{name}`: expected no such member; there are {}", self.path, known.join(", ")))
            }
        }
    }
}
