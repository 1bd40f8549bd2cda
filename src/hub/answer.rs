//! The answer to a request at the hub.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::access::Caller;
use super::audit_heads;
use super::bodies;
use super::breakers;
use super::copies;
use super::credentials::{Certificate, caller};
use super::drill;
use super::endpoint::{
    DRILLS, Endpoint, INCIDENTS, JOBS, LEDGER_JOBS, MANIFEST, POOLS, PROMOTIONS, REGIONS, REPLAYS, TENANTS,
};
use super::feed::{self, Wants};
use super::figures;
use super::fleet::Refused;
use super::grants;
use super::jobs;
use super::keys;
use super::ledger;
use super::outcomes;
use super::pools;
use super::promotion;
use super::quotas;
use super::record::RecordError;
use super::regions;
use super::replay;
use super::replicas;
use super::response::{Body, LOOK_AGAIN, OUTCOME_UNKNOWN, Refusal, document, empty, events, octets};
use super::returning::are_open;
use super::routing;
use super::state::Hub;
use super::switches;
use super::uwer;
use crate::fleet::{
    FEED_HEADER, Status, WITH_BREAKERS, WITH_DRILLS, WITH_POOLS, WITH_QUOTAS, WITH_REGIONS, WITH_VIEWS, is_name,
};
use crate::net::origin::Page;
use crate::switch::Version;

/// How long a client waits for its change. The change goes on behind that.
const CHANGE_WAIT: Duration = Duration::from_secs(10);
/// For the body of a request to arrive.
const BODY_WAIT: Duration = Duration::from_secs(10);
/// Rows of the audit trail in one answer.
const AUDIT_ROWS_MAX: usize = 1_000;

/// Answers one request of a client that has shown this certificate.
pub(super) async fn answer(hub: Rc<Hub>, certificate: &Certificate, request: Request<Incoming>) -> Response<Body> {
    carried_out(hub, certificate, request).await.unwrap_or_else(Refusal::response)
}

async fn carried_out(
    hub: Rc<Hub>,
    certificate: &Certificate,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let (head, body) = request.into_parts();
    // Browsers show a certificate for any page that asks: no page is a client.
    if Page::of(&head.headers, &[]) != Page::None {
        let message = "a web page sent this request (`Origin`, `Sec-Fetch-Site`), and a hub answers none";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "cross_origin", message.to_owned()));
    }
    let endpoint = Endpoint::of(&head.method, head.uri.path());
    let caller = caller(&hub, certificate, &head.headers);
    let is_permitted = |endpoint: &Endpoint| caller.as_ref().is_ok_and(|caller| caller.may(endpoint.need()));
    let bytes_max = endpoint.as_ref().ok().filter(|it| is_permitted(it)).map_or(0, |it| it.body_bytes_max());
    let is_of_bodies = bytes_max > 0 && endpoint == Ok(Endpoint::TakeBodies);
    let _place = if is_of_bodies { Some(bodies::present(&hub)?.1.place().await?) } else { None };
    // Before any answer, so that a request whose body is malformed is never answered as if it were not.
    let body = received(body, bytes_max).await;
    let caller = caller?;
    let endpoint = endpoint.map_err(|methods| match methods {
        None => Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is no such path at a hub".to_owned()),
        Some(methods) => {
            let message = format!("expected one of the methods {methods}");
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).allowing(methods)
        }
    })?;
    if !caller.may(endpoint.need()) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", caller.lack(endpoint.need())));
    }
    answered(hub, endpoint, caller, &head, body?).await
}

