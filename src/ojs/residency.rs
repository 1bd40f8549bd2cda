//! The part of a job that is shown outside the region that it is pinned to.
//!
//! Servers differ in where a job's data stands, and new members come with every version, so a redacted job is written anew from
//! a list of members that are known to be harmless, each only as long as nothing can stand inside it.

use std::borrow::Cow;

use super::create::routing_within;
use super::list::object::{self, Kind, Member, find, members, push_quoted};
use super::routing_key::RoutingKind;

/// Answers nest no deeper than this, or are not read.
use super::member::DEPTH_MAX;

/// The mark of this program in answers of regions.
const MARK: &str = "x-ojs-federation";

/// The members that identify a job and its state, without its content.
const HARMLESS: &[&str] = &[
    "id",
    "job_id",
    "type",
    "job_type",
    "queue",
    "state",
    "status",
    "attempt",
    "attempts",
    "max_attempts",
    "priority",
    "specversion",
    "name",
    "cron",
    "expression",
    "timezone",
    "enabled",
    "paused",
    "workflow_id",
    "created_at",
    "enqueued_at",
    "available_at",
    "scheduled_at",
    "delay_until",
    "expires_at",
    "started_at",
    "updated_at",
    "completed_at",
    "failed_at",
    "cancelled_at",
    "discarded_at",
    "retry_at",
    "next_attempt_at",
    "next_run_at",
    "last_run_at",
    "timestamp",
    "deleted",
    "acknowledged",
];

/// The keys of meta that are about federation.
const FEDERATION: &[&str] = &[
    "ojs.federation.region",
    "ojs.federation.region_affinity",
    "ojs.federation.regions_with",
    "ojs.federation.federation_id",
    "ojs.federation.replicated_from",
    "ojs.federation.source_region",
    "ojs.federation.routed_at",
];

/// A kept text is no longer than this: a name or a time, not a document. Units: bytes.
const TEXT_BYTES_MAX: usize = 512;

/// Where the data of a job is kept in.
const DATA: &[&str] = &["result", "args", "meta", "error", "payload"];

/// The steps of a workflow nest no deeper, and stand beside no more than so many others, or are not judged.
const PARTS_DEPTH_MAX: usize = 16;
const PARTS_MAX: usize = 10_000;

/// The pin of the job in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// To no region, or to the one asked about.
    No,
    /// Pinned to another region, or unreadable.
    Elsewhere,
    /// It does not say: there is data of a job, but nothing of its meta.
    Unsaid,
}

/// Whether the job in a piece of an answer is pinned to another region than `local`.
///
/// A pin counts wherever it stands outside `args`, because servers wrap jobs in many ways.
#[must_use]
pub fn pinned(piece: &[u8], local: &str) -> Pinned {
    let Ok(keys) = routing_within(piece, DEPTH_MAX) else { return Pinned::Elsewhere };
    let mut pins = keys.iter().filter(|key| key.kind == RoutingKind::Region).peekable();
    if pins.peek().is_some() {
        return if pins.all(|pin| pin.value.as_deref() == Some(local)) { Pinned::No } else { Pinned::Elsewhere };
    }
    if is_data_alone(piece) { Pinned::Unsaid } else { Pinned::No }
}

/// Whether any object within holds a job's data without its meta, or cannot be read.
#[must_use]
pub fn has_data_alone(piece: &[u8]) -> bool {
    object::whole(piece).is_none_or(|text| holds_data_alone(text, PARTS_DEPTH_MAX))
}

fn holds_data_alone(text: &str, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    let (all, is_array) = (members(text), Kind::of(text) == Kind::Array);
    let has = |name| find(&all, name).is_some();
    let data = |member: &&Member<'_>| DATA.contains(&&*member.name) && Kind::of(member.value) != Kind::Null;
    if !has("args") && !has("meta") && all.iter().any(|member| data(&member)) {
        return true;
    }
    if is_array {
        let parts = object::elements(text, 0, PARTS_MAX);
        let part = |(start, end): &(usize, usize)| &text[*start..*end];
        return parts.is_none_or(|parts| {
            parts.iter().any(|place| is_holder(part(place)) && holds_data_alone(part(place), depth))
        });
    }
    let free = all.iter().filter(|member| !DATA.contains(&&*member.name) && is_holder(member.value));
    free.map(|member| member.value).any(|value| holds_data_alone(value, depth))
}

fn is_holder(value: &str) -> bool {
    !Kind::of(value).is_scalar()
}

