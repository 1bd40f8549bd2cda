//! Many jobs in one request: batches, which are stored whole, and bulk enqueues, which tell of each job.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};

use super::parts::{check_paused, submitted};
use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::envelope::Envelope;
use crate::members::{Invalid, Members, Raw};
use crate::problem::Problem;
use crate::store::{Known, Store};

/// The most jobs of one bulk enqueue.
const BULK_MAX: usize = 1_000;

/// The longest idempotency key, in characters.
const KEY_MAX: usize = 256;

fn sources(members: &Members) -> Result<Vec<Raw>, Problem> {
    let rule = "is an array of one or more jobs";
    let sources: Vec<Raw> = members.read("jobs", rule)?.unwrap_or_default();
    if sources.is_empty() { Err(Invalid::Member("jobs", rule).into()) } else { Ok(sources) }
}

pub(super) fn enqueue_batch(context: &Context, head: &Parts, body: &Bytes) -> Result<Response<Body>, Problem> {
    let sources = sources(&Members::parse(body)?)?;
    let at = |index: usize| move |problem: Problem| Problem::InBatch(index, Box::new(problem));
    let read = |(index, source): (usize, &Raw)| {
        submitted(context, head, Bytes::from(source.get().to_owned())).map_err(at(index))
    };
    // All are validated before the first is stored.
    let envelopes: Vec<Envelope> = sources.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let mut store = context.store.lock();
    for (index, envelope) in envelopes.iter().enumerate() {
        check_paused(context, &store, envelope).map_err(at(index))?;
    }
    for (index, envelope) in envelopes.iter().enumerate() {
        let queue = &envelope.queue;
        let coming = envelopes.iter().filter(|other| other.queue == *queue).count();
        let room = store.make_room(queue, u64::try_from(coming).unwrap_or(u64::MAX));
        room.map_err(|depth| at(index)(Problem::Full(queue.clone(), depth)))?;
    }
    if let Some((index, id)) = store.first_duplicate(&envelopes) {
        return Err(at(index)(Problem::Duplicate(id)));
    }
    let mut documents = Vec::with_capacity(envelopes.len());
    for envelope in envelopes {
        // Stored jobs stay, as they do at servers in Go; by the documents all were checked before.
        let stored = store.submit(envelope).map_err(|id| Problem::BatchBroken(Box::new(Problem::Duplicate(id))))?;
        documents.push(stored.job.document());
    }
    let count = documents.len();
    Ok(document(StatusCode::CREATED, Object::new().array("jobs", documents).number("count", count).finish()))
}

/// The fate of one job of a bulk enqueue.
enum Item {
    Created(String),
    Duplicate(String),
    Failed(Problem),
}

impl Item {
    fn document(&self, index: usize, dialect: Dialect) -> String {
        let object = Object::new().number("index", index);
        match self {
            Self::Created(job) => object.text("status", "created").raw("job", job),
            Self::Duplicate(job) => object.text("status", "duplicate").raw("job", job),
            Self::Failed(problem) => object.text("status", "failed").raw("error", &problem.item(dialect)),
        }
        .finish()
    }
}

/// `/jobs/bulk`: each job for itself, or with `atomicity: atomic` all of them or none.
pub(super) fn enqueue_bulk(context: &Context, head: &Parts, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = Members::parse(body)?;
    let key = idempotency_key(head, &members)?;
    if let Some(key) = &key {
        match context.store.lock().answer_to(key, body) {
            Known::Nothing => {}
            Known::Answer(status, text) => return Ok(document(status, text)),
            Known::OtherRequest => return Err(Problem::KeyReused),
        }
    }
    let sources = sources(&members)?;
    if sources.len() > BULK_MAX {
        return Err(Problem::BatchTooLarge(BULK_MAX));
    }
    let rule = "is partial or atomic";
    let is_atomic = match members.read::<String>("atomicity", rule)?.as_deref() {
        None | Some("partial") => false,
        Some("atomic") => true,
        Some(_) => return Err(Invalid::Member("atomicity", rule).into()),
    };
    let read: Vec<_> =
        sources.iter().map(|source| submitted(context, head, Bytes::from(source.get().to_owned()))).collect();
    let mut store = context.store.lock();
    let items = if is_atomic { stored_whole(context, &mut store, read) } else { stored(context, &mut store, read) };
    let (status, text) = summary(context, &items, is_atomic);
    if let Some(key) = key {
        store.keep_answer(key, body, status, text.clone());
    }
    let mut response = document(status, text);
    response.headers_mut().insert("x-ojs-batch-size", HeaderValue::from(items.len()));
    Ok(response)
}

/// The key under which a repeated request is answered as the first one was; the header wins.
fn idempotency_key(head: &Parts, members: &Members) -> Result<Option<String>, Problem> {
    let rule = "is a text of at most 256 characters";
    let header = head.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let key = match header {
        Some(key) => Some(key),
        None => members.read("idempotency_key", rule)?,
    };
    match key {
        Some(key) if key.chars().count() > KEY_MAX => Err(Invalid::Member("idempotency_key", rule).into()),
        key => Ok(key),
    }
}

fn stored(context: &Context, store: &mut Store, read: Vec<Result<Envelope, Problem>>) -> Vec<Item> {
    let one = |envelope: Result<Envelope, Problem>| {
        let envelope = envelope?;
        check_paused(context, store, &envelope)?;
        let stored = store.submit(envelope).map_err(Problem::Duplicate)?;
        let text = stored.job.document();
        Ok(if stored.is_duplicate { Item::Duplicate(text) } else { Item::Created(text) })
    };
    read.into_iter().map(one).map(|item| item.unwrap_or_else(Item::Failed)).collect()
}

/// Stores all, or says of each why not.
fn stored_whole(context: &Context, store: &mut Store, read: Vec<Result<Envelope, Problem>>) -> Vec<Item> {
    let paused = |envelope| check_paused(context, store, &envelope).map(|()| envelope);
    let read: Vec<_> = read.into_iter().map(|read| read.and_then(paused)).collect();
    let (places, valid): (Vec<usize>, Vec<Envelope>) =
        read.iter().enumerate().filter_map(|(index, read)| Some((index, read.as_ref().ok()?.clone()))).unzip();
    let clashes = store.clashes(&valid);
    if clashes.is_empty() && valid.len() == read.len() {
        return stored(context, store, read);
    }
    let mut items: Vec<Item> =
        read.into_iter().map(|read| Item::Failed(read.err().unwrap_or(Problem::NotAlone))).collect();
    for (among_valid, id) in clashes {
        let item = places.get(among_valid).and_then(|&index| items.get_mut(index));
        if let Some(item) = item {
            *item = Item::Failed(Problem::Duplicate(id.unwrap_or_default()));
        }
    }
    items
}

fn summary(context: &Context, items: &[Item], is_atomic: bool) -> (StatusCode, String) {
    let failed = items.iter().filter(|item| matches!(item, Item::Failed(_))).count();
    let status = match failed {
        0 => StatusCode::CREATED,
        _ if failed == items.len() || is_atomic => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::MULTI_STATUS,
    };
    let documents = items.iter().enumerate().map(|(index, item)| item.document(index, context.reading.dialect));
    let object = Object::new()
        .number("total", items.len())
        .number("succeeded", items.len() - failed)
        .number("failed", failed)
        .array("items", documents);
    (status, object.finish())
}