/// Answers a request of a client that has the right to it.
async fn answered(
    hub: Rc<Hub>,
    endpoint: Endpoint,
    caller: Rc<Caller>,
    head: &Parts,
    body: Bytes,
) -> Result<Response<Body>, Refusal> {
    let query = head.uri.query().unwrap_or_default().to_owned();
    Ok(match endpoint {
        Endpoint::Feed => opened_feed(hub, &caller, &query, &head.headers).await?,
        Endpoint::Status => {
            report(&hub, &caller, &body)?;
            empty(StatusCode::NO_CONTENT)
        }
        Endpoint::Reports => {
            outcomes::take(&hub, &caller, &body).await?;
            empty(StatusCode::NO_CONTENT)
        }
        Endpoint::Grants => document(&grants::take(&hub, &caller, &body).await?),
        Endpoint::Limits => document(&grants::list(&hub).await?),
        Endpoint::TakeFigures => {
            figures::take(&hub, &caller, &body)?;
            empty(StatusCode::NO_CONTENT)
        }
        Endpoint::Figures => document(&figures::show(&hub)),
        Endpoint::ClaimKey => document(&keys::claim(&hub, &caller, &body).await?),
        Endpoint::SettleKey => document(&keys::settle(&hub, &caller, &body).await?),
        Endpoint::Outcomes => document(&outcomes::list(&hub, &query).await?),
        Endpoint::Sidecars => {
            let sidecars = hub.fleet.borrow().shown(&hub.current().version, hub.clock.unix_ms());
            let record = if hub.record.is_stuck() { "unreachable" } else { "reached" };
            document(&json!({ "sidecars": sidecars, "record": record }))
        }
        Endpoint::Switches => document(&switches::list(&hub).await?),
        Endpoint::Changes => {
            jobs::take(&hub, &caller, &body).await?;
            empty(StatusCode::NO_CONTENT)
        }
        Endpoint::TakeBodies => {
            bodies::take(&hub, &caller, &body).await?;
            empty(StatusCode::NO_CONTENT)
        }
        Endpoint::ShowBodies => octets(bodies::show(&hub, &caller, &query).await?),
        Endpoint::Index => document(&jobs::show(&hub, &query).await?),
        Endpoint::Copy => document(&copies::show(&hub, &query).await?),
        Endpoint::Job if replicas::is_asked(head.uri.path(), &query) => document(&replicas::list(&hub, &query).await?),
        Endpoint::Job => document(&jobs::look_up(&hub, head.uri.path().strip_prefix(JOBS), &query).await?),
        Endpoint::Promotions => document(&promotion::list(&hub).await?),
        Endpoint::Promotion => document(&promotion::show(&hub, last(head.uri.path(), PROMOTIONS), &query).await?),
        Endpoint::TakeDrill => {
            drill::take(&hub, &caller, &body)?;
            empty(StatusCode::NO_CONTENT)
        }
        Endpoint::Drills => document(&drill::list(&hub).await?),
        Endpoint::Drill => document(&drill::show(&hub, last(head.uri.path(), DRILLS)).await?),
        Endpoint::Regions | Endpoint::Quotas | Endpoint::Pools => document(&put_here(&hub, endpoint).await?),
        Endpoint::Pool => document(&pools::show(&hub, last(head.uri.path(), POOLS)).await?),
        Endpoint::Route => document(&routing::answered(&hub, &body)?),
        Endpoint::LedgerJobs => document(&ledger::list(&hub, &query).await?),
        Endpoint::LedgerJob => document(&ledger::detail(&hub, last(head.uri.path(), LEDGER_JOBS), &query).await?),
        Endpoint::Dashboard => document(&ledger::dashboard(&hub)?),
        Endpoint::DashboardFeed => events(ledger::dashboard_feed(hub)?),
        Endpoint::LedgerDays => document(&ledger::days(&hub, &query).await?),
        Endpoint::LedgerHistory => document(&ledger::history(&hub, &query).await?),
        Endpoint::LedgerHead => document(&ledger::head(&hub, &query).await?),
        Endpoint::Replays => document(&replay::list(&hub, &query).await?),
        Endpoint::ReplayManifest => document(&replay::show_manifest(&hub, name_before_manifest(head), &query).await?),
        Endpoint::Replay => document(&replay::show(&hub, last(head.uri.path(), REPLAYS), &query).await?),
        Endpoint::Incidents => document(&breakers::list(&hub, &query).await?),
        Endpoint::Incident => document(&breakers::show(&hub, last(head.uri.path(), INCIDENTS), &query).await?),
        Endpoint::Audit | Endpoint::AuditHead => document(&audit(&hub, endpoint, &query).await?),
        _ => document(&ordered(&hub, endpoint, caller, (head.uri.path(), query), body).await?),
    })
}

/// The replay in `/api/replays/{id}/manifest`.
fn name_before_manifest(head: &Parts) -> &str {
    let rest = last(head.uri.path(), REPLAYS);
    rest.strip_suffix(MANIFEST).unwrap_or(rest)
}

