//! The bodies of calls that create jobs other than one by one: batch, bulk, cron, workflows.
//!
//! Their shapes differ from server to server, so that no shape is assumed: every object that could be a job is read as
//! one, and every routing key at any depth is reported. Only values under a key `args` are data and left alone.
//!
//! Two passes keep the work linear: the first notes where objects begin and end, the second reads each candidate and steps over
//! the objects inside it.

use super::attributes::Name;
use super::envelope::Envelope;
use super::fault::Fault;
use super::key::{Likeness, Text, likeness};
use super::routing_key::{RoutingKey, RoutingKind, read_routing_key};
use super::scan::{Jump, Scanner, Visit};

/// The most jobs that one call may carry. Spec: ojs-protocol 2.1, the batch schema's own bound.
pub(super) const ENVELOPES_MAX: usize = 10_000;

/// The most objects outside `args`, so that their table stays within a few megabytes.
const OBJECTS_MAX: usize = 200_000;

/// The jobs and keys in a creating body.
#[derive(Debug, Clone, Default)]
pub struct Found<'b> {
    /// Every object that could be a job, in the order of the body; [`Envelope::span`] is the place of each.
    pub envelopes: Vec<Envelope<'b>>,
    /// Every routing key outside `args` that is not `null`: those that the envelopes have read, and those that hide elsewhere.
    pub routing: Vec<RoutingKey<'b>>,
}

impl<'b> Found<'b> {
    /// Notes the tenant that the head of the call names, for every job.
    pub fn set_caller_tenant(&mut self, tenant: Option<&'b str>) {
        self.envelopes.iter_mut().for_each(|envelope| envelope.set_caller_tenant(tenant));
    }
}

/// Finds the jobs and the routing keys in the body of a creating call. An empty body holds none.
///
/// Errors: a [`Fault`] when the body is not JSON or too large a tree, or when one of the jobs could be read in two ways.
pub fn jobs_within(body: &[u8], depth_max: usize) -> Result<Found<'_>, Fault> {
    let (text, survey) = survey(body, depth_max)?;
    let jumps: Vec<Jump> = survey.objects.iter().map(|object| (object.start, object.end)).collect();
    let mut found = Found::default();
    for (place, object) in survey.objects.iter().enumerate().filter(|(_, object)| object.candidate) {
        // Its own entry and those before it are left out, so that it is read and not stepped over.
        let inner = &jumps[place + 1..];
        found.envelopes.push(Envelope::read_at(&mut Scanner::again(text, object.start, inner))?);
    }
    found.routing = survey.routing_keys(text)?;
    Ok(found)
}

/// Finds the routing keys in the body of a call that is not known to create jobs; its objects may be anything.
///
/// Errors: a [`Fault`] when the body is not JSON or too large a tree.
pub fn routing_within(body: &[u8], depth_max: usize) -> Result<Vec<RoutingKey<'_>>, Fault> {
    let (text, survey) = survey(body, depth_max)?;
    survey.routing_keys(text)
}

fn survey(body: &[u8], depth_max: usize) -> Result<(&str, Survey), Fault> {
    let mut scanner = Scanner::new(body, depth_max)?;
    let mut survey = Survey::default();
    if scanner.next().is_some() {
        scanner.walk(&mut survey)?;
        scanner.end()?;
    }
    Ok((scanner.text(), survey))
}

/// The role that a member's name gives its value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Plain,
    /// Data: nothing in it is looked at.
    Args,
    /// Free data of the client, in which only routing keys count.
    Meta,
    /// Part of the job around it, not a job of its own.
    Options,
}

/// One object outside `args`.
struct Object {
    start: usize,
    end: usize,
    candidate: bool,
}

/// One open bracket.
#[derive(Clone, Copy, Default)]
struct Frame {
    muted: bool,
    free: bool,
    part: bool,
    role: Role,
    /// Its index among the objects; `None` for arrays and muted values.
    object: Option<usize>,
}

/// The first pass.
#[derive(Default)]
struct Survey {
    objects: Vec<Object>,
    candidates: usize,
    /// Kind, offset of the key, offset behind the key.
    routing: Vec<(RoutingKind, usize, usize)>,
    frames: Vec<Frame>,
}

impl Survey {
    fn routing_keys<'b>(&self, text: &'b str) -> Result<Vec<RoutingKey<'b>>, Fault> {
        let mut keys = Vec::with_capacity(self.routing.len());
        for &(kind, offset, after) in &self.routing {
            keys.extend(read_routing_key(text, kind, offset, after)?);
        }
        Ok(keys)
    }
}

impl<'b> Visit<'b> for Survey {
    type Error = Fault;

    fn open(&mut self, at: usize, object: bool) -> Result<(), Fault> {
        let around = self.frames.last().copied().unwrap_or_default();
        let mut frame = Frame {
            muted: around.muted || around.role == Role::Args,
            free: around.free || around.role == Role::Meta,
            part: around.role == Role::Options,
            ..Frame::default()
        };
        if object && !frame.muted {
            if self.objects.len() == OBJECTS_MAX {
                return Err(Fault::too_many("objects", OBJECTS_MAX));
            }
            frame.object = Some(self.objects.len());
            self.objects.push(Object { start: at, end: at, candidate: false });
        }
        self.frames.push(frame);
        Ok(())
    }

    fn key(&mut self, key: Text<'b>, after: usize) -> Result<(), Fault> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        if frame.muted {
            return Ok(());
        }
        let name = key.decode();
        let is = |known| likeness(&name, known) != Likeness::Different;
        frame.role = match () {
            // Only the exact name is data to every server.
            () if name == "args" => Role::Args,
            () if is("meta") || is("metadata") => Role::Meta,
            () if is("options") => Role::Options,
            () => Role::Plain,
        };
        // `queue` and `tags` count too: rules match them, and they may stand beside a template or among defaults.
        let telling = matches!(frame.role, Role::Meta | Role::Options) || ["type", "queue", "tags"].into_iter().any(is);
        if telling
            && !frame.free
            && !frame.part
            && let Some(object) = frame.object.and_then(|place| self.objects.get_mut(place))
            && !object.candidate
        {
            object.candidate = true;
            self.candidates += 1;
            if self.candidates > ENVELOPES_MAX {
                return Err(Fault::too_many("jobs", ENVELOPES_MAX));
            }
        }
        match Name::of(&name) {
            Some((Name::Region, _)) => self.routing.push((RoutingKind::Region, key.at, after)),
            Some((Name::RegionAffinity, _)) => self.routing.push((RoutingKind::Affinity, key.at, after)),
            Some((Name::RegionsWith, _)) => self.routing.push((RoutingKind::Tags, key.at, after)),
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, end: usize) {
        let object = self.frames.pop().and_then(|frame| frame.object);
        if let Some(object) = object.and_then(|place| self.objects.get_mut(place)) {
            object.end = end;
        }
    }
}

#[cfg(test)]
mod tests;
