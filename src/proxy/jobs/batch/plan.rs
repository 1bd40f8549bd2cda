//! From a body to its parts by region, before anything is sent.

use std::cell::RefCell;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::region_part::{RegionPart, Reported, Sent};
use crate::config::MixedBatch;
use crate::journal::{CallKind, Note};
use crate::ojs::{Batch, Element, Envelope, ErrorDocument, Scope, Several, Splices, splices};
use crate::policy::{Decision, Demand, Part, RegionIndex, RouteError, Together, View, together};
use crate::proxy::{
    body::collect,
    call::{
        call_notes::{self, CallNotes, Member, NOTED_MAX, allot},
        feedback::source,
        notes::write_down,
    },
    routing::{
        asked::{AskedHub, decided},
        described::outlined_bare,
        paused::check_source,
        plan::{StampRoom, Stamped, of_probe, refusal, with_word},
        quota::{Admitted, admit, admit_whole},
        several::{Bounds, Whole, check_each, demand, demand_of_holder, places_of_keys},
    },
    state::Proxy,
};
use crate::region::{Probe, TakenToken};

/// The parts by region.
pub(super) enum Planned {
    /// The body as it is, because it cannot be taken apart; with the place of its note, and the tokens of its jobs.
    Whole { decision: Decision, part: usize, tokens: Vec<TakenToken> },
    /// All jobs to one region.
    One(RegionPart),
    /// All parts or none. `keyed`: regions remember the call by a key of the client's.
    Atomic { parcels: Vec<RegionPart>, keyed: bool },
    /// Each part for itself; a part whose region is down may be left out.
    Partial(Vec<Attempted>),
}

/// A part, or why it is not sent.
pub(super) struct Attempted {
    pub(super) members: Vec<usize>,
    pub(super) parcel: Result<RegionPart, ErrorDocument>,
}

/// Plans a batch or a bulk enqueue by its path, by whether its head has a key, and by the tenant that it names. The
/// notes are returned in any case.
///
/// Errors: the error document for the client; nothing was sent.
pub(super) fn plan(
    proxy: &Proxy,
    scope: Scope,
    has_key: bool,
    tenant: Option<&str>,
    body: &Bytes,
    asked: &mut AskedHub,
) -> (Result<Planned, ErrorDocument>, CallNotes) {
    let mut notes = CallNotes::new(if scope == Scope::Bulk { CallKind::Bulk } else { CallKind::Batch });
    let planned = plan_noted(proxy, (scope, has_key), tenant, (body, asked), &mut notes);
    (planned, notes)
}

fn plan_noted(
    proxy: &Proxy,
    (scope, has_key): (Scope, bool),
    tenant: Option<&str>,
    (body, asked): (&Bytes, &mut AskedHub),
    notes: &mut CallNotes,
) -> Result<Planned, ErrorDocument> {
    let shared = &proxy.shared;
    let mut several =
        Several::read(body, shared.config.limits.json_depth).map_err(|fault| ErrorDocument::from_fault(&fault))?;
    several.set_caller_tenant(tenant);
    let view = shared.registry.view();
    let batch = match several {
        Several::Batch(batch) => batch,
        Several::Other(found) => {
            check_each(shared, &view, found.envelopes.iter())?;
            let mut course = call_notes::begin(proxy);
            let decided = Whole::of(&view, body, &found)?.decide(proxy, &view, &found, asked, &mut course);
            notes.jobs = found.envelopes.len();
            let first = found.envelopes.iter().take(NOTED_MAX);
            let part = notes.add(course, None, first.map(|envelope| Member::of(&view, envelope)).collect());
            let decision = decided?;
            let tokens = admit_whole(proxy, found.envelopes.iter())?;
            return Ok(Planned::Whole { decision, part, tokens });
        }
    };
    notes.jobs = batch.jobs.len();
    let inside = batch.jobs.iter().flat_map(|job| std::iter::once(&job.envelope).chain(&job.within));
    // Each of these is a job, whatever it holds.
    batch.jobs.iter().try_for_each(|job| check_source(&view, &job.envelope))?;
    check_each(shared, &view, inside.chain(&batch.beside))?;
    let planned = plan_batch(proxy, (scope, has_key), &view, &batch, (body, asked), notes);
    if planned.is_err() && notes.is_empty() {
        let first = batch.jobs.iter().take(NOTED_MAX);
        notes.add(call_notes::begin(proxy), None, first.map(|job| Member::of(&view, &job.envelope)).collect());
    }
    planned
}

