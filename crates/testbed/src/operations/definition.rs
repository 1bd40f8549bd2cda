//! Schemas and subscriptions: kept and shown, and without effect.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::kept::Entry;
use crate::members::{Invalid, Members};
use crate::page::{LISTS, Page};
use crate::problem::Problem;
use crate::routes::UpkeepRoute as Route;
use crate::text::rfc3339;

type Answer = Result<Response<Body>, Problem>;

/// Serves an operation on definitions.
///
/// Errors: [`Problem`], before anything was changed.
pub(super) fn serve(context: &Context, route: Route, head: &Parts, body: &Bytes) -> Answer {
    let dialect = context.reading.dialect;
    match (head.method.as_str(), route, dialect) {
        ("POST", Route::Schemas, _) => register_schema(context, body),
        ("GET", Route::Schemas, Dialect::Spec) => schemas(context, head),
        ("GET", Route::Schema(name), Dialect::Spec) => {
            let mut store = context.store.lock();
            let entry = store.kept().schemas.get(&name).ok_or(Problem::NoSuch("schema", name))?;
            Ok(document(StatusCode::OK, wrapped(&shown(entry, &[]))))
        }
        ("DELETE", Route::Schema(name), Dialect::Spec) => {
            context.store.lock().kept().schemas.take(&name).ok_or_else(|| Problem::NoSuch("schema", name.clone()))?;
            Ok(document(StatusCode::OK, Object::new().flag("deleted", true).text("uri", &name).finish()))
        }
        ("GET", Route::Schema(kind), Dialect::Reference | Dialect::Redis) => {
            let last = versions(context, &kind).pop().ok_or(Problem::NoSuch("schema", kind))?;
            Ok(document(StatusCode::OK, wrapped(&last)))
        }
        ("GET", Route::SchemaVersions(kind), Dialect::Reference | Dialect::Redis) => {
            let versions = Object::new().array("versions", versions(context, &kind));
            Ok(document(StatusCode::OK, versions.finish()))
        }
        ("DELETE", Route::Schema(name), Dialect::Reference | Dialect::Redis) => delete_version(context, name),
        ("POST", Route::Webhooks, _) => subscribe(context, body),
        ("GET", Route::Webhooks, _) => subscriptions(context, head),
        ("GET", Route::Webhook(id), _) => {
            let mut store = context.store.lock();
            let entry = store.kept().webhooks.get(&id).ok_or_else(|| Problem::NoSuch("subscription", id.clone()))?;
            Ok(document(StatusCode::OK, subscription(&id, entry).finish()))
        }
        ("PATCH", Route::Webhook(id), _) => update(context, id, body),
        ("POST", Route::WebhookTest(id), _) => {
            let mut store = context.store.lock();
            store.kept().webhooks.get(&id).ok_or_else(|| Problem::NoSuch("subscription", id.clone()))?;
            // A region in memory calls no other host.
            let answer = Object::new().flag("success", false).text("error", "this region delivers nothing");
            Ok(document(StatusCode::OK, answer.finish()))
        }
        ("POST", Route::WebhookSecret(id), _) => {
            let mut store = context.store.lock();
            store.kept().webhooks.get(&id).ok_or_else(|| Problem::NoSuch("subscription", id.clone()))?;
            Ok(document(StatusCode::OK, Object::new().text("id", &id).text("secret", &secret()).finish()))
        }
        ("DELETE", Route::Webhook(id), _) => {
            let taken = context.store.lock().kept().webhooks.take(&id);
            taken.ok_or_else(|| Problem::NoSuch("subscription", id.clone()))?;
            Ok(document(StatusCode::OK, Object::new().flag("deleted", true).text("id", &id).finish()))
        }
        _ => Err(Problem::Method),
    }
}

fn wrapped(schema: &str) -> String {
    Object::new().raw("schema", schema).finish()
}

/// The submitted document, without some members, with its time.
fn shown(entry: &Entry, hidden: &[&str]) -> String {
    let members = entry.members.0.iter().filter(|(key, _)| !hidden.contains(&key.as_str()) && key != "created_at");
    let object = members.fold(Object::new(), |object, (key, value)| object.raw(key, value.get()));
    object.text("created_at", &rfc3339(entry.created_ms)).finish()
}

