//! From a body to a plan: the job's demands, its regions, and its bytes on the wire.
//!
//! Live enqueues and the dry run both come through here, so that they cannot disagree.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderValue;

use super::asked::{AskedHub, decided, explained};
use super::described::outlined;
use super::paused::check_source;
use super::quota::{Admitted, admit};
use super::refused::nowhere;
pub(crate) use super::refused::{breaker_word, refusal, refused};
use super::tracking_id;
pub(crate) use super::with_job::{with_job, with_word};
use crate::base::text;
use crate::config::{ClientReplicatedFrom, Stamp, UnknownKeys};
use crate::journal::Note;
use crate::ojs::{
    self, Abridged, Additions, Cuts, Envelope, ErrorDocument, Fault, Segments, StampedBody, Uuid7, Uuid7Room, hint,
};
use crate::policy::{
    self, DecidedBy, Decision, Explanation, Job, PermittedRegions, RegionIndex, RouteError, TENANT_KEY, View,
};
use crate::proxy::{
    call::{feedback::source, notes},
    state::{Ours, OwnTracking, Proxy, Shard, Shared, Spooling, refuse_shard},
};
use crate::region::Queue;
use crate::replica::Outline;
use crate::telemetry::event;
use crate::telemetry::span::{self, span};

/// An enqueue that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Where it may go, in order.
    pub(crate) decision: Decision,
    /// The body, stamped.
    pub(crate) body: Segments,
    /// Where the stamp stands in a body that was copied for it.
    pub(crate) cuts: Option<Cuts>,
    /// The job's id, the client's or the minted one; none where minting is off and the client sent none.
    pub(crate) job_id: Option<String>,
    /// The parts that we added.
    pub(crate) ours: Ours,
    /// The tracking id, the client's or ours, as a header.
    pub(crate) federation_id: Option<HeaderValue>,
    /// The queue, where other regions may be asked about it.
    pub(crate) shared_queue: Option<Queue>,
    /// Its job type, as the possible cause of a 500.
    pub(crate) source: u64,
    /// Its outline for the hub, where that gets one.
    pub(crate) outline: Option<Outline>,
    /// For the index of the hub, where that is asked whether the job is there already.
    pub(crate) own_tracking: Option<Box<OwnTracking>>,
    /// For the outage spool, where its queue is spooled.
    pub(crate) spooling: Option<Box<Spooling>>,
    /// Its part in a quota, where one counts it.
    pub(crate) quota: Option<Box<Admitted>>,
}

/// A document lists at most so many keys of each place; a person looks at the first few.
const KEYS_MAX: usize = 16;

/// The result that a live call would get, for the dry run.
#[derive(Debug)]
pub struct DryRun {
    /// The decision with its reasons.
    pub explanation: Explanation,
    /// The picture of the regions that decided.
    pub decided_by: DecidedBy,
    /// The error document of a live call, where it would be refused.
    pub refusal: Option<ErrorDocument>,
    /// The undefined keys under `ojs.federation.`, which bind nothing; at most `KEYS_MAX` of each place.
    pub unknown_keys: Vec<String>,
}

/// Decides as a live enqueue of this body would be decided, moving no counter. `tenant`: the one that the head of the
/// call names.
///
/// Errors: the error document of a live call for a body that is no job.
pub async fn dry_run(proxy: &Proxy, body: &[u8], tenant: Option<&str>) -> Result<DryRun, ErrorDocument> {
    let mut asked = AskedHub::default();
    loop {
        let run = dry_run_once(proxy, body, tenant, &mut asked)?;
        if !asked.wait(proxy).await {
            return Ok(run);
        }
    }
}

fn dry_run_once(
    proxy: &Proxy,
    body: &[u8],
    tenant: Option<&str>,
    asked: &mut AskedHub,
) -> Result<DryRun, ErrorDocument> {
    let shared = &proxy.shared;
    let (mut read, view) = (read(shared, body), shared.registry.view());
    let envelope = accepted(shared, &view, of_tenant(&mut read, tenant))?;
    let (explanation, decided_by) = with_job(envelope, |job| explained(proxy, &view, job, asked));
    let refusal = explanation.outcome.as_ref().err().map(|error| refusal(envelope, &view, error));
    let unknown_keys = envelope.unknown_key_names(KEYS_MAX).into_iter().map(Cow::into_owned).collect();
    Ok(DryRun { explanation, decided_by, refusal, unknown_keys })
}

