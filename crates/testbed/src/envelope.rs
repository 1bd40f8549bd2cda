//! A job as a client submits it.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::caller::Caller;
use super::dialect::Dialect;
use super::limits::Limit;
use super::members::{Invalid, Members, Raw, same_name};
use super::moment::Moment;
use super::retry::Retry;
use super::unique::{Subject, Unique};

/// A region's reading of jobs, and its defaults.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) dialect: Dialect,
    /// Whether an id need not be a UUIDv7.
    pub(super) any_id: bool,
    /// The policy of jobs that bring none.
    pub(super) retry: Retry,
}

/// A submitted job that has passed validation.
#[derive(Debug, Clone)]
pub(super) struct Envelope {
    pub(super) id: Option<String>,
    pub(super) kind: String,
    pub(super) queue: String,
    pub(super) priority: i64,
    pub(super) args: Raw,
    pub(super) meta: Option<Raw>,
    pub(super) scheduled: Option<Moment>,
    /// When it is not worth doing any more.
    pub(super) expires: Option<Moment>,
    pub(super) is_pending: bool,
    pub(super) visibility_ms: Option<u64>,
    /// How long one attempt may take.
    pub(super) timeout_ms: Option<u64>,
    pub(super) retry: Retry,
    pub(super) unique: Option<Unique>,
    /// How many jobs of its queue are handed out in a second, from now on.
    pub(super) per_second_max: Option<u32>,
    /// The key that it is limited by, with others.
    pub(super) limit: Option<Limit>,
    /// The caller that submitted it.
    pub(super) caller: Caller,
    /// Members that the server hands back as they came.
    pub(super) extra: Vec<(String, Raw)>,
    /// Whether they win over members of the server's own.
    pub(super) extra_wins: bool,
    /// The whole text.
    pub(super) source: Bytes,
}

/// Top-level members that the server answers itself, so that a client's own are not echoed.
const ANSWERED: [&str; 27] = [
    "specversion",
    "id",
    "type",
    "queue",
    "args",
    "meta",
    "options",
    "priority",
    "state",
    "attempt",
    "max_attempts",
    "created_at",
    "enqueued_at",
    "scheduled_at",
    "expires_at",
    "started_at",
    "completed_at",
    "cancelled_at",
    "discarded_at",
    "next_attempt_at",
    "retry_delay_ms",
    "worker_id",
    "result",
    "error",
    "errors",
    "workflow_id",
    "parent_results",
];

/// Top-level members that servers in Go know; all others override the server's own.
const KNOWN: [&str; 6] = ["id", "type", "args", "meta", "schema", "options"];

/// Options that are answered under another name, or not at all.
const PLACED: [&str; 7] = ["queue", "priority", "metadata", "meta", "delay_until", "scheduled_at", "pending"];

impl Envelope {
    /// Reads a submitted job, and validates the members that must be readable.
    ///
    /// Errors: the first [`Invalid`] found.
    pub(super) fn parse(source: Bytes, reading: &Reading) -> Result<Self, Invalid> {
        let members = Members::parse(&source)?;
        let options: Members = members.read("options", "is an object")?.unwrap_or_default();
        let kind: Option<String> = members.read("type", "is a string")?;
        let args = members.raw("args").filter(|args| args.get().starts_with('['));
        // Servers in Go know the members of the envelope only inside `options`.
        let outer = if reading.dialect == Dialect::Spec { &members } else { &options };
        // As servers in the field do: the key alone is enough, be it `null`.
        let meta = options.raw("metadata").or_else(|| members.raw("meta")).map(ToOwned::to_owned);
        let mut envelope = Self {
            id: members.read("id", "is a string")?,
            kind: kind.ok_or(Invalid::Member("type", "is there"))?,
            queue: either(&options, outer, "queue", "is a string")?.unwrap_or_else(|| "default".to_owned()),
            priority: either(&options, outer, "priority", "is a whole number")?.unwrap_or(0_i64),
            args: args.ok_or(Invalid::Member("args", "is an array"))?.to_owned(),
            meta,
            scheduled: scheduled(&options, outer)?,
            expires: either(&options, outer, "expires_at", Moment::RULE)?,
            is_pending: options.read("pending", "is true or false")?.unwrap_or(false),
            visibility_ms: options.read("visibility_timeout_ms", "is a whole number")?,
            timeout_ms: timeout_ms(&options, outer)?,
            retry: read_retry(&options, outer, &reading.retry)?,
            unique: None,
            per_second_max: per_second_max(&options, outer)?,
            limit: limit(&options, outer)?,
            caller: Caller::default(),
            extra: Vec::new(),
            extra_wins: reading.dialect.in_go(),
            source,
        };
        let policy: Option<Members> = either(&options, outer, "unique", "is an object")?;
        envelope.unique =
            policy.map(|policy| Unique::read(&policy, &envelope.subject(), reading.dialect)).transpose()?;
        envelope.extra = extra(&members, options, reading.dialect);
        Ok(envelope)
    }

