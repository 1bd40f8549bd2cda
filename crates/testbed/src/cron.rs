//! A cron job: how it is submitted, in two shapes, and how it is written.

use bytes::Bytes;

use super::answer::Object;
use super::dialect::Dialect;
use super::envelope::{Envelope, Reading};
use super::members::{Invalid, Members};
use super::schedule::Schedule;
use crate::text::rfc3339;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// How long a worker has a job that cron has made, unless its template says otherwise: as servers in Go have it. A job that is
/// overtaken by its own next run would otherwise be given back before.
const VISIBILITY_MS: u64 = 600_000;

/// The action when a run is due while the last one is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    /// It is left out.
    Skip,
    /// It starts all the same.
    Allow,
    /// The last one is cancelled.
    CancelPrevious,
    /// It waits in its queue like any job.
    Enqueue,
}

impl Overlap {
    const ALL: [Self; 4] = [Self::Skip, Self::Allow, Self::CancelPrevious, Self::Enqueue];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Allow => "allow",
            Self::CancelPrevious => "cancel_previous",
            Self::Enqueue => "enqueue",
        }
    }
}

/// A cron job as it was submitted.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) expression: String,
    pub(super) timezone: String,
    pub(super) overlap: Overlap,
    pub(super) enabled: bool,
    pub(super) schedule: Schedule,
    /// The template of every run.
    pub(super) template: Envelope,
    /// The members that are handed back as they came.
    echoed: Members,
}

/// A cron job and its runs.
#[derive(Debug)]
pub(super) struct CronJob {
    pub(super) plan: Plan,
    pub(super) created_ms: u64,
    /// When it fires next; never while it is off.
    pub(super) next_ms: Option<u64>,
    pub(super) last_ms: Option<u64>,
    pub(super) runs: u64,
    /// The job of the last run.
    pub(super) last_job: Option<String>,
}

/// Members that the server answers itself.
const ANSWERED: [&str; 9] = [
    "expression",
    "timezone",
    "overlap_policy",
    "enabled",
    "status",
    "created_at",
    "next_run_at",
    "last_run_at",
    "run_count",
];

impl Plan {
    /// Reads a submitted cron job. In the documents the job's members stand beside the name, in servers in Go in a
    /// `job_template`; a region that follows the documents takes both.
    ///
    /// Errors: the first [`Invalid`] found, also of the job that it is to make.
    pub(super) fn read(source: &Bytes, reading: &Reading) -> Result<Self, Invalid> {
        let members = Members::parse(source)?;
        let in_spec = reading.dialect == Dialect::Spec;
        let name: String = members.read("name", NAME_RULE)?.ok_or(Invalid::Member("name", NAME_RULE))?;
        if !is_name(&name) {
            return Err(Invalid::Member("name", NAME_RULE));
        }
        let expression: Option<String> = members.read("expression", "is a string")?;
        let expression = match expression {
            None if in_spec => members.read("cron", "is a string")?,
            given => given,
        };
        let expression = expression.ok_or(Invalid::Member(if in_spec { "cron" } else { "expression" }, "is there"))?;
        let timezone = members.read("timezone", "is a string")?.unwrap_or_else(|| "UTC".to_owned());
        let nested: Option<Members> = members.read("job_template", "is an object")?;
        let mut template = match nested {
            Some(nested) => job_of(&nested, reading)?,
            None if in_spec => job_of(&members, reading)?,
            None => return Err(Invalid::Member("job_template", "is there")),
        };
        if !in_spec {
            // They make the job without the meta of their template.
            template.meta = None;
        }
        template.id = None;
        template.visibility_ms.get_or_insert(VISIBILITY_MS);
        let schedule = Schedule::parse(&expression, &timezone)?;
        let overlap = overlap(&members, reading.dialect)?;
        let enabled = members.read("enabled", "is true or false")?.filter(|_| in_spec).unwrap_or(true);
        let echoed = members.0.into_iter().filter(|(key, _)| !ANSWERED.contains(&key.as_str())).collect();
        Ok(Self { name, expression, timezone, overlap, enabled, schedule, template, echoed: Members(echoed) })
    }