/// The documents know a schema by its URI, and servers in Go by its type and version.
fn register_schema(context: &Context, body: &Bytes) -> Answer {
    let members = Members::parse(body)?;
    let text = |name: &'static str| -> Result<String, Invalid> {
        members.read(name, "is a string")?.ok_or(Invalid::Member(name, "is a string"))
    };
    let name = match context.reading.dialect {
        Dialect::Spec => text("uri")?,
        Dialect::Reference | Dialect::Redis => format!("{}/{}", text("job_type")?, text("version")?),
    };
    members.raw("schema").ok_or(Invalid::Member("schema", "is there"))?;
    let entry = Entry { members, created_ms: context.clock.unix_ms() };
    let hidden: &[&str] = if context.reading.dialect == Dialect::Spec { &["schema"] } else { &[] };
    let answer = wrapped(&shown(&entry, hidden));
    context.store.lock().kept().schemas.put(&name, entry);
    Ok(document(StatusCode::CREATED, answer))
}

fn schemas(context: &Context, head: &Parts) -> Answer {
    let page = Page::read(context, head, LISTS)?;
    let mut store = context.store.lock();
    let part = page.part(store.kept().schemas.list());
    let schemas = part.items.into_iter().map(|entry| shown(entry, &["schema"]));
    let answer = Object::new().array("schemas", schemas).raw("pagination", &part.pagination);
    Ok(document(StatusCode::OK, answer.finish()))
}

/// Every version of the schema of a type, in the order of their names.
fn versions(context: &Context, kind: &str) -> Vec<String> {
    let mut store = context.store.lock();
    let list = store.kept().schemas.list().into_iter();
    let of_kind = list.filter(|(name, _)| name.rsplit_once('/').is_some_and(|(of, _)| of == kind));
    of_kind.map(|(_, entry)| shown(entry, &[])).collect()
}

fn delete_version(context: &Context, name: String) -> Answer {
    let Some((kind, version)) = name.rsplit_once('/') else { return Err(Problem::Method) };
    let answer = Object::new().flag("deleted", true).text("job_type", kind).text("version", version).finish();
    context.store.lock().kept().schemas.take(&name).ok_or_else(|| Problem::NoSuch("schema", name.clone()))?;
    Ok(document(StatusCode::OK, answer))
}

/// A subscription without its secret.
fn subscription(id: &str, entry: &Entry) -> Object {
    let ours = ["id", "secret", "active", "created_at"];
    let members = entry.members.0.iter().filter(|(key, _)| !ours.contains(&key.as_str()));
    let object = members.fold(Object::new().text("id", id), |object, (key, value)| object.raw(key, value.get()));
    object.flag("active", true).text("created_at", &rfc3339(entry.created_ms))
}

fn secret() -> String {
    format!("whsec_{}", uuid::Uuid::now_v7().simple())
}

/// `PATCH webhooks/subscriptions/{id}`: members that are named replace those of the same name.
fn update(context: &Context, id: String, body: &Bytes) -> Answer {
    let members = Members::parse(body)?;
    let mut store = context.store.lock();
    let entry = store.kept().webhooks.get_mut(&id).ok_or_else(|| Problem::NoSuch("subscription", id.clone()))?;
    entry.members.0.retain(|(key, _)| members.raw(&key.to_ascii_lowercase()).is_none());
    entry.members.0.extend(members.0);
    Ok(document(StatusCode::OK, subscription(&id, entry).finish()))
}

/// Keeps a subscription. Its secret is returned this once.
fn subscribe(context: &Context, body: &Bytes) -> Answer {
    let members = Members::parse(body)?;
    let url: Option<String> = members.read("url", "is a URL")?;
    url.ok_or(Invalid::Member("url", "is a URL"))?;
    let id = format!("sub_{}", uuid::Uuid::now_v7());
    let entry = Entry { members, created_ms: context.clock.unix_ms() };
    let answer = subscription(&id, &entry).text("secret", &secret()).finish();
    context.store.lock().kept().webhooks.put(&id, entry);
    Ok(document(StatusCode::CREATED, answer))
}

fn subscriptions(context: &Context, head: &Parts) -> Answer {
    let page = Page::read(context, head, LISTS)?;
    let mut store = context.store.lock();
    let named = store.kept().webhooks.list().into_iter().map(|(id, entry)| (id.clone(), (id, entry))).collect();
    let part = page.part(named);
    let documents = part.items.iter().map(|(id, entry)| subscription(id, entry).finish());
    let answer = Object::new().array("subscriptions", documents).raw("pagination", &part.pagination);
    Ok(document(StatusCode::OK, answer.finish()))
}
