//! What regions answer: health, statistics, jobs and errors, in every dialect, hostile ones included.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ojs_sidecar::ojs::answer::{admin_depth, health_status, is_error_document, job_id_of, queue_depth};
use serde_json::Value;

/// Available and active jobs, as a parser reads them.
fn depth(object: &Value) -> Option<u64> {
    object.get("available")?.as_u64()?.checked_add(object.get("active")?.as_u64()?)
}

fn text(object: &Value, name: &str) -> Option<String> {
    object.get(name)?.as_str().map(str::to_owned)
}

fuzz_target!(|body: &[u8]| {
    let (status, id, error) = (health_status(body), job_id_of(body), is_error_document(body));
    let (queue, admin) = (queue_depth(body), admin_depth(body));
    // A name by which serde_json hands raw values to itself makes it read another document.
    if String::from_utf8_lossy(body).contains("serde_json::private") {
        return;
    }
    let Ok(parsed) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    assert_eq!(status, text(&parsed, "status"));
    let job = parsed.get("job").unwrap_or(&parsed);
    assert_eq!(id, text(job, "id"));
    let bare = text(&parsed, "code").is_some() && text(&parsed, "message").is_some();
    assert_eq!(error, parsed.get("error").is_some_and(|error| text(error, "code").is_some()) || bare);
    let under =
        |names: [&str; 2]| names.into_iter().find_map(|name| depth(parsed.get(name)?)).or_else(|| depth(&parsed));
    assert_eq!(queue, under(["stats", "queue"]));
    assert_eq!(admin, under(["jobs", "stats"]));
});
