//! Schemas of job types as the administration keeps them: by type and version.
//!
//! Spec: ojs-schema-registry. Kept and shown; nothing is validated against them.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::kept::Entry;
use crate::members::{Invalid, Members};
use crate::problem::Problem;
use crate::text::rfc3339;

/// Sorts versions by number.
fn name(kind: &str, version: u64) -> String {
    format!("{kind}/{version:020}")
}

fn number(version: &str) -> Result<u64, Problem> {
    version.parse().map_err(|_| Invalid::Member("version", "is a whole number from 0").into())
}

fn shown(kind: &str, version: u64, entry: &Entry) -> String {
    let schema = entry.members.raw("schema").map(serde_json::value::RawValue::get);
    let object = Object::new().text("type", kind).number("version", version).maybe_raw("schema", schema);
    object.text("created_at", &rfc3339(entry.created_ms)).finish()
}

fn versions(context: &Context, kind: &str) -> Vec<String> {
    let mut store = context.store.lock();
    let list = store.kept().job_schemas.list().into_iter();
    let parts = list.filter_map(|(name, entry)| {
        let (of, version) = name.rsplit_once('/')?;
        Some((of == kind, version.parse().ok()?, entry))
    });
    parts.filter(|(is_it, ..)| *is_it).map(|(_, version, entry)| shown(kind, version, entry)).collect()
}

/// `GET admin/schemas/{type}`: the newest version; `…/versions`: all of them.
pub(super) fn of_type(context: &Context, kind: String, all: bool) -> Result<Response<Body>, Problem> {
    let mut versions = versions(context, &kind);
    if all {
        let answer = Object::new().text("type", &kind).array("versions", versions);
        return Ok(document(StatusCode::OK, answer.finish()));
    }
    versions.pop().map(|last| document(StatusCode::OK, last)).ok_or(Problem::NoSuch("schema", kind))
}

/// `PUT`, `GET` and `DELETE admin/schemas/{type}/{version}`: a version is written once.
pub(super) fn one(
    context: &Context,
    head: &Parts,
    (kind, version): (String, String),
    body: &Bytes,
) -> Result<Response<Body>, Problem> {
    let version = number(&version)?;
    let name = name(&kind, version);
    let mut store = context.store.lock();
    let schemas = &mut store.kept().job_schemas;
    match head.method.as_str() {
        "PUT" => {
            let members = Members::parse(body)?;
            members.raw("schema").ok_or(Invalid::Member("schema", "is there"))?;
            if schemas.get(&name).is_some() {
                return Err(Problem::KeyReused);
            }
            let entry = Entry { members, created_ms: context.clock.unix_ms() };
            let answer = shown(&kind, version, &entry);
            schemas.put(&name, entry);
            Ok(document(StatusCode::CREATED, answer))
        }
        "GET" => {
            let entry = schemas.get(&name).ok_or_else(|| Problem::NoSuch("schema", kind.clone()))?;
            Ok(document(StatusCode::OK, shown(&kind, version, entry)))
        }
        "DELETE" => {
            schemas.take(&name).ok_or_else(|| Problem::NoSuch("schema", kind.clone()))?;
            let answer = Object::new().flag("deleted", true).text("type", &kind).number("version", version);
            Ok(document(StatusCode::OK, answer.finish()))
        }
        _ => Err(Problem::Method),
    }
}