/// Whether the hub, which is that of the local region, may have the bytes of a job with this body: the rules and its tenant permit the local region, and
/// it is not pinned.
#[must_use]
pub fn may_be_at_hub(proxy: &Proxy, body: &[u8], tenant: Option<&str>) -> bool {
    let shared = &proxy.shared;
    let (mut read, view) = (read(shared, body), shared.registry.view());
    let Ok(envelope) = accepted(shared, &view, of_tenant(&mut read, tenant)) else { return false };
    match with_job(envelope, |job| policy::permitted_regions(&view, job)) {
        Some(PermittedRegions::Every) => true,
        Some(PermittedRegions::Only(regions)) => {
            regions.into_iter().any(|index| view.region(index).id == shared.config.local_region)
        }
        None => false,
    }
}

/// Plans an enqueue. Sets `planned` to the strategy, also where no region was found, and notes the grounds. Takes a
/// turn of `round-robin` and counts a client's `replicated_from`. Where `asked` lacks an answer of the hub then, the result is of no meaning.
///
/// Errors: the error document for the client; nothing was sent.
pub(crate) fn plan(
    proxy: &Proxy,
    body: &Bytes,
    tenant: Option<&str>,
    asked: &mut AskedHub,
    planned: &mut Option<crate::base::Strategy>,
    note: &mut Option<Box<Note>>,
) -> Result<Planned, ErrorDocument> {
    proxy.with_view(|view| {
        let mut read = read(&proxy.shared, body);
        plan_read(proxy, (view, asked), of_tenant(&mut read, tenant), Abridged::whole(body), planned, note)
    })
}

/// As [`plan`]; `None`, and nothing is counted, where the plan needs the segments that were cut out of the body.
pub(crate) fn plan_abridged(
    proxy: &Proxy,
    body: Abridged<'_>,
    tenant: Option<&str>,
    asked: &mut AskedHub,
    planned: &mut Option<crate::base::Strategy>,
    note: &mut Option<Box<Note>>,
) -> Option<Result<Planned, ErrorDocument>> {
    proxy.with_view(|view| {
        let mut envelope = read_abridged(proxy, view, body)?;
        envelope.set_caller_tenant(tenant);
        Some(plan_read(proxy, (view, asked), &Ok(envelope), body, planned, note))
    })
}

#[inline]
fn plan_read(
    proxy: &Proxy,
    (view, asked): (&View, &mut AskedHub),
    read: &Result<Envelope<'_>, Fault>,
    body: Abridged<'_>,
    planned: &mut Option<crate::base::Strategy>,
    note: &mut Option<Box<Note>>,
) -> Result<Planned, ErrorDocument> {
    let shared = &proxy.shared;
    let envelope = accepted(shared, view, read)?;
    if asked.is_first() {
        count_reserved(shared, envelope);
    }
    let note = note.insert(proxy.notes.begin());
    let grounds = &mut note.grounds;
    let route = |job: &Job<'_>| decided(proxy, view, job, None, asked, grounds);
    let routed =
        if span::is_on() { span!("decide").in_scope(|| with_job(envelope, route)) } else { with_job(envelope, route) };
    notes::write_down(proxy, view, envelope, &routed, note);
    *planned = routed.as_ref().map_or_else(RouteError::strategy, |decision| Some(decision.strategy));
    let mut spooling = shared.spool.as_deref().and_then(|spool| Spooling::of(spool, envelope));
    let decision = match (routed, spooling.as_deref_mut()) {
        (Ok(decision), _) => decision,
        // The job is planned all the same, for no region.
        (Err(error), Some(spooling)) if error.is_temporary() => {
            spooling.refusal = Some(refusal(envelope, view, &error));
            nowhere(envelope, &error)
        }
        (Err(error), _) => return Err(refusal(envelope, view, &error)),
    };
    let (quota, rule) = (admit(proxy, envelope, true)?, note.grounds.rule);
    Ok(Planned { spooling, ..stamped(proxy, view, envelope, body, (decision, rule), quota) })
}

type Read<'b> = Result<Envelope<'b>, Fault>;

