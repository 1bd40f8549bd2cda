//! Batches, bulk enqueues, cron, workflows and retried dead letters: where they go as a whole.

mod failure;
mod passing;
mod refusal;
mod routed;

use http::{Method, Request};

use crate::support::{Answer, Federation, Setup};

/// Every call that creates jobs by another way than one by one, and that routing sends where it wants.
const CALLS: [(&str, &str); 7] = [
    ("POST", "/ojs/v1/jobs/batch"),
    ("POST", "/ojs/v1/jobs/bulk"),
    ("POST", "/ojs/v1/cron"),
    ("PUT", "/ojs/v1/cron/nightly"),
    ("PATCH", "/ojs/v1/cron/nightly"),
    ("POST", "/ojs/v1/workflows"),
    ("PATCH", "/ojs/v1/workflows/wf_1"),
];

/// Those that make a job out of another one, in the region that holds it.
const RECREATING: [(&str, &str); 3] = [
    ("POST", "/ojs/v1/dead-letter/01900000-0000-7000-8000-000000000001/retry"),
    ("POST", "/ojs/v1/admin/dead-letter/01900000-0000-7000-8000-000000000001/retry"),
    ("POST", "/v1/agent/jobs/01900000-0000-7000-8000-000000000001/replay"),
];

/// Stands in every body, so that it can be looked for at the regions' sockets.
const CANARY: &str = "canary-4711";

/// Bodies as clients of the different dialects send them; `@` is where attributes go, as members of an object.
const SHAPES: [&str; 8] = [
    r#"{"jobs":[{"type":"a.b","args":["canary-4711"]},{"type":"a.b","args":[],"meta":{@}}]}"#,
    r#"{"jobs":[{"type":"a.b","args":["canary-4711"],"options":{"queue":"q","metadata":{@}}}]}"#,
    r#"{"name":"canary-4711","cron":"* * * * *","type":"a.b","args":[],"meta":{@}}"#,
    r#"{"name":"canary-4711","expression":"@hourly","job_template":{"type":"a.b","args":[],"options":{"metadata":{@}}}}"#,
    r#"{"type":"chain","name":"canary-4711","steps":[{"type":"a.b","args":[],"options":{"meta":{@}}}]}"#,
    r#"{"type":"batch","jobs":[{"type":"a.b","args":[]}],"callbacks":{"on_complete":{"type":"canary-4711","meta":{@}}}}"#,
    r#"{"default_options":{"metadata":{@}},"jobs":[{"type":"a.b","args":["canary-4711"]}]}"#,
    r#"{"x":[[{"note":"canary-4711",@}]]}"#,
];

/// Nothing is added to jobs, so that bodies can be compared byte for byte.
const BARE: &str = "stamp: never, mint_id: false";

/// A body of one of the dialects with these attributes.
fn body(shape: &str, attributes: &str) -> String {
    shape.replace("@hourly", "HOURLY").replace('@', attributes).replace("HOURLY", "@hourly")
}

/// A federation that adds nothing to jobs; `routing` is more of that section.
async fn bare(routing: &str) -> Federation {
    Setup::default().yaml(&format!("routing: {{ {BARE} {routing} }}")).start().await
}

async fn call(federation: &Federation, method: &str, path: &str, body: &str) -> Answer {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json; charset=utf-8")
        .header("x-custom", "kept");
    federation.client.send(request, body.to_owned()).await
}

/// The call must arrive at one region as it was sent, and nowhere else.
async fn check_goes(federation: &Federation, place: usize, call: (&str, &str, &str)) {
    let (method, path, body) = call;
    let answer = self::call(federation, method, path, body).await;
    let record = federation.regions[place].record();
    let received = record.requests_to(path).into_iter().rfind(|request| request.method.as_str() == method);
    let received = received.unwrap_or_else(|| panic!("{method} {path} {body}: {answer:?}"));
    assert_eq!(received.path, path);
    assert_eq!(received.body, body, "{method} {path}");
    assert_eq!(received.headers["content-type"], "application/json; charset=utf-8");
    assert_eq!(received.headers["x-custom"], "kept");
    assert_eq!(answer.region(), federation.regions[place].id());
    assert_eq!(federation.seen(CANARY), [place], "{method} {path} {body}");
    record.clear();
}

/// The call must be refused with this status and reason, and no region may have seen any of it.
async fn check_refused(federation: &Federation, call: (&str, &str, &str), status: u16, reason: &str) {
    let (method, path, body) = call;
    let answer = self::call(federation, method, path, body).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (status, reason), "{method} {path} {body}");
    assert_eq!(answer.json()["error"]["retryable"], false);
    assert_eq!(federation.seen(CANARY), [0; 0], "{method} {path} {body}");
    assert!(!String::from_utf8_lossy(&answer.body).contains(CANARY), "{method} {path} {body}: {answer:?}");
}
