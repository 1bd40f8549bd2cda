//! A job that is run again: a new one, made of the bytes with which a region shows the first one.
//!
//! Arguments, meta and policies stand in the new job as they stand in the answer, byte for byte. A schedule, an expiry and a policy against
//! duplicates are left out: the first has passed, the others would refuse the new job.

use super::attributes::Name;
use super::list::object::{Kind, Member, members};
use super::member::{DEPTH_MAX, as_number};
use super::residency::{Pinned, pinned};
use super::scan::scan;

/// The meta key with the id of the job that a new one repeats.
pub const REPLAY_OF: &str = "ojs.replay_of";

/// The priorities that the protocol knows. Spec: ojs-protocol 3.1.
pub const PRIORITIES: std::ops::RangeInclusive<i64> = -100..=100;

/// Members of an answer that are options of a job under the same name.
const OPTIONS: [&str; 6] =
    ["timeout_ms", "timeout", "visibility_timeout_ms", "visibility_timeout", "tags", "rate_limit"];
/// Policies of retries, the first of which counts.
const POLICIES: [&str; 2] = ["retry", "retry_policy"];
/// Members of meta that the new job has of its own, or not at all.
const OWN: [&str; 4] = [Name::FederationId.as_str(), Name::ReplicatedFrom.as_str(), Name::RoutedAt.as_str(), REPLAY_OF];
/// Members that make the new job, of which a second one would make it another job for another reader.
const SINGLE: [&str; 5] = ["type", "queue", "args", "meta", "job"];

/// Members of `options`, and those beside them that say the same.
const BESIDE: [(&str, &[&str]); 8] = [
    ("queue", &["queue"]),
    ("metadata", &["meta"]),
    ("meta", &["meta"]),
    ("tags", &["tags"]),
    ("retry", &POLICIES),
    ("retry_policy", &POLICIES),
    ("timeout", &TIMEOUTS),
    ("timeout_ms", &TIMEOUTS),
];
const TIMEOUTS: [&str; 2] = ["timeout_ms", "timeout"];

/// Why a job cannot be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrepeatable {
    /// The answer shows no job.
    NoJob,
    /// The job has no arguments in it, such as behind the region's retention.
    NoArguments,
    /// A member that makes the job is there twice, or of another kind than the protocol has it.
    Unclear(&'static str),
    /// The answer shows this member of the job in its `options` alone, where a new job would not be read from.
    InOptions(&'static str),
    /// It is pinned to another region than the one that shows it.
    PinnedElsewhere,
}

/// A job as its region shows it.
#[derive(Debug)]
pub struct Original<'b> {
    kind: &'b str,
    queue: Option<&'b str>,
    args: &'b str,
    meta: Vec<&'b str>,
    /// Members that are options, with their names.
    options: Vec<&'b str>,
    retry: Option<&'b str>,
    max_attempts: Option<&'b str>,
    /// Members that stand beside the options.
    beside: Vec<&'b str>,
}

/// The members of the new job that differ from those of the first one.
#[derive(Debug, Clone, Copy)]
pub struct Renewal<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its tracking id.
    pub federation_id: &'a str,
    /// The id of the first one.
    pub replay_of: &'a str,
    /// Its priority.
    pub priority: i64,
}

