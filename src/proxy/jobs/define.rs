//! Workflows and cron jobs that are created or changed: whole to one region, which will create their jobs by itself.
//!
//! A pin anywhere within binds the whole definition, because its region creates the jobs later by itself.

mod noted;

use crate::net::IncomingBody;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};

use self::noted::Defined;
use super::create::{run_whole, to_region};
use crate::ojs::header::IDEMPOTENCY_KEY;
use crate::ojs::{ErrorDocument, Found, Operation, Splices, answer, jobs_within};
use crate::policy::{Decision, Demand, RegionIndex, View};
use crate::proxy::{
    body::collect,
    call::{
        exchange::Exchange,
        head::{Head, read, tenant_of},
    },
    locate::place::{Placed, Subject, place},
    routing::{
        asked::AskedHub,
        plan::{StampRoom, Stamped},
        several::{Whole, check_each},
    },
    state::{Proxy, Ran, RegionAnswer, Reply},
};

/// Answers a call that creates or changes a workflow or a cron job.
///
/// Errors: 400 for parts that are bound to different regions; 409 for a cron job whose name exists in another region;
/// else as for an enqueue.
pub(crate) async fn define(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    exchange.attempts = Some(0);
    let method = request.method().clone();
    let named = exchange.matched.named_in(request.uri().path());
    let (head, body) = read(proxy, exchange, request).await?;
    let mut noted = Defined::begin(proxy, exchange, &named, &body);
    let goes = goes(proxy, exchange, &head, (&body, &named), &mut noted).await;
    let answer = match goes {
        Ok(goes) => send(proxy, exchange, (head, method, body), goes, &mut noted).await,
        Err(document) => {
            noted.read(proxy, &body);
            Err(document)
        }
    };
    noted.keep(proxy, exchange, &answer);
    answer
}

/// The region of a definition, by its content and by the region where it exists.
async fn goes(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    (body, named): (&Bytes, &str),
    noted: &mut Defined,
) -> Result<Goes, ErrorDocument> {
    let tenant = tenant_of(exchange, &head.headers)?;
    let tenant = tenant.as_deref();
    match exchange.matched.operation {
        Operation::CronWrite => {
            let target = {
                let found = found(proxy, body, tenant)?;
                let view = proxy.shared.registry.view();
                Target::of(&view, &Whole::of(&view, body, &found)?.demand)
            };
            let addressed = !named.is_empty();
            cron_region(proxy, exchange, head, noted.name.as_deref(), addressed, target).await
        }
        _ if named.is_empty() => decide(proxy, body, tenant, noted).await,
        _ => changed_workflow(proxy, exchange, head, (body, tenant), named, noted).await,
    }
}

/// Where a definition goes.
enum Goes {
    /// As routing has decided.
    Routed(Decision),
    /// To the region where it lives, or is to live.
    To(RegionIndex),
    /// Nowhere: a region that must be asked for it has said no.
    Said(RegionIndex, RegionAnswer),
}

fn found<'b>(proxy: &Proxy, body: &'b Bytes, tenant: Option<&'b str>) -> Result<Found<'b>, ErrorDocument> {
    let depth_max = proxy.shared.config.limits.json_depth;
    let mut found = jobs_within(body, depth_max).map_err(|fault| ErrorDocument::from_fault(&fault))?;
    found.set_caller_tenant(tenant);
    check_each(&proxy.shared, &proxy.shared.registry.view(), found.envelopes.iter())?;
    Ok(found)
}

/// The definition with a tracking id in each job that it defines: step, callback or template. Everything else stays as it was.
///
/// The region makes the jobs, so all runs of a template share its id. A definition with an `Idempotency-Key` is not stamped: a
/// region refuses the key with another body.
fn stamped(proxy: &Proxy, body: Bytes, has_key: bool, noted: &mut Defined) -> Result<Bytes, ErrorDocument> {
    let whole = {
        let depth_max = proxy.shared.config.limits.json_depth;
        let found = jobs_within(&body, depth_max).map_err(|fault| ErrorDocument::from_fault(&fault))?;
        let view = proxy.shared.registry.view();
        let mut stamps: Vec<Splices> = Vec::new();
        for job in found.envelopes.iter().filter(|envelope| envelope.is_job()) {
            let stamp = if has_key { Stamped::nothing() } else { Stamped::without_id(proxy, job) };
            let mut room = StampRoom::default();
            noted.job(&view, job, stamp.additions(proxy, job, &mut room).federation_id);
            stamps.push(stamp.splices(proxy, job));
        }
        if has_key { None } else { Splices::apply_all(&stamps, &body) }
    };
    Ok(whole.map_or(body, |whole| collect::hold(proxy, whole)))
}

