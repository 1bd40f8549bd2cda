//! The region about itself: health, manifest, and events.

use http::request::Parts;
use http::{Response, StatusCode};

use super::parts::number;
use crate::answer::{Body, Object, document, quoted};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::events::Asked;
use crate::problem::Problem;
use crate::query::parameter;

/// How many events one answer holds: unless asked otherwise, and at most.
const EVENTS_USUAL: usize = 100;
const EVENTS_MAX: usize = 1_000;

/// The health document, with any status that it is to claim.
pub(crate) fn health(context: &Context, status: &str) -> String {
    let uptime = context.clock.now().saturating_duration_since(context.started).as_secs();
    let backend = Object::new().text("type", "memory").text("status", "connected").finish();
    Object::new()
        .text("status", status)
        .text("version", "1.0")
        .number("uptime_seconds", uptime)
        .raw("backend", &backend)
        .finish()
}

pub(super) fn manifest(context: &Context) -> Response<Body> {
    let name = format!("ojs-sidecar demo region {}", context.id);
    let implementation = Object::new().text("name", &name).text("version", env!("CARGO_PKG_VERSION"));
    let is_spec = context.reading.dialect == Dialect::Spec;
    let object = if is_spec { Object::new().text("ojs_version", "1.0") } else { Object::new() };
    let answer = object
        .text("specversion", "1.0")
        .raw("implementation", &implementation.text("language", "rust").finish())
        .number("conformance_level", 4)
        .raw("protocols", r#"["http"]"#)
        .text("backend", "memory")
        .raw("extensions", &extensions(context, is_spec));
    document(StatusCode::OK, answer.finish())
}

/// The extensions, in the form of the dialect. One of the experimental ones names the behaviour for a taken id, because
/// its URN is a text in both forms.
fn extensions(context: &Context, is_spec: bool) -> String {
    let name = context.duplicate_ids.map(|it| format!("duplicate-ids-{}", it.as_str()));
    let uri = |name: &str| format!("urn:ojs:ext:experimental:{name}");
    if is_spec {
        return format!("[{}]", name.map_or_else(String::new, |name| quoted(&uri(&name))));
    }
    let entry =
        name.map(|name| Object::new().text("name", &name).text("uri", &uri(&name)).text("version", "1.0").finish());
    let object = Object::new().raw("official", "[]");
    match entry {
        Some(entry) => object.array("experimental", [entry]),
        None => object,
    }
    .finish()
}

/// The events that are asked for, oldest first.
pub(super) fn events(context: &Context, head: &Parts) -> Result<Response<Body>, Problem> {
    let list = |name| {
        let text = parameter(&head.uri, name).unwrap_or_default();
        text.split(',').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    };
    let asked = Asked {
        after: parameter(&head.uri, "after"),
        kinds: list("types"),
        queues: list("queues"),
        job_types: list("job_types"),
        limit: number(head, "limit", EVENTS_USUAL)?.clamp(1, EVENTS_MAX),
    };
    let source = format!("ojs://{}/api", context.id);
    let mut store = context.store.lock();
    let (events, has_more) = store.events().asked(&asked);
    let cursor = events.last().map(|event| event.id.clone()).or(asked.after);
    let answer = Object::new()
        .array("events", events.iter().map(|event| event.document(&source)))
        .maybe_text("cursor", cursor.as_deref())
        .flag("has_more", has_more);
    Ok(document(StatusCode::OK, answer.finish()))
}
