//! The features by which a job is a duplicate of another: its policy, and the key that both share.

use serde_json::Value;
use serde_json::value::RawValue;

use super::dialect::Dialect;
use super::members::{Invalid, Members};
use super::state::JobState;

/// The fate of a job that exists already in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnConflict {
    /// The new one is refused.
    Reject,
    /// The new one is dropped, and the old one is the answer.
    Ignore,
    /// The old one is cancelled.
    Replace,
    /// The old one is cancelled; the new one takes over its time.
    ReplaceExceptSchedule,
}

/// The members of a job that its policy may name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'j> {
    pub(super) kind: &'j str,
    pub(super) queue: &'j str,
    pub(super) args: &'j RawValue,
    pub(super) meta: Option<&'j RawValue>,
}

/// A job's policy against duplicates.
#[derive(Debug, Clone)]
pub(super) struct Unique {
    /// Two jobs with the same key are one.
    pub(super) key: String,
    /// How long a job keeps others out, from its creation on.
    pub(super) period_ms: Option<u64>,
    /// The states in which it does.
    pub(super) states: Vec<JobState>,
    pub(super) on_conflict: OnConflict,
}

const STATES: [JobState; 5] =
    [JobState::Available, JobState::Active, JobState::Scheduled, JobState::Retryable, JobState::Pending];

const DIMENSIONS: [&str; 4] = ["type", "queue", "args", "meta"];

impl Unique {
    /// Reads the policy of a job with its other members read.
    ///
    /// Errors: [`Invalid::Member`] for a policy that cannot be.
    pub(super) fn read(policy: &Members, job: &Subject<'_>, dialect: Dialect) -> Result<Self, Invalid> {
        let named: Option<Vec<String>> = policy.read("keys", KEYS_RULE)?;
        let usual = if dialect == Dialect::Spec { &DIMENSIONS[..1] } else { &["type", "args"] };
        let keys = named.unwrap_or_else(|| usual.iter().map(|&name| name.to_owned()).collect());
        if !keys.iter().all(|key| DIMENSIONS.contains(&key.as_str())) {
            return Err(Invalid::Member("keys", KEYS_RULE));
        }
        Ok(Self {
            key: match dialect {
                Dialect::Spec => canonical_key(policy, &keys, job)?,
                Dialect::Reference | Dialect::Redis => literal_key(&keys, job),
            },
            period_ms: period_ms(policy)?,
            states: states(policy)?,
            on_conflict: on_conflict(policy)?,
        })
    }
}

const KEYS_RULE: &str = "is an array of type, queue, args and meta";

/// The key by the documents: the chosen values in a canonical form. The type counts whether it is named or not.
fn canonical_key(policy: &Members, keys: &[String], job: &Subject<'_>) -> Result<String, Invalid> {
    let has = |name: &str| keys.iter().any(|key| key == name);
    let mut chosen = serde_json::Map::new();
    chosen.insert("type".to_owned(), job.kind.into());
    if has("queue") {
        chosen.insert("queue".to_owned(), job.queue.into());
    }
    if has("args") {
        let args = canonical(job.args.get());
        let within: Option<Vec<String>> = policy.read("args_keys", "is an array of names")?;
        let args = within.map_or(Ok(args.clone()), |names| picked(&names, &args, "args_keys"))?;
        chosen.insert("args".to_owned(), args);
    }
    if has("meta") {
        let rule = "is an array of one or more names where the keys have meta";
        let names: Vec<String> = policy.read("meta_keys", rule)?.unwrap_or_default();
        if names.is_empty() {
            return Err(Invalid::Member("meta_keys", rule));
        }
        let meta = job.meta.map_or(Value::Null, |meta| canonical(meta.get()));
        let one = |name: String| (name.clone(), meta.get(&name).cloned().unwrap_or_default());
        chosen.insert("meta".to_owned(), names.into_iter().map(one).collect());
    }
    Ok(Value::Object(chosen).to_string())
}

/// The key as servers in Go make it: the bytes as they came, and no meta.
fn literal_key(keys: &[String], job: &Subject<'_>) -> String {
    let parts = keys.iter().map(|key| match key.as_str() {
        "type" => format!("type:{}\n", job.kind),
        "queue" => format!("queue:{}\n", job.queue),
        "args" => format!("args:{}\n", job.args.get()),
        _ => String::new(),
    });
    let mut parts: Vec<String> = parts.collect();
    parts.sort();
    parts.concat()
}

/// A value with ordered members. A number that is too large stays the text that it is.
fn canonical(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// The members of these names, each from the first of the arguments that has it.
fn picked(names: &[String], args: &Value, member: &'static str) -> Result<Value, Invalid> {
    let all = || args.as_array().into_iter().flatten();
    let one = |name: &String| {
        let value = all().find_map(|argument| argument.get(name));
        let value = value.ok_or(Invalid::Member(member, "names members that the arguments have"))?;
        Ok((name.clone(), value.clone()))
    };
    names.iter().map(one).collect::<Result<_, _>>().map(Value::Object)
}

fn period_ms(policy: &Members) -> Result<Option<u64>, Invalid> {
    let invalid = Invalid::Member("period", "is a duration above zero such as PT1H or P7D");
    let span: Option<jiff::Span> = policy.read("period", "is a duration above zero such as PT1H or P7D")?;
    let Some(span) = span else { return Ok(None) };
    let duration = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| invalid.clone())?;
    u64::try_from(duration.as_millis()).ok().filter(|period_ms| *period_ms > 0).map(Some).ok_or(invalid)
}

fn states(policy: &Members) -> Result<Vec<JobState>, Invalid> {
    let rule = "is an array of states of jobs";
    let Some(names) = policy.read::<Vec<String>>("states", rule)? else { return Ok(STATES.to_vec()) };
    let one = |name: &String| JobState::ALL.into_iter().find(|state| state.as_str() == name);
    names.iter().map(|name| one(name).ok_or(Invalid::Member("states", rule))).collect()
}

fn on_conflict(policy: &Members) -> Result<OnConflict, Invalid> {
    let rule = "is reject, ignore, replace or replace_except_schedule";
    Ok(match policy.read::<String>("on_conflict", rule)?.as_deref() {
        None | Some("reject") => OnConflict::Reject,
        Some("ignore") => OnConflict::Ignore,
        Some("replace") => OnConflict::Replace,
        Some("replace_except_schedule") => OnConflict::ReplaceExceptSchedule,
        Some(_) => return Err(Invalid::Member("on_conflict", rule)),
    })
}

#[cfg(test)]
mod tests;