fn plan_batch(
    proxy: &Proxy,
    (scope, has_key): (Scope, bool),
    view: &View,
    batch: &Batch<'_>,
    (body, asked): (&Bytes, &mut AskedHub),
    notes: &mut CallNotes,
) -> Result<Planned, ErrorDocument> {
    let keyed = scope == Scope::Bulk && (batch.keyed || has_key);
    let planner = Planner { keyed, ..Planner::new(proxy, view, batch, (body, asked), notes)? };
    match together(view, &planner.demands, |place| planner.alone(place))? {
        Together::One { demand, leader } => planner.one(body, &demand, leader).map(Planned::One),
        Together::Mixed(parts) if proxy.shared.config.batch.mixed == MixedBatch::Reject => Err(mixed(view, &parts)),
        Together::Mixed(parts) => planner.several(&parts, is_atomic(scope, batch)?),
    }
}

/// Whether all parts of a call must succeed. A bulk enqueue that says nothing is partial. Spec: ojs-protocol 2.1.
fn is_atomic(scope: Scope, batch: &Batch<'_>) -> Result<bool, ErrorDocument> {
    match batch.atomicity.as_deref() {
        _ if scope != Scope::Bulk => Ok(true),
        None | Some("partial") => Ok(false),
        Some("atomic") => Ok(true),
        Some(_) => Err(ErrorDocument::unknown_atomicity()),
    }
}

/// The document for jobs that must go apart and may not.
fn mixed(view: &View, parts: &[Part]) -> ErrorDocument {
    let members = |part: &Part| (view.region(part.region).id.as_str().to_owned(), json!(part.members));
    ErrorDocument::mixed_batch(parts.iter().map(members).collect::<Map<String, Value>>())
}

/// The data that the steps of one plan share.
struct Planner<'p, 'b> {
    proxy: &'p Proxy,
    view: &'p View,
    batch: &'p Batch<'b>,
    word: Option<String>,
    /// Whether regions remember the call by a key of the client's. They refuse the key with another body, so nothing that
    /// differs between two tries may be added.
    keyed: bool,
    /// The demands of each job, together with the demands beside the jobs.
    demands: Vec<Demand>,
    notes: RefCell<&'p mut CallNotes>,
    asked: RefCell<&'p mut AskedHub>,
}

impl<'p, 'b> Planner<'p, 'b> {
    fn new(
        proxy: &'p Proxy,
        view: &'p View,
        batch: &'p Batch<'b>,
        (body, asked): (&[u8], &'p mut AskedHub),
        notes: &'p mut CallNotes,
    ) -> Result<Self, ErrorDocument> {
        let Bounds { demand: mut bounds, word } = Bounds::of(view, &batch.keys)?;
        for envelope in &batch.beside {
            let holds_all = batch.holds_all(envelope);
            let demanded =
                if holds_all { demand_of_holder(view, envelope) } else { demand(view, envelope, word.as_deref()) };
            bounds.narrow(&demanded?);
        }
        let contradiction = || ErrorDocument::contradicting_pins(places_of_keys(body, &batch.keys));
        if bounds.is_impossible() {
            return Err(contradiction());
        }
        let one = |job: &Element<'b>| {
            let mut all = demand(view, &job.envelope, word.as_deref())?;
            for envelope in &job.within {
                all.narrow(&demand(view, envelope, None)?);
            }
            all.narrow(&bounds);
            if all.is_impossible() { Err(contradiction()) } else { Ok(all) }
        };
        let demands = batch.jobs.iter().enumerate();
        let demands = demands.map(|(place, job)| one(job).map_err(|document| document.with("index", place)));
        let demands = demands.collect::<Result<_, _>>()?;
        Ok(Self {
            proxy,
            view,
            batch,
            word,
            keyed: false,
            demands,
            notes: RefCell::new(notes),
            asked: RefCell::new(asked),
        })
    }