/// The job in an answer that shows it with its meta, or would if it had any: `{"job":{…}}` or bare.
#[must_use]
pub fn job_in(answer: &[u8]) -> Option<&[u8]> {
    let text = object::whole(answer)?;
    let root = members(text);
    let is_job = |members: &[Member<'_>]| find(members, "args").is_some() || find(members, "meta").is_some();
    if is_job(&root) {
        return Some(text.as_bytes());
    }
    let job = find(&root, "job")?.value;
    is_job(&members(job)).then_some(job.as_bytes())
}

/// Whether an item shows a job's meta, on its own or in its `job`.
#[must_use]
pub fn shows_meta(item: &[u8]) -> bool {
    let root = object::whole(item).map(members).unwrap_or_default();
    let has_meta = |members: &[Member<'_>]| find(members, "meta").is_some();
    has_meta(&root) || find(&root, "job").is_some_and(|job| has_meta(&members(job.value)))
}

/// The ids in `{"results":{id:{…}}}`.
#[must_use]
pub fn ids_of_results(answer: &[u8]) -> Vec<String> {
    let results = object::whole(answer).map(members).unwrap_or_default();
    let results = find(&results, "results").map(|results| members(results.value)).unwrap_or_default();
    results.into_iter().map(|result| result.name.into_owned()).collect()
}

/// `{"results":{id:{…}}}` in which those at the places of `hidden` are redacted, or left out and counted.
#[must_use]
pub fn results_without(answer: &[u8], hidden: &[bool], left_out: bool) -> Vec<u8> {
    let mut json = "{".to_owned();
    for member in object::whole(answer).map(members).unwrap_or_default() {
        if member.name != "results" {
            push(&mut json, member.written);
            continue;
        }
        let mut results = "{".to_owned();
        for (place, result) in members(member.value).iter().enumerate() {
            if !hidden.get(place).copied().unwrap_or(true) {
                push(&mut results, result.written);
            } else if !left_out {
                let name = result.written.strip_suffix(result.value).unwrap_or_default();
                push(&mut results, &format!("{name}{}", written(result.value, None, false)));
            }
        }
        push(&mut json, &format!(r#""results":{results}}}"#));
    }
    if left_out {
        let count = hidden.iter().filter(|hidden| **hidden).count();
        push(&mut json, &format!(r#""{MARK}":{{"withheld":{count}}}"#));
    }
    json.push('}');
    json.into_bytes()
}

/// A result without its job: `{"state":…,"result":…}`, or an event with either in its `data`.
fn is_data_alone(piece: &[u8]) -> bool {
    let Some(text) = object::whole(piece) else { return false };
    let root = members(text);
    if job_in(piece).is_some() {
        return false;
    }
    let job = find(&root, "job").map(|job| members(job.value));
    let holds = |members: &[Member<'_>]| {
        DATA.iter().any(|name| find(members, name).is_some_and(|member| Kind::of(member.value) != Kind::Null))
    };
    let data = find(&root, "data").map(|data| members(data.value));
    holds(&root) || data.as_deref().is_some_and(holds) || job.as_deref().is_some_and(holds)
}

/// The same job without its content: `{"job":{…}}` or bare. `region` is named in the mark where it is given.
///
/// `args` stays an empty array and `meta` an object, so that SDKs can read it.
#[must_use]
pub fn redacted(piece: &[u8], region: Option<&str>) -> Vec<u8> {
    let text = object::whole(piece).unwrap_or("{}");
    written(text, region, true).into_bytes()
}

fn written(text: &str, region: Option<&str>, outer: bool) -> String {
    let mut json = "{".to_owned();
    let mut wrapped = false;
    for member in members(text) {
        match (&*member.name, Kind::of(member.value)) {
            ("args", Kind::Array) => push(&mut json, r#""args":[]"#),
            ("meta", Kind::Object) => push(&mut json, &format!(r#""meta":{}"#, federation_keys(member.value))),
            (name @ ("job" | "workflow" | "cron" | "cron_job"), Kind::Object) if outer => {
                wrapped = true;
                push(&mut json, &format!(r#""{name}":{}"#, written(member.value, region, false)));
            }
            (name, kind) if HARMLESS.contains(&name) && is_short(kind, member.value) => push(&mut json, member.written),
            _ => {}
        }
    }
    if !wrapped {
        push(&mut json, &mark(region, true));
    }
    json.push('}');
    json
}

fn federation_keys(meta: &str) -> String {
    let mut json = "{".to_owned();
    for member in members(meta) {
        if FEDERATION.contains(&&*member.name) && is_short(Kind::of(member.value), member.value) {
            push(&mut json, member.written);
        }
    }
    json.push('}');
    json
}

fn is_short(kind: Kind, value: &str) -> bool {
    kind.is_scalar() && value.len() <= TEXT_BYTES_MAX
}

/// The item with its region behind its other members; a value that is no object stays as it is.
#[must_use]
pub fn annotated<'p>(piece: &'p [u8], region: &str) -> Cow<'p, [u8]> {
    let Some(text) = object::whole(piece) else { return Cow::Borrowed(piece) };
    let all = members(text);
    // A mark that a client made up would contradict ours.
    if find(&all, MARK).is_some() {
        let mut json = "{".to_owned();
        for member in all.iter().filter(|member| member.name != MARK) {
            push(&mut json, member.written);
        }
        push(&mut json, &mark(Some(region), false));
        json.push('}');
        return Cow::Owned(json.into_bytes());
    }
    let mut json = text.strip_suffix('}').unwrap_or(text).to_owned();
    json.push_str(if all.is_empty() { "" } else { "," });
    json.push_str(&mark(Some(region), false));
    json.push('}');
    Cow::Owned(json.into_bytes())
}

fn mark(region: Option<&str>, redacted: bool) -> String {
    let mut json = String::new();
    push_quoted(&mut json, MARK);
    json.push_str(":{");
    if let Some(region) = region {
        json.push_str(r#""region":"#);
        push_quoted(&mut json, region);
        json.push_str(if redacted { "," } else { "" });
    }
    json.push_str(if redacted { r#""redacted":true}"# } else { "}" });
    json
}

fn push(json: &mut String, member: &str) {
    if json.len() > 1 {
        json.push(',');
    }
    json.push_str(member);
}

#[cfg(test)]
mod tests;