/// The list of the regions, quotas or pools that operators have put here.
async fn put_here(hub: &Hub, endpoint: Endpoint) -> Result<Value, Refusal> {
    match endpoint {
        Endpoint::Regions => regions::list(hub).await,
        Endpoint::Quotas => quotas::list(hub).await,
        _ => pools::list(hub).await,
    }
}

/// Carries out the order of an operator, and answers with its result.
async fn ordered(
    hub: &Rc<Hub>,
    endpoint: Endpoint,
    caller: Rc<Caller>,
    (path, query): (&str, String),
    body: Bytes,
) -> Result<Value, Refusal> {
    match endpoint {
        Endpoint::CancelJob | Endpoint::ReplayJob | Endpoint::OrderReplay | Endpoint::StopReplay => {
            Box::pin(replay::ordered(hub, endpoint, caller, (path, query), body)).await
        }
        Endpoint::ClaimTask
        | Endpoint::SettleTask
        | Endpoint::UwerTasks
        | Endpoint::KeepLetter
        | Endpoint::Letters
        | Endpoint::Letter
        | Endpoint::DropLetter => uwer::answered(hub, endpoint, &caller, (path, &query), &body).await,
        _ => {
            let order = carry_out(Rc::clone(hub), endpoint, caller, path.to_owned(), query, body);
            in_task(hub, Box::pin(order)).await
        }
    }
}

/// Carries out an order about switches, regions, pools, promotions or drills.
async fn carry_out(
    hub: Rc<Hub>,
    endpoint: Endpoint,
    caller: Rc<Caller>,
    path: String,
    query: String,
    body: Bytes,
) -> Result<Value, Refusal> {
    let (id, name) = (last(&path, REGIONS), last(&path, POOLS));
    match endpoint {
        Endpoint::SetSwitch => switches::set(hub, &caller, &query).await,
        Endpoint::EndSwitch => switches::end(hub, &caller, &query).await,
        Endpoint::PutRegion => regions::put(hub, &caller, id, &query, &body).await,
        Endpoint::DeleteRegion => regions::delete(hub, &caller, id, &query).await,
        Endpoint::PutQuotas => quotas::put(hub, &caller, &query, &body).await,
        Endpoint::PutPool => pools::put(hub, &caller, name, &query, &body).await,
        Endpoint::DeletePool => pools::delete(hub, &caller, name, &query).await,
        Endpoint::Promote => promotion::promote(hub, &caller, &query).await,
        Endpoint::StopPromotion => promotion::stop(hub, last(&path, PROMOTIONS), &query).await,
        Endpoint::OrderDrill => drill::order(hub, &caller, &query).await,
        Endpoint::ForgetTenant => ledger::forget(hub, &caller, last(&path, TENANTS), &query).await,
        Endpoint::StopDrill => drill::stop(hub, &caller, last(&path, DRILLS)).await,
        _ if !query.is_empty() => {
            Err(Refusal::bad_request("expected no query: the members of the body say it all".to_owned()))
        }
        Endpoint::CloseIncident => {
            let id = last(&path, INCIDENTS).trim_end_matches("/close");
            Box::pin(breakers::close(&hub, &caller, id, &body)).await
        }
        _ => switches::throttle(hub, &caller, &body).await,
    }
}

/// The part of a path behind its beginning.
fn last<'p>(path: &'p str, before: &str) -> &'p str {
    path.strip_prefix(before).unwrap_or_default()
}

/// Carries out a change to its end, also when its client disconnects or the disk takes long.
async fn in_task(hub: &Hub, change: Pin<Box<dyn Future<Output = Result<Value, Refusal>>>>) -> Result<Value, Refusal> {
    let place = Arc::clone(&hub.places).try_acquire_owned().map_err(|_| Refusal::unchanged(RecordError::Busy))?;
    let task = tokio::task::spawn_local(async move {
        let _place = place;
        change.await
    });
    match tokio::time::timeout(CHANGE_WAIT, task).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => {
            let message = "a defect ended this change; read the log, and list the switches to see what was changed";
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message.to_owned()))
        }
        Err(_) => {
            let wait = CHANGE_WAIT.as_secs();
            let message = format!("the record did not answer within {wait} s: {LOOK_AGAIN}");
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, OUTCOME_UNKNOWN, message))
        }
    }
}