    /// The region of a job that is routed alone, with the demands that bind it.
    fn alone(&self, place: usize) -> Result<RegionIndex, ErrorDocument> {
        let Some(demand) = self.demands.get(place) else { return Ok(self.view.local) };
        let (decision, _) = self.decide(place, demand, &[place])?;
        Ok(decision.target().unwrap_or(self.view.local))
    }

    /// Decides for a job among the demanded regions, and begins the note of the jobs that go with it: `members`, of
    /// which the first ones are listed where no region can take them.
    fn decide(
        &self,
        leader: usize,
        demand: &Demand,
        members: &[usize],
    ) -> Result<(Decision, Box<Note>), ErrorDocument> {
        let Some(job) = self.batch.jobs.get(leader) else { return Err(ErrorDocument::no_healthy_region(1)) };
        let mut course = call_notes::begin(self.proxy);
        let grounds = &mut course.grounds;
        let routed: Result<Decision, RouteError> = with_word(&job.envelope, self.word.as_deref(), |job| {
            decided(self.proxy, self.view, job, Some(demand), &mut self.asked.borrow_mut(), grounds)
        });
        write_down(self.proxy, self.view, &job.envelope, &routed, &mut course);
        match routed {
            Ok(decision) => {
                course.strategy = Some(decision.strategy);
                Ok((decision, course))
            }
            Err(error) => {
                let document = refusal(&job.envelope, self.view, &error);
                let told = members.iter().take(NOTED_MAX).filter_map(|&place| self.batch.jobs.get(place));
                let told = told.map(|job| Member::of(self.view, &job.envelope)).collect();
                self.note(course, leader, members, told);
                Err(document)
            }
        }
    }

    /// Notes a part and its first members; returns its place among the notes.
    fn note(&self, course: Box<Note>, leader: usize, members: &[usize], told: Vec<Member>) -> usize {
        let leader = members.iter().position(|member| *member == leader);
        self.notes.borrow_mut().add(course, leader, told)
    }

    fn one(&self, body: &Bytes, demand: &Demand, leader: usize) -> Result<RegionPart, ErrorDocument> {
        let members: Vec<usize> = (0..self.batch.jobs.len()).collect();
        let (decision, course) = self.decide(leader, demand, &members)?;
        let (mut stamps, jobs, told, tokens) = self.stamp(&members, &decision, NOTED_MAX)?;
        let body = if stamps.iter().all(Splices::is_empty) {
            body.clone()
        } else {
            collect::hold(self.proxy, self.batch.whole(&mut stamps))
        };
        let part = self.note(course, leader, &members, told);
        Ok(RegionPart { source: self.source(&members), decision, body, members, jobs, part, tokens })
    }

    /// Every part is checked before anything is sent. A part whose region cannot take it now fails all parts that must
    /// succeed together.
    fn several(&self, parts: &[Part], atomic: bool) -> Result<Planned, ErrorDocument> {
        let rooms = allot(parts.iter().map(|part| part.members.len()));
        let attempted = parts.iter().zip(rooms);
        let attempted =
            attempted.map(|(part, room)| Attempted { members: part.members.clone(), parcel: self.parcel(part, room) });
        if !atomic {
            return Ok(Planned::Partial(attempted.collect()));
        }
        let parcels = attempted.map(|part| part.parcel).collect::<Result<_, _>>()?;
        Ok(Planned::Atomic { parcels, keyed: self.keyed })
    }

