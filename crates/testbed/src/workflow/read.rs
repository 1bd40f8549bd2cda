//! A workflow as a client submits it.

use std::collections::HashMap;

use bytes::Bytes;

use super::super::answer::Object;
use super::super::dialect::Dialect;
use super::super::envelope::{Envelope, Reading};
use super::super::members::{Invalid, Members, Raw};
use super::super::problem::Problem;
use super::{Hook, Kind, Part, Workflow};
use crate::state::WorkflowState;

/// The most jobs of one workflow: as many as a batch of enqueues has by its schema.
const JOBS_MAX: usize = 10_000;

impl Workflow {
    /// Reads a submitted workflow, which has no id yet and has not begun.
    ///
    /// Errors: the first problem found; one of a job by its place.
    pub(crate) fn read(source: &[u8], reading: &Reading) -> Result<Self, Problem> {
        let members = Members::parse(source)?;
        let kind = kind(&members, reading.dialect)?;
        let (list, rule) = match kind {
            Kind::Chain | Kind::Graph => ("steps", "is an array of one or more jobs"),
            Kind::Group | Kind::Batch => ("jobs", "is an array of one or more jobs"),
        };
        let sources: Vec<Raw> = members.read(list, rule)?.unwrap_or_default();
        if sources.is_empty() || sources.len() > JOBS_MAX {
            return Err(Invalid::Member(list, rule).into());
        }
        let defaults: Members = members.read("options", "is an object")?.unwrap_or_default();
        let read = |(place, source): (usize, &Raw)| {
            part(source, kind, &defaults, reading).map_err(|invalid| Problem::InBatch(place, Box::new(invalid.into())))
        };
        let steps: Vec<Step> = sources.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let mut parts = linked(steps, kind)?;
        if kind == Kind::Batch {
            parts.extend(callbacks(&members, reading)?);
        }
        let name = members.read("name", "is a string")?;
        let (id, state) = (String::new(), WorkflowState::Running);
        Ok(Self { id, kind, name, state, parts, created_ms: 0, ended_ms: None })
    }
}

fn kind(members: &Members, dialect: Dialect) -> Result<Kind, Invalid> {
    let rule = "is chain, group or batch";
    match members.read::<String>("type", rule)?.as_deref() {
        Some("chain") => Ok(Kind::Chain),
        Some("group") => Ok(Kind::Group),
        Some("batch") => Ok(Kind::Batch),
        // The HTTP binding knows no kinds, only steps that depend on each other.
        None if dialect == Dialect::Spec && members.raw("steps").is_some() => Ok(Kind::Graph),
        _ => Err(Invalid::Member("type", rule)),
    }
}

/// A job of the workflow and the names of those that it waits for.
struct Step {
    part: Part,
    after: Vec<String>,
}

fn part(source: &Raw, kind: Kind, defaults: &Members, reading: &Reading) -> Result<Step, Invalid> {
    let members = Members::parse(source.get().as_bytes())?;
    let envelope = Envelope::submitted(Bytes::from(job_source(&members, defaults)?), reading)?;
    let mut part = Part::new(envelope);
    let mut after = Vec::new();
    if kind == Kind::Graph {
        let rule = "names the step";
        part.label = Some(members.read("id", rule)?.ok_or(Invalid::Member("id", rule))?);
        after = members.read("depends_on", "is an array of steps")?.unwrap_or_default();
    }
    Ok(Step { part, after })
}

/// The text of a job: its own members, with the options of the workflow where it says nothing itself.
fn job_source(members: &Members, defaults: &Members) -> Result<String, Invalid> {
    let own: Members = members.read("options", "is an object")?.unwrap_or_default();
    // The id of a step is a name within the workflow; the region gives the job its own.
    let kept = members.0.iter().filter(|(key, _)| !matches!(key.as_str(), "id" | "depends_on" | "options"));
    let job = kept.fold(Object::new(), |object, (key, value)| object.raw(key, value.get()));
    let added = defaults.0.iter().filter(|(key, _)| own.raw(&key.to_lowercase()).is_none());
    let options = own.0.iter().chain(added);
    let options = options.fold(Object::new(), |object, (key, value)| object.raw(key, value.get()));
    Ok(job.raw("options", &options.finish()).finish())
}

/// Turns names into places.
///
/// Errors: [`Invalid::Member`] for a name that stands for no other step, or for steps that wait for each other.
fn linked(steps: Vec<Step>, kind: Kind) -> Result<Vec<Part>, Invalid> {
    let labels = steps.iter().enumerate().filter_map(|(place, step)| Some((step.part.label.clone()?, place)));
    let places: HashMap<String, usize> = labels.collect();
    if kind == Kind::Graph && places.len() < steps.len() {
        return Err(Invalid::Member("id", "names one step only"));
    }
    let unknown = Invalid::Member("depends_on", "names other steps of the workflow, and no circle of them");
    let mut parts = Vec::with_capacity(steps.len());
    for (place, step) in steps.into_iter().enumerate() {
        let mut part = step.part;
        part.needs = match kind {
            Kind::Chain => place.checked_sub(1).into_iter().collect(),
            Kind::Graph => {
                let found = step.after.iter().map(|name| places.get(name).copied());
                found.collect::<Option<_>>().ok_or_else(|| unknown.clone())?
            }
            Kind::Group | Kind::Batch => Vec::new(),
        };
        parts.push(part);
    }
    if has_circle(&parts) { Err(unknown) } else { Ok(parts) }
}

/// Whether some parts can never run: those that remain when parts that wait for nothing are removed again and again.
fn has_circle(parts: &[Part]) -> bool {
    let mut waits: Vec<usize> = parts.iter().map(|part| part.needs.len()).collect();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); parts.len()];
    for (place, part) in parts.iter().enumerate() {
        for &need in &part.needs {
            if let Some(list) = followers.get_mut(need) {
                list.push(place);
            }
        }
    }
    let mut free: Vec<usize> = (0..parts.len()).filter(|&place| waits.get(place) == Some(&0)).collect();
    let mut taken = 0;
    while let Some(place) = free.pop() {
        taken += 1;
        for &follower in followers.get(place).into_iter().flatten() {
            if let Some(count) = waits.get_mut(follower) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    free.push(follower);
                }
            }
        }
    }
    taken < parts.len()
}

fn callbacks(members: &Members, reading: &Reading) -> Result<Vec<Part>, Invalid> {
    let rule = "has one or more of on_complete, on_success and on_failure";
    let given: Members = members.read("callbacks", rule)?.unwrap_or_default();
    let mut parts = Vec::new();
    for (name, hook) in [("on_complete", Hook::Complete), ("on_success", Hook::Success), ("on_failure", Hook::Failure)]
    {
        let Some(callback) = given.read::<Members>(name, rule)? else { continue };
        let source = job_source(&callback, &Members::default())?;
        let envelope = Envelope::submitted(Bytes::from(source), reading)?;
        parts.push(Part { hook: Some(hook), ..Part::new(envelope) });
    }
    if parts.is_empty() { Err(Invalid::Member("callbacks", rule)) } else { Ok(parts) }
}