impl<'b> Original<'b> {
    /// Reads the job in the answer of `region` to a look-up: `job`, or a bare one.
    ///
    /// Errors: [`Unrepeatable`].
    pub fn read(body: &'b [u8], region: &str) -> Result<Self, Unrepeatable> {
        let text = std::str::from_utf8(body).map_err(|_| Unrepeatable::NoJob)?;
        scan(body, DEPTH_MAX).map_err(|_| Unrepeatable::NoJob)?;
        let mut all = members(text);
        if let (None, Some(job)) = (one(&all, "id")?, one(&all, "job")?) {
            all = members(job.value);
        }
        if all.is_empty() {
            return Err(Unrepeatable::NoJob);
        }
        SINGLE.iter().try_for_each(|name| one(&all, name).map(drop))?;
        shown_beside(&all)?;
        let text_of = |name: &'static str| match one(&all, name)? {
            Some(member) if Kind::of(member.value) == Kind::Text => Ok(Some(member.value)),
            Some(_) => Err(Unrepeatable::Unclear(name)),
            None => Ok(None),
        };
        let kind = text_of("type")?.ok_or(Unrepeatable::Unclear("type"))?;
        let args = one(&all, "args")?.filter(|it| Kind::of(it.value) == Kind::Array);
        let args = args.ok_or(Unrepeatable::NoArguments)?.value;
        if pinned(body, region) == Pinned::Elsewhere {
            return Err(Unrepeatable::PinnedElsewhere);
        }
        let is_number = |member: &&Member<'b>| as_number(member.value.as_bytes()).is_some();
        let named = |names: &'static [&'static str]| {
            names.iter().filter_map(|name| last(&all, name)).filter(|it| Kind::of(it.value) != Kind::Null)
        };
        Ok(Self {
            kind,
            queue: text_of("queue")?,
            args,
            meta: kept_meta(&all)?,
            options: named(&OPTIONS).map(|it| it.written).collect(),
            retry: named(&POLICIES).find(|it| Kind::of(it.value) == Kind::Object).map(|it| it.written),
            max_attempts: last(&all, "max_attempts").filter(is_number).map(|it| it.written),
            // Servers that know options only inside `options` read the time in seconds there.
            beside: named(&["timeout", "schema"]).map(|it| it.written).collect(),
        })
    }

    /// The arguments, as they stand in the answer.
    #[must_use]
    pub const fn args(&self) -> &'b str {
        self.args
    }

    /// The new job.
    #[must_use]
    pub fn again(&self, new: &Renewal<'_>) -> Vec<u8> {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut meta: Vec<String> = self.meta.iter().map(|it| (*it).to_owned()).collect();
        for (name, value) in [(Name::FederationId.as_str(), new.federation_id), (REPLAY_OF, new.replay_of)] {
            meta.push(format!("{}:{}", quoted(name), quoted(value)));
        }
        let queue = self.queue.map(|queue| format!(r#""queue":{queue}"#));
        let mut options: Vec<String> = queue.into_iter().collect();
        options.push(format!(r#""priority":{}"#, new.priority));
        options.extend(self.options.iter().map(|it| (*it).to_owned()));
        options.extend(self.policy());
        let mut parts = vec![format!(r#""id":{}"#, quoted(new.id)), format!(r#""type":{}"#, self.kind)];
        parts.push(format!(r#""args":{}"#, self.args));
        parts.push(format!(r#""meta":{{{}}}"#, meta.join(",")));
        parts.push(format!(r#""options":{{{}}}"#, options.join(",")));
        parts.extend(self.beside.iter().map(|it| (*it).to_owned()));
        format!("{{{}}}", parts.join(",")).into_bytes()
    }

    /// The policy of retries, with the number of attempts that the region shows beside it.
    fn policy(&self) -> Option<String> {
        let Some(retry) = self.retry else {
            return self.max_attempts.map(|attempts| format!(r#""retry":{{{attempts}}}"#));
        };
        let open = retry.find('{').unwrap_or_default();
        let within = members(retry.get(open..).unwrap_or_default());
        let has_attempts = within.iter().any(|it| it.name == "max_attempts");
        let Some(attempts) = self.max_attempts.filter(|_| !has_attempts) else { return Some(retry.to_owned()) };
        let (name, policy) = retry.split_at(open + 1);
        Some(format!("{name}{attempts}{}{policy}", if within.is_empty() { "" } else { "," }))
    }
}

/// Refuses a job that has a member in its `options` which it lacks beside them.
fn shown_beside(all: &[Member<'_>]) -> Result<(), Unrepeatable> {
    let is_set = |it: &Member<'_>| Kind::of(it.value) != Kind::Null;
    for options in all.iter().filter(|it| it.name == "options" && Kind::of(it.value) == Kind::Object) {
        let within = members(options.value);
        let has = |of: &[Member<'_>], name: &str| of.iter().any(|it| it.name == name && is_set(it));
        let hidden = |(inner, beside): &&(&'static str, &[&str])| {
            has(&within, inner) && !beside.iter().any(|name| has(all, name))
        };
        if let Some(&(inner, _)) = BESIDE.iter().find(hidden) {
            return Err(Unrepeatable::InOptions(inner));
        }
    }
    Ok(())
}

/// The members of meta that the new job keeps, as they stand.
fn kept_meta<'b>(all: &[Member<'b>]) -> Result<Vec<&'b str>, Unrepeatable> {
    let Some(meta) = one(all, "meta")?.filter(|it| Kind::of(it.value) != Kind::Null) else { return Ok(Vec::new()) };
    if Kind::of(meta.value) != Kind::Object {
        return Err(Unrepeatable::Unclear("meta"));
    }
    let kept = members(meta.value).into_iter().filter(|it| !OWN.contains(&&*it.name));
    Ok(kept.map(|it| it.written).collect())
}

/// The only member with a name.
fn one<'m, 'b>(all: &'m [Member<'b>], name: &'static str) -> Result<Option<&'m Member<'b>>, Unrepeatable> {
    let mut named = all.iter().filter(|it| it.name == name);
    match (named.next(), named.next()) {
        (_, Some(_)) => Err(Unrepeatable::Unclear(name)),
        (found, None) => Ok(found),
    }
}

fn last<'m, 'b>(all: &'m [Member<'b>], name: &str) -> Option<&'m Member<'b>> {
    all.iter().rev().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Renewal<'_> = Renewal { id: "n", federation_id: "f", replay_of: "o", priority: 100 };

    fn again(body: &str) -> String {
        String::from_utf8(Original::read(body.as_bytes(), "us").unwrap().again(&NEW)).unwrap()
    }

    #[test]
    fn arguments_and_meta_keep_their_bytes_and_the_rest_is_the_new_jobs_own() {
        let args = r#"[ 1e400 ,{"a":1,"a":2,"A" :"\ud800\u00e4ä"}, "\/" ]"#;
        let body = format!(
            r#"{{"job":{{"id":"o","state":"completed","type":"a.b","queue":"q","args":{args},"priority":7,"max_attempts":3,
            "meta":{{"tenant" : "t\u0031","ojs.federation.region":"us","ojs.federation.federation_id":"old","ojs.replay_of":"older",
            "ojs.federation.routed_at":"x","n":1.50}},"timeout_ms":50,"tags":null,"unique":{{"keys":["args"]}},"scheduled_at":"2026-01-01T00:00:00Z",
            "retry":{{"backoff_coefficient": 2.0}}}}}}"#
        );
        let expected = format!(
            "{}{args}{}{}",
            r#"{"id":"n","type":"a.b","args":"#,
            r#","meta":{"tenant" : "t\u0031","ojs.federation.region":"us","n":1.50,"ojs.federation.federation_id":"f","ojs.replay_of":"o"},"#,
            r#""options":{"queue":"q","priority":100,"timeout_ms":50,"retry":{"max_attempts":3,"backoff_coefficient": 2.0}}}"#
        );
        assert_eq!(again(&body), expected);
        let read = Original::read(body.as_bytes(), "us").unwrap();
        assert_eq!(read.args(), args);
    }

    #[test]
    fn policies_are_kept_in_each_form_of_servers() {
        let options = |more: &str| {
            let body = format!(r#"{{"id":"o","type":"a","args":[]{more}}}"#);
            again(&body).split_once(r#""priority":100"#).unwrap().1.to_owned()
        };
        assert_eq!(options(""), "}}");
        assert_eq!(options(r#","max_attempts":2"#), r#","retry":{"max_attempts":2}}}"#);
        assert_eq!(options(r#","max_attempts":2,"retry":{}"#), r#","retry":{"max_attempts":2}}}"#);
        let own = r#","retry":{"max_attempts":5}"#;
        assert_eq!(options(&format!(r#","max_attempts":2{own}"#)), format!("{own}}}}}"));
        assert_eq!(
            options(r#","max_attempts":2,"retry":null,"retry_policy":{"x":1}"#),
            r#","retry_policy":{"max_attempts":2,"x":1}}}"#
        );
        assert_eq!(options(r#","timeout":9,"schema":"u""#), r#","timeout":9},"timeout":9,"schema":"u"}"#);
        assert_eq!(options(r#","max_attempts":"2","meta":null"#), "}}");
    }

    #[test]
    fn a_job_that_can_be_read_in_two_ways_or_not_at_all_is_none() {
        let read = |body: &str| Original::read(body.as_bytes(), "us").map(|it| it.args().to_owned());
        for (body, why) in [
            ("<html>", Unrepeatable::NoJob),
            ("[]", Unrepeatable::NoJob),
            ("{}", Unrepeatable::NoJob),
            (r#"{"error":{"code":"x"}}"#, Unrepeatable::Unclear("type")),
            (r#"{"id":"o","type":"a"}"#, Unrepeatable::NoArguments),
            (r#"{"id":"o","type":"a","args":null}"#, Unrepeatable::NoArguments),
            (r#"{"id":"o","type":"a","args":{}}"#, Unrepeatable::NoArguments),
            (r#"{"id":"o","type":7,"args":[]}"#, Unrepeatable::Unclear("type")),
            (r#"{"id":"o","type":"a","args":[],"queue":7}"#, Unrepeatable::Unclear("queue")),
            (r#"{"id":"o","type":"a","args":[],"args":[1]}"#, Unrepeatable::Unclear("args")),
            (r#"{"id":"o","type":"a","args":[],"\u0061rgs":[1]}"#, Unrepeatable::Unclear("args")),
            (r#"{"id":"o","type":"a","args":[],"meta":[]}"#, Unrepeatable::Unclear("meta")),
            (r#"{"id":"o","type":"a","args":[],"meta":{"ojs.federation.region":"eu"}}"#, Unrepeatable::PinnedElsewhere),
            (r#"{"id":"o","type":"a","args":[],"options":{"queue":"q"}}"#, Unrepeatable::InOptions("queue")),
            (
                r#"{"id":"o","type":"a","args":[],"meta":null,"options":{"metadata":{"t":1}}}"#,
                Unrepeatable::InOptions("metadata"),
            ),
            (r#"{"id":"o","type":"a","args":[],"options":{"tags":[]}}"#, Unrepeatable::InOptions("tags")),
            (r#"{"id":"o","type":"a","args":[],"options":{"retry":{}}}"#, Unrepeatable::InOptions("retry")),
            (r#"{"id":"o","type":"a","args":[],"options":{"timeout":5}}"#, Unrepeatable::InOptions("timeout")),
        ] {
            assert_eq!(read(body), Err(why), "{body}");
        }
        let both = r#"{"id":"o","type":"a","args":[],"queue":"q","meta":{},"retry_policy":{},"timeout_ms":5,
            "options":{"queue":"q","metadata":{},"retry":{},"timeout":5,"tags":null,"priority":3}}"#;
        assert_eq!(read(both).unwrap(), "[]");
        let inside = r#"{"id":"o","type":"a","args":[{"meta":{"ojs.federation.region":"eu"}}]}"#;
        assert_eq!(read(inside).unwrap(), r#"[{"meta":{"ojs.federation.region":"eu"}}]"#);
    }
}