/// Decides for a workflow as for one flexible job that may go wherever all of it may.
async fn decide(proxy: &Proxy, body: &Bytes, tenant: Option<&str>, noted: &mut Defined) -> Result<Goes, ErrorDocument> {
    let mut asked = AskedHub::of_call(true);
    loop {
        let decided = {
            let found = found(proxy, body, tenant)?;
            let view = proxy.shared.registry.view();
            Whole::of(&view, body, &found)?.decide(proxy, &view, &found, &mut asked, &mut noted.course)
        };
        if !asked.wait(proxy).await {
            return decided.map(Goes::Routed);
        }
    }
}

/// A workflow that exists is changed where it lives; one that does not is decided for like a new one.
async fn changed_workflow(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    (body, tenant): (&Bytes, Option<&str>),
    id: &str,
    noted: &mut Defined,
) -> Result<Goes, ErrorDocument> {
    let demand = {
        let found = found(proxy, body, tenant)?;
        let view = proxy.shared.registry.view();
        Whole::of(&view, body, &found)?.demand
    };
    match place(proxy, exchange, &head.headers, Subject::Workflow, id).await {
        Placed::At(index) => at(proxy, index, &demand),
        Placed::Nowhere => decide(proxy, body, tenant, noted).await,
        Placed::Hidden(index, answer) | Placed::Refused(index, answer) => Ok(Goes::Said(index, answer)),
        Placed::Unsure(document) => Err(document),
    }
}

/// The region where a definition exists, if the new content may go there.
fn at(proxy: &Proxy, index: RegionIndex, demand: &Demand) -> Result<Goes, ErrorDocument> {
    if demand.regions.contains(index) {
        return Ok(Goes::To(index));
    }
    Err(ErrorDocument::bound_elsewhere(proxy.region(index).id.as_str()))
}

/// Where a cron job goes: its pin, else its tenant's home, else the local region where that is permitted, else the first that is, so that
/// a repeated registration always means the same region. The region creates the jobs, so no strategy has a say.
#[derive(Debug)]
struct Target {
    region: RegionIndex,
    demand: Demand,
}

impl Target {
    fn of(view: &View, demand: &Demand) -> Self {
        let local = Some(view.local).filter(|&local| demand.regions.contains(local));
        let region = demand.home().or(local).or_else(|| demand.regions.iter().next()).unwrap_or(view.local);
        Self { region, demand: demand.clone() }
    }
}

/// The region of a cron job, once it is clear that no other one has its name.
///
/// `addressed`: the path names the cron job, so that the call means the one that is there, wherever it is permitted to be.
async fn cron_region(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    name: Option<&str>,
    addressed: bool,
    target: Target,
) -> Result<Goes, ErrorDocument> {
    let Target { region, demand } = target;
    // Without a name the region answers with its own error.
    let Some(name) = name else { return at(proxy, region, &demand) };
    match place(proxy, exchange, &head.headers, Subject::Cron { first: region, quiet: true }, name).await {
        Placed::At(index) if index == region => {}
        Placed::At(index) if addressed && demand.regions.contains(index) => return at(proxy, index, &demand),
        Placed::At(index) => {
            let id = &proxy.region(index).id;
            exchange.region = Some(id.clone());
            return Err(ErrorDocument::cron_elsewhere(id.as_str()));
        }
        Placed::Nowhere => {}
        Placed::Hidden(index, answer) | Placed::Refused(index, answer) => return Ok(Goes::Said(index, answer)),
        Placed::Unsure(document) => return Err(document),
    }
    at(proxy, region, &demand)
}

async fn send(
    proxy: &Proxy,
    exchange: &mut Exchange,
    (head, method, body): (Head, Method, Bytes),
    goes: Goes,
    noted: &mut Defined,
) -> Result<Response<Reply>, ErrorDocument> {
    let body = stamped(proxy, body, head.headers.contains_key(IDEMPOTENCY_KEY), noted)?;
    let mut note = Some(std::mem::take(&mut noted.course));
    let answer = match goes {
        Goes::Routed(decision) => {
            exchange.strategy = Some(decision.strategy);
            let ran = run_whole(proxy, exchange, (head, method, body), decision, &mut note).await;
            if let Some((index, id)) = workflow_made(exchange, &ran) {
                proxy.shared.owners.learn(&id, &proxy.region(index).id);
                noted.name = Some(id);
            }
            ran.result.map(Into::into)
        }
        Goes::To(index) => to_region(proxy, exchange, index, (head, method, body), &mut note).await,
        Goes::Said(index, answer) => {
            exchange.region = Some(proxy.region(index).id.clone());
            Ok(answer.into())
        }
    };
    noted.course = note.unwrap_or_default();
    answer
}

/// The workflow that a region has made, with its id.
fn workflow_made(exchange: &Exchange, ran: &Ran) -> Option<(RegionIndex, String)> {
    let (Operation::WorkflowWrite, Some(index), Ok(answer)) = (exchange.matched.operation, ran.stored, &ran.result)
    else {
        return None;
    };
    let is_made = matches!(answer.status, StatusCode::OK | StatusCode::CREATED);
    Some(index).filter(|_| is_made).zip(answer::workflow_id_of(&answer.body))
}
