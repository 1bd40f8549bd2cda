//! One operation on many jobs, named by their ids or meant by a filter.

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::act::Act;
use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::filter::Filter;
use crate::members::{Invalid, Members};
use crate::problem::Problem;
use crate::refused::Refused;
use crate::store::Store;

/// The most jobs that one request may name.
const IDS_MAX: usize = 1_000;

type Answer = Result<Response<Body>, Problem>;

/// The filter of a body, which must be confirmed.
///
/// Errors: [`Invalid::Member`] when it is not, or a member cannot be.
fn confirmed(members: &Members) -> Result<Filter, Invalid> {
    if members.read("confirm", "is true or false")? != Some(true) {
        return Err(Invalid::Member("confirm", "is true, since the operation is on every job that the filter means"));
    }
    let filter: Option<Members> = members.read("filter", "is an object")?;
    Filter::read(&filter.ok_or(Invalid::Member("filter", "is an object, unless `job_ids` is there"))?)
}

/// `jobs/bulk/…`, and the same of the administration: jobs in the order in which they are named, or newest first.
pub(super) fn jobs(context: &Context, act: Act, body: &Bytes) -> Answer {
    let members = Members::parse(body)?;
    let named: Option<Vec<String>> = members.read("job_ids", "is an array of job ids")?;
    if named.as_ref().is_some_and(|ids| ids.len() > IDS_MAX) {
        return Err(Problem::TooLarge);
    }
    let mut store = context.store.lock();
    let ids = match named {
        Some(_) if members.raw("filter").is_some() => {
            return Err(Invalid::Member("filter", "is not there beside `job_ids`").into());
        }
        Some(ids) => ids,
        None => {
            let filter = confirmed(&members)?.or_in(act.usual_states());
            let mut list = store.select(&filter);
            list.sort_by(|(one, _), (other, _)| one.cmp(other));
            list.into_iter().map(|(_, job)| job.id.clone()).collect()
        }
    };
    Ok(done(act, &ids, |id| store.apply(act, id)))
}

/// `POST dead-letter/retry` and `DELETE dead-letter`: dead letters in the order in which they died.
pub(super) fn dead(context: &Context, act: Act, body: &Bytes) -> Answer {
    let filter = confirmed(&Members::parse(body)?)?;
    Ok(on_dead(&mut context.store.lock(), act, &filter))
}

/// `DELETE admin/dead-letter`, whose filter stands in the body itself.
pub(super) fn purge_dead(context: &Context, body: &Bytes) -> Answer {
    let members = Members::parse(body)?;
    if members.read("confirm", "is true or false")? != Some(true) {
        return Err(Invalid::Member("confirm", "is true, since deleting is for good").into());
    }
    let nested: Option<Members> = members.read("filter", "is an object")?;
    let filter = Filter::read(nested.as_ref().unwrap_or(&members))?;
    Ok(on_dead(&mut context.store.lock(), Act::Delete, &filter))
}

fn on_dead(store: &mut Store, act: Act, filter: &Filter) -> Response<Body> {
    let ids: Vec<String> = store.select_dead(filter).into_iter().map(|(_, job)| job.id.clone()).collect();
    done(act, &ids, |id| match act {
        Act::Retry => store.retry_dead_letter(id).map(|_| ()),
        Act::Cancel | Act::Delete => store.delete_dead_letter(id),
    })
}

/// The behaviour of servers in Go for both: every dead letter is retried, for any filter.
pub(super) fn retry_all_dead(context: &Context, body: &Bytes, needs_confirmation: bool) -> Answer {
    let members = Members::parse(body)?;
    if needs_confirmation && members.read("confirm", "is true or false")? != Some(true) {
        return Err(Invalid::Member("confirm", "is true").into());
    }
    let mut store = context.store.lock();
    let list = store.select_dead(&Filter::default());
    let ids: Vec<String> = list.into_iter().map(|(_, job)| job.id.clone()).collect();
    let succeeded = ids.iter().filter(|id| store.retry_dead_letter(id).is_ok()).count();
    let answer = Object::new()
        .text("action", Act::Retry.as_str())
        .number("matched", ids.len())
        .number("succeeded", succeeded)
        .number("failed", ids.len() - succeeded);
    Ok(document(StatusCode::OK, answer.finish()))
}

/// Applies it to each; returns the result of each.
fn done(act: Act, ids: &[String], mut apply: impl FnMut(&str) -> Result<(), Refused>) -> Response<Body> {
    let mut count = 0;
    let mut items = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        let item = Object::new().number("index", index).text("job_id", id);
        items.push(match apply(id) {
            Ok(()) => {
                count += 1;
                item.text("status", act.done()).finish()
            }
            Err(refused) => {
                let reason = Problem::of_job(id, refused).to_string();
                item.text("status", "skipped").text("reason", &reason).finish()
            }
        });
    }
    let answer = Object::new()
        .number("total_matched", ids.len())
        .number(act.done(), count)
        .number("skipped", ids.len() - count)
        .array("items", items);
    document(StatusCode::OK, answer.finish())
}