    /// The members that a policy against duplicates compares.
    fn subject(&self) -> Subject<'_> {
        Subject { kind: &self.kind, queue: &self.queue, args: &self.args, meta: self.meta.as_deref() }
    }
}

fn either<T: DeserializeOwned>(
    options: &Members,
    members: &Members,
    name: &'static str,
    rule: &'static str,
) -> Result<Option<T>, Invalid> {
    Ok(match options.read(name, rule)? {
        Some(value) => Some(value),
        None => members.read(name, rule)?,
    })
}

fn scheduled(options: &Members, members: &Members) -> Result<Option<Moment>, Invalid> {
    Ok(match options.read("delay_until", Moment::RULE)? {
        Some(at) => Some(at),
        None => either(options, members, "scheduled_at", Moment::RULE)?,
    })
}

fn per_second_max(options: &Members, outer: &Members) -> Result<Option<u32>, Invalid> {
    let limit: Members = either(options, outer, "rate_limit", "is an object")?.unwrap_or_default();
    let max: Option<u32> = limit.read("max_per_second", "is a whole number from 0")?;
    Ok(max.filter(|max| *max > 0))
}

fn limit(options: &Members, outer: &Members) -> Result<Option<Limit>, Invalid> {
    let limit: Members = either(options, outer, "rate_limit", "is an object")?.unwrap_or_default();
    Limit::read(&limit)
}

/// The documents give it in milliseconds among the options and in seconds beside them; 0 stands for none.
fn timeout_ms(options: &Members, outer: &Members) -> Result<Option<u64>, Invalid> {
    let rule = "is a whole number from 0";
    let given: Option<u64> = match options.read("timeout_ms", rule)? {
        Some(timeout_ms) => Some(timeout_ms),
        None => outer.read("timeout", rule)?.map(|seconds: u64| seconds.saturating_mul(1_000)),
    };
    Ok(given.filter(|timeout_ms| *timeout_ms > 0))
}

fn read_retry(options: &Members, outer: &Members, fallback: &Retry) -> Result<Retry, Invalid> {
    let rule = "is an object";
    let policy: Members = match either(options, outer, "retry", rule)? {
        Some(policy) => policy,
        None => options.read("retry_policy", rule)?.unwrap_or_default(),
    };
    Retry::read(&policy, fallback)
}

fn extra(members: &Members, options: Members, dialect: Dialect) -> Vec<(String, Raw)> {
    let own: &[&str] = if dialect == Dialect::Spec { &ANSWERED } else { &KNOWN };
    let listed = |list: &[&str], key: &str| list.iter().any(|name| same_name(key, name));
    let mut extra: Vec<(String, Raw)> = Vec::new();
    let mut keep = |key: &String, value: &Raw| {
        extra.retain(|(kept, _)| kept != key);
        extra.push((key.clone(), value.clone()));
    };
    for (key, value) in options.0.iter().filter(|(key, _)| !listed(&PLACED, key) && !listed(&ANSWERED, key)) {
        keep(key, value);
    }
    for (key, value) in members.0.iter().filter(|(key, _)| !listed(own, key)) {
        keep(key, value);
    }
    extra
}

/// The key that a job names.
pub(super) fn key_of(envelope: &Envelope) -> Option<&str> {
    envelope.limit.as_ref().map(|limit| limit.key.as_str())
}

#[cfg(test)]
mod tests;