/// Reads a job. Called by [`accepted`] only.
fn read<'b>(shared: &Shared, body: &'b [u8]) -> Read<'b> {
    Envelope::read(body, shared.config.limits.json_depth)
}

/// Notes the tenant that the call's head names, with the job where it is: to hand it on is to copy it.
fn of_tenant<'e, 'b>(read: &'e mut Read<'b>, tenant: Option<&'b str>) -> &'e Read<'b> {
    read.iter_mut().for_each(|envelope| envelope.set_caller_tenant(tenant));
    read
}

fn read_abridged<'b>(proxy: &Proxy, view: &View, body: Abridged<'b>) -> Option<Envelope<'b>> {
    Envelope::read_abridged(body, proxy.shared.config.limits.json_depth, |key| {
        view.settings.reads_meta(key) || (key == TENANT_KEY && proxy.shared.reads_tenants())
    })
}

/// The job that was read, unless it is none or the operator's switches refuse it. Looked at where it is: to hand it on is to copy it.
fn accepted<'e, 'b>(shared: &Shared, view: &View, read: &'e Read<'b>) -> Result<&'e Envelope<'b>, ErrorDocument> {
    let envelope = read.as_ref().map_err(ErrorDocument::from_fault)?;
    check_source(view, envelope)?;
    check_reserved(shared, envelope)?;
    refuse_shard(shared.shards.as_deref(), envelope.queue())?;
    Ok(envelope)
}

/// The operator's switches for keys under `ojs.federation.` that clients do not set, or that are not defined.
///
/// Errors: 400 where a switch refuses one.
#[inline]
pub(crate) fn check_reserved(shared: &Shared, envelope: &Envelope<'_>) -> Result<(), ErrorDocument> {
    let compat = &shared.config.compat;
    if envelope.attributes().replicated_from.is_some() && compat.client_replicated_from == ClientReplicatedFrom::Reject
    {
        return Err(ErrorDocument::client_replicated_from());
    }
    if envelope.unknown_keys() > 0 && compat.unknown_federation_keys == UnknownKeys::Reject {
        return Err(ErrorDocument::unknown_federation_keys(&envelope.unknown_key_names(KEYS_MAX)));
    }
    Ok(())
}

/// Counts the keys that [`check_reserved`] has accepted.
#[inline]
pub(crate) fn count_reserved(shared: &Shared, envelope: &Envelope<'_>) {
    if envelope.attributes().replicated_from.is_some() {
        shared.metrics.client_replicated_from.inc();
    }
    if envelope.unknown_keys() > 0 {
        let logged = shared.config.compat.unknown_federation_keys == UnknownKeys::Warn;
        event::unknown_federation_keys(&shared.metrics, envelope.unknown_keys().into(), logged);
    }
}

fn stamped(
    proxy: &Proxy,
    view: &View,
    envelope: &Envelope<'_>,
    body: Abridged<'_>,
    (decision, rule): (Decision, Option<u16>),
    quota: Option<Box<Admitted>>,
) -> Planned {
    let stamp = Stamped::new(proxy, envelope, decision.target()).in_shard(proxy, envelope);
    let mut room = StampRoom::default();
    let mut additions = stamp.additions(proxy, envelope, &mut room);
    additions.due = quota.as_deref().and_then(Admitted::due);
    let own = envelope.attributes().federation_id.as_deref();
    let is_sharded = stamp.shard.is_some();
    let StampedBody { body, cuts } = ojs::stamp(envelope, body, &additions);
    Planned {
        body,
        cuts,
        ours: Ours {
            minted: stamp.is_minted(),
            stamped: stamp.federation_id.is_some(),
            unique: envelope.is_unique(),
            hinted: stamp.hinted,
        },
        job_id: additions.id.or(envelope.id()).map(str::to_owned),
        federation_id: match stamp.federation_id {
            Some(_) => additions.federation_id.and_then(tracking_id::minted),
            None => own.and_then(tracking_id::shown),
        },
        // A restricted job's queue is part of its body: other regions, which are polled for their queues, may not hear of it.
        shared_queue: (!decision.restricted).then(|| proxy.queues.queue(envelope.queue())),
        source: source(envelope.job_type().unwrap_or_default()),
        outline: of_probe(outlined(proxy, view, envelope, (&decision, rule), is_sharded), quota.as_deref()),
        own_tracking: own.and_then(|own| OwnTracking::of(&proxy.shared, envelope, own)),
        spooling: None,
        quota,
        decision,
    }
}

