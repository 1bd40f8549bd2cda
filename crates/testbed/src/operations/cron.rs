//! Cron jobs over HTTP. The documents and the public cases (with the servers in Go) name the same members differently;
//! a region that follows the documents answers by both names.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::parts::job_answer;
use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::cron::{CronJob, Plan};
use crate::dialect::Dialect;
use crate::members::{Invalid, Members};
use crate::page::{LISTS, Page};
use crate::problem::Problem;
use crate::query::parameter;
use crate::routes::Route;

/// Serves the paths of cron jobs. Servers in Go know three of these calls.
pub(super) fn serve(
    context: &Context,
    method: &str,
    route: Route,
    head: &Parts,
    body: &Bytes,
) -> Result<Response<Body>, Problem> {
    let in_spec = context.reading.dialect == Dialect::Spec;
    match (method, route) {
        ("POST", Route::Crons) => register(context, body),
        ("GET", Route::Crons) => list(context, head),
        ("GET", Route::Cron(name)) if in_spec => {
            let mut store = context.store.lock();
            store.cron(&name).map(|cron| answer(context, StatusCode::OK, cron)).ok_or(Problem::NoSuch("cron", name))
        }
        ("PATCH", Route::Cron(name)) if in_spec => {
            let rule = "is true or false";
            let enabled = Members::parse(body)?.read("enabled", rule)?.ok_or(Invalid::Member("enabled", rule))?;
            enable(context, name, enabled)
        }
        ("POST", Route::CronPause(name, paused)) => enable(context, name, !paused),
        ("POST", Route::CronTrigger(name)) => {
            let mut store = context.store.lock();
            let job = store.trigger_cron(&name).map(|job| job_answer(StatusCode::CREATED, job));
            job.ok_or(Problem::NoSuch("cron", name))
        }
        ("DELETE", Route::Cron(name)) => {
            let cron = context.store.lock().remove_cron(&name).ok_or_else(|| Problem::NoSuch("cron", name.clone()))?;
            let object = if in_spec { Object::new().flag("deleted", true).text("name", &name) } else { Object::new() };
            Ok(document(StatusCode::OK, named(object, &cron.document(context.reading.dialect), in_spec).finish()))
        }
        _ => Err(Problem::Method),
    }
}

/// The cron job under the name, or the names, that it has in answers.
fn named(object: Object, cron: &str, in_spec: bool) -> Object {
    if in_spec { object.raw("cron_job", cron).raw("cron", cron) } else { object.raw("cron", cron) }
}

fn answer(context: &Context, status: StatusCode, cron: &CronJob) -> Response<Body> {
    let dialect = context.reading.dialect;
    document(status, named(Object::new(), &cron.document(dialect), dialect == Dialect::Spec).finish())
}

fn register(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let plan = Plan::read(body, &context.reading)?;
    let mut store = context.store.lock();
    let (is_new, cron) = store.register(plan).ok_or(Problem::TooManyCrons)?;
    // Servers in Go do not distinguish a new one from an existing one.
    let is_new = is_new || context.reading.dialect.in_go();
    let answer = answer(context, if is_new { StatusCode::CREATED } else { StatusCode::OK }, cron);
    store.define("cron", body.clone());
    Ok(answer)
}

fn enable(context: &Context, name: String, enabled: bool) -> Result<Response<Body>, Problem> {
    let mut store = context.store.lock();
    let cron = store.enable_cron(&name, enabled).map(|cron| answer(context, StatusCode::OK, cron));
    cron.ok_or(Problem::NoSuch("cron", name))
}

fn list(context: &Context, head: &Parts) -> Result<Response<Body>, Problem> {
    let dialect = context.reading.dialect;
    let mut store = context.store.lock();
    if dialect.in_go() {
        let all = store.crons().into_iter().map(|cron| cron.document(dialect));
        return Ok(document(StatusCode::OK, Object::new().array("crons", all).finish()));
    }
    let enabled = parameter(&head.uri, "enabled").map(|text| text == "true");
    let wanted = |cron: &&CronJob| enabled.is_none_or(|enabled| cron.plan.enabled == enabled);
    let list = store.crons().into_iter().filter(wanted).map(|cron| (cron.plan.name.clone(), cron)).collect();
    let part = Page::read(context, head, LISTS)?.part(list);
    let shown: Vec<String> = part.items.into_iter().map(|cron| cron.document(dialect)).collect();
    let object = Object::new().array("cron_jobs", shown.iter().cloned()).number("count", shown.len());
    Ok(document(StatusCode::OK, object.array("crons", shown).raw("pagination", &part.pagination).finish()))
}
