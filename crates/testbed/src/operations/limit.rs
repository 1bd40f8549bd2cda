//! The remaining room of a queue and a key: headers of answers, and the limits themselves.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::answer::{Body, Object, document};
use crate::bounds::depth_headers;
use crate::context::Context;
use crate::envelope::key_of;
use crate::members::{Invalid, Members};
use crate::moment::Moment;
use crate::page::Numbered;
use crate::problem::Problem;
use crate::store::Store;

/// The headers of the answer to an enqueue.
pub(super) fn headers(headers: &mut HeaderMap, store: &mut Store, id: &str) {
    let Some(job) = store.job(id) else { return };
    let (queue, key) = (job.envelope.queue.clone(), key_of(&job.envelope).map(str::to_owned));
    if let Some(depth) = store.pressure(&queue) {
        depth_headers(headers, depth);
    }
    let window = key.and_then(|key| store.kept().limits.get(&key)?.headers());
    for (name, value) in window.into_iter().flatten() {
        headers.insert(name, HeaderValue::from(value));
    }
}

/// `GET rate-limits`.
pub(super) fn list(context: &Context, head: &Parts) -> Result<Response<Body>, Problem> {
    let page = Numbered::read(context, head, 20)?;
    let mut store = context.store.lock();
    let keys: Vec<String> = store.kept().limits.list().into_iter().map(|(key, _)| key).collect();
    let documents = keys.into_iter().filter_map(|key| Some((key.clone(), store.limit_document(&key)?)));
    let part = page.part(documents.collect());
    let answer = Object::new().array("items", part.items).raw("pagination", &part.pagination);
    Ok(document(StatusCode::OK, answer.finish()))
}

/// `GET` and `PUT rate-limits/{key}`: the concurrency may be set for a time, or until the next word.
pub(super) fn one(context: &Context, head: &Parts, key: String, body: &Bytes) -> Result<Response<Body>, Problem> {
    let now_ms = context.clock.unix_ms();
    let mut store = context.store.lock();
    match head.method.as_str() {
        "GET" => {}
        "PUT" => {
            let members = Members::parse(body)?;
            let rule = "is a whole number from 0";
            let concurrency: u64 = members.read("concurrency", rule)?.ok_or(Invalid::Member("concurrency", rule))?;
            let until: Option<Moment> = members.read("expires_at", Moment::RULE)?;
            let window = store.kept().limits.get_mut(&key);
            let window = window.ok_or_else(|| Problem::NoSuch("rate limit", key.clone()))?;
            window.word = Some((concurrency, until.map(|until| until.unix_ms(now_ms))));
        }
        _ => return Err(Problem::Method),
    }
    let shown = store.limit_document(&key).ok_or(Problem::NoSuch("rate limit", key))?;
    Ok(document(StatusCode::OK, shown))
}