/// The outline of a job with the permission of a half-open breaker that it goes by.
pub(crate) fn of_probe(outline: Option<Outline>, quota: Option<&Admitted>) -> Option<Outline> {
    match quota.and_then(|quota| quota.probe.as_ref()) {
        Some(probe) => outline.map(|it| it.of_trial(probe.name())),
        None => outline,
    }
}

/// The minted parts of a job, by the operator's switches.
pub(crate) struct Stamped<'p> {
    id: Option<Uuid7>,
    federation_id: Option<Uuid7>,
    routed_at: Option<String>,
    /// Whether the id carries a hint of its region.
    hinted: bool,
    /// Whether the job gets meta keys at all.
    marks: bool,
    shard: Option<Box<Shard<'p>>>,
}

/// Room for the texts of the minted parts.
#[derive(Default)]
pub(crate) struct StampRoom {
    id: Uuid7Room,
    federation_id: Uuid7Room,
}

impl<'p> Stamped<'p> {
    pub(crate) fn new(proxy: &Proxy, envelope: &Envelope<'_>, target: Option<RegionIndex>) -> Self {
        let (shared, routing) = (&proxy.shared, &proxy.shared.config.routing);
        let unix_ms = shared.registry.clock().unix_ms_about();
        let marks = match routing.stamp {
            Stamp::Always => true,
            Stamp::FederatedOnly => envelope.is_federated(),
            Stamp::Never => false,
        } && !envelope.fingerprints_meta();
        let mint = || Uuid7::new(unix_ms, proxy.random.uuid_bits());
        let minted: Option<Uuid7> = (routing.mint_id && envelope.lacks_id()).then(mint);
        let target = target.filter(|_| routing.id_hint);
        let hinted = minted.zip(target).map(|(id, index)| hint::give(id, proxy.region(index).id.as_str()));
        Self {
            id: hinted.or(minted),
            hinted: hinted.is_some(),
            federation_id: (marks && envelope.attributes().federation_id.is_none()).then(mint),
            routed_at: (marks && routing.stamp_origin).then(|| text::rfc3339(unix_ms)),
            marks,
            shard: None,
        }
    }

    /// The same for a job that goes into a shard of its queue, where that has any.
    pub(crate) fn in_shard(mut self, proxy: &'p Proxy, envelope: &Envelope<'_>) -> Self {
        if let Some(shards) = &proxy.shared.shards {
            self.shard = Shard::of(shards, envelope).map(Box::new);
        }
        self
    }

    /// As [`Stamped::new`] for a job of a definition, whose `id` is a name within the definition.
    pub(crate) fn without_id(proxy: &Proxy, envelope: &Envelope<'_>) -> Self {
        Self { id: None, hinted: false, ..Self::new(proxy, envelope, None) }
    }

    /// The edits of the stamp in the body that the job was read from.
    pub(crate) fn splices(&self, proxy: &Proxy, envelope: &Envelope<'_>) -> ojs::Splices {
        let mut room = StampRoom::default();
        ojs::splices(envelope, &self.additions(proxy, envelope, &mut room))
    }

    /// Nothing: for a job that must look the same whenever it is sent.
    pub(crate) const fn nothing() -> Self {
        Self { id: None, federation_id: None, routed_at: None, hinted: false, marks: false, shard: None }
    }

    pub(crate) fn additions<'a>(
        &'a self,
        proxy: &'a Proxy,
        envelope: &'a Envelope<'_>,
        room: &'a mut StampRoom,
    ) -> Additions<'a> {
        let own = envelope.attributes().federation_id.as_deref();
        let minted = self.federation_id.map(|id| id.text(&mut room.federation_id));
        Additions {
            id: self.id.map(|id| id.text(&mut room.id)),
            federation_id: minted.or(own.filter(|_| self.marks)),
            source_region: self.routed_at.as_ref().map(|_| proxy.shared.config.local_region.as_str()),
            routed_at: self.routed_at.as_deref(),
            shard: self.shard.as_deref().map(Shard::addition),
            due: None,
        }
    }

    /// Whether the id was minted, so that no other job can have it.
    pub(crate) const fn is_minted(&self) -> bool {
        self.id.is_some()
    }
}