async fn opened_feed(
    hub: Rc<Hub>,
    caller: &Caller,
    query: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Refusal> {
    let name = query.strip_prefix("sidecar=").map(crate::ojs::query_text).filter(|name| is_name(name));
    let name = name.ok_or_else(|| {
        Refusal::bad_request(
            "`sidecar`: expected the name of the sidecar in the query, 1 to 128 bytes of visible ASCII".to_owned(),
        )
    })?;
    if !are_open(&hub).await {
        let message =
            "this hub has just begun, and hears the hubs of other regions first (`index.return_wait`)".to_owned();
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_heard", message));
    }
    let known = headers.get("last-event-id").and_then(|id| Version::parse(id.to_str().ok()?));
    // The sidecar may come from another hub with a state that this one has not read yet, also where it names none.
    let is_other = known.as_ref() != Some(&hub.current().version);
    if hub.record.is_behind() || (is_other && hub.refresh_in_time().await.is_err()) {
        let message = "the record does not answer, and this hub may lack switches that others have set".to_owned();
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", message));
    }
    let wants = |word: &str| headers.get_all(FEED_HEADER).iter().any(|wanted| wanted == word);
    let wants = Wants {
        views: wants(WITH_VIEWS),
        regions: wants(WITH_REGIONS),
        pools: wants(WITH_POOLS),
        drills: wants(WITH_DRILLS),
        quotas: wants(WITH_QUOTAS),
        breakers: wants(WITH_BREAKERS),
    };
    Ok(events(feed::body(hub, caller, name, known, wants)))
}

/// The whole body of a request, at most so many bytes.
async fn received(body: Incoming, bytes_max: usize) -> Result<Bytes, Refusal> {
    let body = tokio::time::timeout(BODY_WAIT, Limited::new(body, bytes_max).collect()).await;
    let body = body.map_err(|_| Refusal::bad_request("the body did not arrive in time".to_owned()))?;
    let body = body.map_err(|error| {
        Refusal::bad_request(format!(
            "the body cannot be read, of which {bytes_max} bytes are expected at most: {error}"
        ))
    })?;
    Ok(body.to_bytes())
}

fn report(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<(), Refusal> {
    let mut status: Status = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("expected the status of a sidecar: {error}")))?;
    if let Some(mistake) = status.mistake() {
        return Err(Refusal::bad_request(mistake.to_owned()));
    }
    // The inventory has no use for them.
    let queues = std::mem::take(&mut status.queues);
    let taken = hub.fleet.borrow_mut().report(caller, status, hub.clock.unix_ms());
    if taken.is_ok()
        && let Some(views) = &hub.views
    {
        views.note_queues(&queues);
    }
    taken.map_err(|refused| match refused {
        Refused::Region => {
            let message = format!("`local_region`: the rule of `{}` in `access` is for another region", caller.name);
            Refusal::new(StatusCode::FORBIDDEN, "forbidden", message)
        }
        Refused::Name => {
            let message = "`name`: a sidecar with another certificate has this name; set another `hub.name`".to_owned();
            Refusal::new(StatusCode::CONFLICT, "name_taken", message)
        }
        Refused::Full => {
            let message =
                "the inventory is full of sidecars that hold a feed; run a further hub for some of them".to_owned();
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "inventory_full", message)
        }
    })
}

/// A signed head of the audit trail; else its rows behind `after`, and whether there are more.
async fn audit(hub: &Hub, endpoint: Endpoint, query: &str) -> Result<Value, Refusal> {
    if endpoint == Endpoint::AuditHead {
        return audit_heads::head(hub).await;
    }
    let after = match query.strip_prefix("after=") {
        Some(number) => number.parse::<u64>().ok(),
        None => query.is_empty().then_some(0),
    };
    let after = after.ok_or_else(|| {
        Refusal::bad_request("`after`: expected the number of a row, and no other parameter".to_owned())
    })?;
    let mut rows = hub.record.audit(after, AUDIT_ROWS_MAX + 1).await?;
    let more = rows.len() > AUDIT_ROWS_MAX;
    rows.truncate(AUDIT_ROWS_MAX);
    Ok(json!({ "rows": rows, "more": more }))
}