    /// `room` is the number of its jobs that fit into the notes.
    fn parcel(&self, part: &Part, room: usize) -> Result<RegionPart, ErrorDocument> {
        let members = &part.members;
        debug_assert!(!members.is_empty(), "a part has the job that it was made for");
        let leader = members.first().copied().unwrap_or_default();
        let told = members.get(..room).unwrap_or(members);
        let (decision, course) =
            self.decide(leader, &Demand::only(part.region), told).map_err(|document| document.with("index", leader))?;
        let (mut stamps, jobs, told, tokens) = self.stamp(members, &decision, room)?;
        let body = collect::hold(self.proxy, self.batch.part(members, &mut stamps));
        let part = self.note(course, leader, members, told);
        let source = self.source(members);
        Ok(RegionPart { decision, body, members: members.clone(), jobs, source, part, tokens })
    }

    fn source(&self, members: &[usize]) -> u64 {
        let first = members.first().and_then(|&place| self.batch.jobs.get(place));
        source(first.and_then(|job| job.envelope.job_type()).unwrap_or_default())
    }

    /// The edits of each job, the data to remember of it, of the first `room` jobs their entries for the notes, and their tokens in quotas.
    ///
    /// Errors: 429 where a quota has no token for one; 400 where servers could read another tenant or type.
    #[expect(clippy::type_complexity, reason = "the parts of one result, which its callers take apart")]
    fn stamp(
        &self,
        members: &[usize],
        decision: &Decision,
        room: usize,
    ) -> Result<(Vec<Splices>, Vec<Sent>, Vec<Member>, Vec<(usize, TakenToken)>), ErrorDocument> {
        let (mut splices, mut sent, mut told, mut tokens) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut probes = Vec::new();
        let jobs = members.iter().filter_map(|&member| Some((member, self.batch.jobs.get(member)?)));
        for (place, (member, job)) in jobs.enumerate() {
            // Regions that remember the call by a key refuse the key with another body.
            let quota = admit(self.proxy, &job.envelope, !self.keyed).map_err(|it| it.with("index", member))?;
            if let Some(refusal) = quota.as_ref().and_then(|quota| quota.refusal.clone()) {
                return Err(refusal.with("index", member));
            }
            let notes = Some(&mut told).filter(|_| place < room);
            let (edits, data) = self.stamp_one(&job.envelope, decision, quota.as_deref(), notes);
            splices.push(edits);
            sent.push(data);
            let (token, probe) = quota.map_or((None, None), |quota| (quota.token, quota.probe));
            tokens.extend(token.map(|token| (place, token)));
            probes.extend(probe);
        }
        // Of a batch that fails from here on, the permission is not given back: it ends by its time.
        probes.iter().for_each(Probe::sent);
        Ok((splices, sent, told, tokens))
    }

    fn stamp_one(
        &self,
        envelope: &Envelope<'_>,
        decision: &Decision,
        quota: Option<&Admitted>,
        told: Option<&mut Vec<Member>>,
    ) -> (Splices, Sent) {
        let stamp = if self.keyed { Stamped::nothing() } else { Stamped::new(self.proxy, envelope, decision.target()) };
        let stamp = stamp.in_shard(self.proxy, envelope);
        let mut room = StampRoom::default();
        let mut additions = stamp.additions(self.proxy, envelope, &mut room);
        additions.due = quota.and_then(Admitted::due);
        let sent = Sent {
            id: additions.id.or(envelope.id()).map(str::to_owned),
            minted: stamp.is_minted(),
            unique: envelope.is_unique(),
            // A restricted job's queue is part of its body: other regions, which are polled, may not hear of it.
            shared_queue: (!decision.restricted).then(|| self.proxy.queues.queue(envelope.queue())),
            reported: of_probe(outlined_bare(self.proxy, self.view, envelope, decision), quota).map(|outline| {
                let federation_id = additions.federation_id.or(envelope.attributes().federation_id.as_deref());
                let sent = outline.reads_sent().then(|| Bytes::copy_from_slice(envelope.raw().as_bytes()));
                Box::new(Reported { outline, federation_id: federation_id.map(str::to_owned), sent })
            }),
        };
        if let Some(told) = told {
            told.push(Member::of(self.view, envelope).sent_as(sent.id.as_deref(), additions.federation_id));
        }
        (splices(envelope, &additions), sent)
    }
}
