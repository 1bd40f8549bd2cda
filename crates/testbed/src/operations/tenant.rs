//! Tenants as the administration sees them.

use std::collections::BTreeMap;

use http::request::Parts;
use http::{Response, StatusCode};

use super::queue::counts_members;
use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::page::Numbered;
use crate::problem::Problem;
use crate::queue::Counts;
use crate::tenant::tenant_of;

/// The jobs of each tenant that has any, by state.
fn counted(context: &Context) -> BTreeMap<String, Counts> {
    let mut tenants: BTreeMap<String, Counts> = BTreeMap::new();
    for job in context.store.lock().all() {
        if let Some(tenant) = tenant_of(&job.envelope) {
            *tenants.entry(tenant).or_default().of_mut(job.state) += 1;
        }
    }
    tenants
}

fn figures(counts: &Counts) -> Object {
    let jobs = counts_members(Object::new(), counts).finish();
    Object::new().number("total_jobs", counts.total()).raw("jobs", &jobs)
}

/// `GET admin/tenants`.
pub(super) fn list(context: &Context, head: &Parts) -> Result<Response<Body>, Problem> {
    let page = Numbered::read(context, head, 25)?;
    let entry = |(id, counts): (String, Counts)| {
        let entry = Object::new().text("id", &id).text("name", &id).raw("stats", &figures(&counts).finish()).finish();
        (id, entry)
    };
    let part = page.part(counted(context).into_iter().map(entry).collect());
    let answer = Object::new().array("items", part.items).raw("pagination", &part.pagination);
    Ok(document(StatusCode::OK, answer.finish()))
}

/// `GET admin/tenants/{id}/stats`. A tenant without jobs has none; nothing else is known of tenants.
pub(super) fn stats(context: &Context, id: &str) -> Response<Body> {
    let counts = counted(context).remove(id).unwrap_or_default();
    let jobs = counts_members(Object::new(), &counts).finish();
    let answer = Object::new().text("tenant_id", id).number("total_jobs", counts.total()).raw("jobs", &jobs);
    document(StatusCode::OK, answer.finish())
}
