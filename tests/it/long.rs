//! Documents that are too long to be read between two calls: they mean what short ones mean, and hold up nobody.

use serde_json::{Value, json};

use crate::support::{Answer, Federation, Setup};

const LONG: usize = 300 * 1024;

/// A job with a long argument.
fn long(kind: &str, pin: Option<&str>) -> Value {
    let mut job = json!({ "type": kind, "args": ["y".repeat(LONG)] });
    if let Some(pin) = pin {
        job["meta"] = json!({ "ojs.federation.region": pin });
    }
    job
}

async fn federation() -> Federation {
    Setup::default().by_the_documents().start().await
}

#[tokio::test]
async fn a_long_job_goes_where_it_is_pinned_with_its_bytes_and_its_stamp() {
    let federation = federation().await;
    let job = long("t.pinned", Some("eu-west-1"));
    let answer = federation.client.enqueue(job.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{:?}", answer.status);
    assert_eq!(federation.seen("t.pinned"), [1]);
    let received = federation.regions[1].record().requests_to("/ojs/v1/jobs").pop().unwrap().body;
    let received: Value = serde_json::from_slice(&received).unwrap();
    assert_eq!(received["args"], job["args"]);
    assert_eq!(received["id"], answer.job_id().as_str());
    assert_eq!(received["meta"]["ojs.federation.federation_id"], answer.header("ojs-federation-id").unwrap());
}

#[tokio::test]
async fn a_long_job_is_refused_as_a_short_one_is() {
    let federation = federation().await;
    for (tail, reason) in [
        (r#","meta":{"ojs.federation.region":"nowhere"}}"#, "region_unknown"),
        (r#","meta":{"ojs.federation.region":"eu-west-1"},"meta":{}}"#, "ambiguous_member"),
        (r#","meta":"#, "malformed_json"),
    ] {
        let job = format!(r#"{{"type":"t.bad","args":["{}"]{tail}"#, "y".repeat(LONG));
        let answer = federation.client.enqueue(job).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (400, reason), "{tail}");
    }
    assert_eq!(federation.seen("t.bad"), [0_usize; 0]);
}

#[tokio::test]
async fn a_long_batch_is_split_and_long_lists_are_united_and_redacted() {
    let federation = federation().await;
    let batch = json!({ "jobs": [long("t.there", Some("eu-west-1")), long("t.here", Some("us-east-1"))] });
    let answer = federation.client.post("/ojs/v1/jobs/batch", batch.to_string()).await;
    assert_eq!(answer.status, 201);
    assert_eq!((federation.seen("t.there"), federation.seen("t.here")), (vec![1], vec![0]));
    for target in ["/ojs/v1/jobs", "/ojs/v1/jobs?region=eu-west-1"] {
        let list = federation.client.get(target).await.json();
        let jobs = list["jobs"].as_array().unwrap();
        let args = |kind: &str| jobs.iter().find(|job| job["type"] == kind).map(|job| job["args"].clone());
        assert_eq!(args("t.there"), Some(json!([])), "{target}: it is not for us to see");
        assert!(target.contains("region") || args("t.here") == Some(batch["jobs"][1]["args"].clone()), "{target}");
    }
}

/// A job of some megabytes, whose text stands where `before` and `behind` leave it.
fn vast(before: &str, text: &str, behind: &str) -> String {
    format!("{before}{}{behind}", text.repeat((2 << 20) / text.len()))
}

#[tokio::test]
async fn a_job_of_megabytes_reaches_its_region_as_it_was_sent_wherever_its_text_stands() {
    let federation = federation().await;
    let pin = r#""ojs.federation.region":"eu-west-1""#;
    let shapes = [
        (r#"{"type":"t","args":[""#.to_owned(), format!(r#"",{{"n":1.50}}],"meta":{{{pin}}}}}"#)),
        (format!(r#"{{"type":"t","args":[],"meta":{{{pin},"note":""#), r#""}}"#.to_owned()),
        (format!(r#"{{"type":"t","meta":{{{pin}}},"args":[{{"a~b":["~",""#), r#""]}]}"#.to_owned()),
        (r#"{"type":"t","args":[],"other":""#.to_owned(), format!(r#"","meta":{{{pin}}}}}"#)),
        (format!(r#"{{"type":"t","args":[],"options":{{"metadata":{{{pin}}},"tags":[""#), r#""]}}"#.to_owned()),
    ];
    for (before, behind) in &shapes {
        let lines =
            r"a line of a log, of the length that such lines have, with an escape at its end and a tilde ~ in it\n";
        for text in [lines, "plain text ~ ", r#"{\"a\":\"\u00e9\",\n"#, "déjà vu 😀 ", r"\\"] {
            let sent = vast(before, text, behind);
            let answer = federation.client.enqueue(sent.clone()).await;
            assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{before}{text}");
            let received = federation.regions[1].record().requests_to("/ojs/v1/jobs").pop().unwrap().body;
            let received = String::from_utf8(received.to_vec()).unwrap();
            let stamp = |name: &str, value: &str| format!(r#""{name}":"{value}","#);
            let id = stamp("id", &answer.job_id());
            let fid = stamp("ojs.federation.federation_id", answer.header("ojs-federation-id").unwrap());
            assert!(received.contains(&id) && received.contains(&fid), "{before}{text}");
            assert!(received.replacen(&id, "", 1).replacen(&fid, "", 1) == sent, "{before}{text}");
        }
    }
    let requests = federation.job_requests();
    assert_eq!((requests[0], requests[2]), (0, 0), "pinned stays pinned");
}

#[tokio::test]
async fn a_fault_in_a_job_of_megabytes_is_told_with_its_place() {
    let federation = federation().await;
    for (before, text, behind, from_end) in [
        ("[", "plain text ", r#"\x"]}"#, 4),
        ("[", "plain text ", "\n\"]}", 4),
        ("[", r"\u00e9", r#"\u00zz"]}"#, 5),
        ("[1,", "1, ", "x]}", 3),
    ] {
        let quote = if text.starts_with('1') { "" } else { "\"" };
        let sent = vast(&format!(r#"{{"type":"t","args":{before}{quote}"#), text, behind);
        let answer = federation.client.enqueue(sent.clone()).await;
        let message = answer.check_error(400, "invalid_payload", "malformed_json").to_string();
        let place = format!("at byte {},", sent.len() - from_end);
        assert!(message.contains(&place), "{message}: {place}");
    }
    assert_eq!(federation.job_requests(), [0, 0, 0]);
}

#[tokio::test]
async fn a_job_of_megabytes_is_recognised_whatever_pieces_it_comes_in() {
    let federation = federation().await;
    let job = vast(r#"{"id":"0190a6e3-0000-7000-8000-000000000001","type":"t","args":[""#, "plain text ", r#""]}"#);
    let head = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k\r\n";
    let in_chunks = async |job: &str, length: usize| -> Answer {
        let mut wire = federation.client.wire().await;
        wire.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n")).await;
        for chunk in job.as_bytes().chunks(length) {
            wire.send([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()).await;
        }
        wire.send("0\r\n\r\n").await;
        wire.answer().await
    };
    let mut wire = federation.client.wire().await;
    wire.send(format!("{head}Content-Length: {}\r\n\r\n{job}", job.len())).await;
    let first = wire.answer().await;
    assert_eq!((first.status.as_u16(), first.header("ojs-federation-replayed")), (201, None));
    for length in [10_000, 100_000, 1_000_000] {
        let again = in_chunks(&job, length).await;
        assert_eq!((again.status.as_u16(), again.job_id()), (201, first.job_id()), "{length}");
        assert_eq!(again.header("ojs-federation-replayed"), Some("true"), "{length}");
    }
    let mut other = job.clone().into_bytes();
    other[1 << 20] = b'~';
    let refused = in_chunks(std::str::from_utf8(&other).unwrap(), 1_000_000).await;
    refused.check_error(409, "invalid_request", "idempotency_key_reused");
    let stored = federation.stored(&first.job_id());
    assert_eq!(stored.iter().map(|(_, copies)| copies).sum::<u32>(), 1, "{stored:?}");
}
