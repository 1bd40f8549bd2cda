//! What regions answer: health, statistics, jobs and errors, in every dialect, hostile ones included.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ojs_sidecar::ojs::answer::{admin_depth, health, is_error_document, job_id_of, queue_depth};
use ojs_sidecar::ojs::list::{Figures, Page, Part, merged, summed, united};
use ojs_sidecar::ojs::residency::{annotated, pinned, redacted};
use serde_json::Value;

/// Available and active jobs, as a parser reads them.
fn depth(object: &Value) -> Option<u64> {
    object.get("available")?.as_u64()?.checked_add(object.get("active")?.as_u64()?)
}

fn text(object: &Value, name: &str) -> Option<String> {
    object.get(name)?.as_str().map(str::to_owned)
}

/// Whatever is made of an answer that is JSON is JSON again.
fn made_of(body: &[u8]) {
    let part = Part { region: "r", body };
    let _ = (pinned(body, "r"), united(&[part, part], true));
    let mut written = vec![redacted(body, Some("r")), annotated(body, "r").into_owned()];
    written.extend(summed(&[part, part]));
    if let Ok(page) = Page::read(&Bytes::copy_from_slice(body)) {
        let items: Vec<Bytes> = page.items().collect();
        let figures = Figures { total: Some(1), has_more: true, cursor: Some("c".to_owned()), withheld: 1, ..Figures::default() };
        written.push(merged(&page, &items, &figures));
    }
    for json in written {
        assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&json).is_ok(), "{}", String::from_utf8_lossy(&json));
    }
}

fuzz_target!(|body: &[u8]| {
    let (status, id, error) = (health(body).status, job_id_of(body), is_error_document(body));
    let (queue, admin) = (queue_depth(body), admin_depth(body));
    // A name by which serde_json hands raw values to itself makes it read another document.
    if String::from_utf8_lossy(body).contains("serde_json::private") {
        return;
    }
    let Ok(parsed) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    made_of(body);
    // Several are none.
    assert!(status.is_none() || status == text(&parsed, "status"));
    let job = parsed.get("job").unwrap_or(&parsed);
    assert_eq!(id, text(job, "id"));
    let bare = text(&parsed, "code").is_some() && text(&parsed, "message").is_some();
    assert_eq!(error, parsed.get("error").is_some_and(|error| text(error, "code").is_some()) || bare);
    let under =
        |names: [&str; 2]| names.into_iter().find_map(|name| depth(parsed.get(name)?)).or_else(|| depth(&parsed));
    assert_eq!(queue, under(["stats", "queue"]));
    assert_eq!(admin, under(["jobs", "stats"]));
});