    /// The job of one run, which says where it comes from.
    pub(super) fn job(&self, at_ms: u64) -> Envelope {
        let mut job = self.template.clone();
        let given = self.template.meta.as_deref().and_then(|meta| Members::parse(meta.get().as_bytes()).ok());
        let given = given.unwrap_or_default().0;
        let ours = ["cron_name", "cron_triggered_at"];
        let kept = given.iter().filter(|(key, _)| !ours.contains(&key.as_str()));
        let meta = kept
            .fold(Object::new(), |object, (key, value)| object.raw(key, value.get()))
            .text(ours[0], &self.name)
            .text(ours[1], &rfc3339(at_ms))
            .finish();
        // It was put together from members that are JSON.
        job.meta = serde_json::value::RawValue::from_string(meta).ok();
        job
    }
}

impl CronJob {
    /// The cron job's document. The schedule has one name in the documents and another in the public cases; both are given.
    pub(super) fn document(&self, dialect: Dialect) -> String {
        let in_spec = dialect == Dialect::Spec;
        let plan = &self.plan;
        let echoed = plan.echoed.0.iter().fold(Object::new(), |object, (key, value)| object.raw(key, value.get()));
        let lacks_cron = in_spec && plan.echoed.raw("cron").is_none();
        let object = if lacks_cron { echoed.text("cron", &plan.expression) } else { echoed };
        let last = self.last_ms.map(rfc3339);
        let next = self.next_ms.map(rfc3339);
        let object = object
            .text("expression", &plan.expression)
            .text("timezone", &plan.timezone)
            .text("overlap_policy", plan.overlap.as_str())
            .flag("enabled", plan.enabled)
            .text("created_at", &rfc3339(self.created_ms));
        if !in_spec {
            return object
                .maybe_text("next_run_at", next.as_deref())
                .maybe_text("last_run_at", last.as_deref())
                .finish();
        }
        let text_or_null = |object: Object, name: &str, text: Option<&str>| match text {
            Some(text) => object.text(name, text),
            None => object.raw(name, "null"),
        };
        let object = object.text("status", if plan.enabled { "active" } else { "paused" });
        let object = text_or_null(object, "next_run_at", next.as_deref());
        text_or_null(object, "last_run_at", last.as_deref()).number("run_count", self.runs).finish()
    }
}

const NAME_RULE: &str = "is made of a-z, 0-9, - and ., at most 255 bytes";

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    text.len() <= NAME_BYTES_MAX
        && text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || matches!(byte, b'-' | b'.'))
}

/// The job that these members describe, without those that describe the cron job.
fn job_of(members: &Members, reading: &Reading) -> Result<Envelope, Invalid> {
    const OF_THE_JOB: [&str; 4] = ["type", "args", "meta", "options"];
    let own = members.0.iter().filter(|(key, _)| OF_THE_JOB.contains(&key.as_str()));
    let job = own.fold(Object::new(), |object, (key, value)| object.raw(key, value.get()));
    let job = if members.raw("args").is_none() { job.raw("args", "[]") } else { job };
    Envelope::submitted(Bytes::from(job.finish()), reading)
}

fn overlap(members: &Members, dialect: Dialect) -> Result<Overlap, Invalid> {
    let rule = "is skip, allow, cancel_previous or enqueue";
    let usual = if dialect == Dialect::Spec { Overlap::Skip } else { Overlap::Allow };
    let Some(name) = members.read::<String>("overlap_policy", rule)? else { return Ok(usual) };
    let known = Overlap::ALL.into_iter().find(|overlap| overlap.as_str() == name);
    known.ok_or(Invalid::Member("overlap_policy", rule))
}
