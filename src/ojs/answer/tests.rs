use super::*;
use crate::ojs::member::WALKS;

fn walks<T>(work: impl FnOnce() -> T) -> usize {
    let before = WALKS.get();
    let _ = work();
    WALKS.get() - before
}

#[test]
fn an_object_is_walked_over_once_however_many_members_are_asked_for() {
    let item = br#"{"id":"a","type":"t","state":"active","attempt":2,"args":[1,2,3]}"#;
    assert_eq!(
        listed(item),
        Some(Progress { id: "a".to_owned(), state: "active".to_owned(), attempt: 2, ..Progress::default() })
    );
    assert_eq!(walks(|| listed(item)), 1);
    assert_eq!(walks(|| job_id_of(item)), 1);
    assert_eq!(walks(|| is_error_document(item)), 1);
    assert_eq!(walks(|| health(item)), 1);
    assert_eq!(walks(|| progress(br#"{"id":"a","state":"active","attempt":2}"#)), 1);
    assert_eq!(walks(|| queue_depth(br#"{"stats":{"available":3,"active":4}}"#)), 2);
    // The list, its paging, and each of its entries.
    let list = br#"{"crons":[{"name":"a"},{"name":"b"}],"pagination":{"has_more":false}}"#;
    assert_eq!(walks(|| cron_list(list, "none")), 4);
}

#[test]
fn what_a_list_shows_of_a_job_is_read_also_where_the_item_wraps_it() {
    let read = |item: &str| listed(item.as_bytes()).map(|it| (it.id, it.state, it.attempt));
    let expected = |state: &str, attempt| Some(("a".to_owned(), state.to_owned(), attempt));
    assert_eq!(read(r#"{"id":"a","type":"t","state":"active"}"#), expected("active", 0));
    let wrapped = r#"{"id":"a","type":"t","state":"x","job":{"id":"b","state":"cancelled","attempt":1}}"#;
    assert_eq!(read(wrapped), expected("cancelled", 1));
    for item in [r#"{"id":"a","state":"active"}"#, r#"{"id":"a","type":"t"}"#, r#"{"type":"t","state":"s"}"#, "7"] {
        assert_eq!(read(item), None, "{item}");
    }
}

#[test]
fn only_what_a_server_says_is_an_error_document() {
    for (body, expected) in [
        (r#"{"error":{"code":"backend_error","message":"m","retryable":true,"request_id":"r"}}"#, true),
        (r#"{"code":"BACKEND_UNAVAILABLE","message":"m","retryable":true}"#, true),
        (r#"{"message":"Service Unavailable"}"#, false),
        (r#"{"error":"upstream connect error"}"#, false),
        (r#"{"error":{"code":503}}"#, false),
        (r#"{"code":"x"}"#, false),
        ("<html>503</html>", false),
        (r#"{"error":{"code":"x"}"#, false),
        ("", false),
    ] {
        assert_eq!(is_error_document(body.as_bytes()), expected, "{body}");
    }
}

#[test]
fn the_id_of_an_enqueued_job_is_found_in_both_dialects() {
    for (body, expected) in [
        (r#"{"job":{"args":[1E400],"id":"a"}}"#, Some("a")),
        (r#"{"id":"b","state":"available"}"#, Some("b")),
        (r#"{"job":{"state":"x"},"id":"c"}"#, None),
        (r#"{"job":{"id":7}}"#, None),
        ("[]", None),
    ] {
        assert_eq!(job_id_of(body.as_bytes()).as_deref(), expected, "{body}");
    }
}

#[test]
fn a_job_is_read_from_an_answer_of_either_dialect() {
    let some = |text: &'static str| Some(text.into());
    let shown = |id, state, enqueued_at| ShownJob { id, state, enqueued_at };
    for (body, expected) in [
        (
            r#"{"job":{"id":"a","state":"available","created_at":"c","enqueued_at":"e"}}"#,
            shown(some("a"), some("available"), some("e")),
        ),
        (r#"{"id":"a","created_at":"c","args":[{"id":"b"}]}"#, shown(some("a"), None, some("c"))),
        (r#"{"job_id":"a","state":"retryable"}"#, shown(None, some("retryable"), None)),
        (r#"{"state":"other","job":{"state":"active","id":"a"},"next":[1]}"#, shown(some("a"), some("active"), None)),
        (r#"{"id":"a","job":{"id":"b","state":"active"}}"#, shown(some("a"), None, None)),
        (r#"{"id":"a","state":7,"state":"x","state":null}"#, shown(some("a"), None, None)),
        // No server wraps a job twice, and a region may not make one answer a thousand of them.
        (r#"{"job":{"job":{"id":"deep"}}}"#, ShownJob::default()),
        (r#"{"job":{"id":"a"}"#, ShownJob::default()),
        ("[]", ShownJob::default()),
    ] {
        assert_eq!(ShownJob::read(body.as_bytes()), expected, "{body}");
    }
}

#[test]
fn the_id_of_the_job_that_is_there_already_is_found_in_both_dialects() {
    for (body, expected) in [
        (r#"{"error":{"code":"duplicate","details":{"existing_job_id":"a"}}}"#, Some("a")),
        (r#"{"code":"DUPLICATE_JOB","details":{"existing_job_id":"b"}}"#, Some("b")),
        (r#"{"error":{"details":{}}}"#, None),
        ("", None),
    ] {
        assert_eq!(existing_job_id(body.as_bytes()).as_deref(), expected, "{body}");
    }
}

#[test]
fn only_a_plain_word_is_taken_for_a_code() {
    for (body, expected) in [
        (r#"{"error":{"code":"queue_paused"}}"#, Some("queue_paused")),
        (r#"{"code":"RATE_LIMITED","message":"m"}"#, Some("RATE_LIMITED")),
        (r#"{"error":{"code":"args: [1]"}}"#, None),
        (r#"{"error":"x"}"#, None),
        ("x", None),
    ] {
        assert_eq!(error_code(body.as_bytes()).as_deref(), expected, "{body}");
    }
}

#[test]
fn cron_jobs_are_found_in_lists_of_both_dialects_and_page_by_page() {
    let list = |found, count, has_more, cursor: Option<&str>| {
        Some(CronList { found, count, has_more, total: None, cursor: cursor.map(str::to_owned) })
    };
    for (body, expected) in [
        (r#"{"crons":[{"name":"a"},{"name":"nightly"}]}"#, list(true, 2, None, None)),
        (
            r#"{"cron_jobs":[{"name":"a"}],"pagination":{"has_more":true,"next_cursor":"c"}}"#,
            list(false, 1, Some(true), Some("c")),
        ),
        (r#"{"crons":[{"name":"a"}],"has_more":true,"next_cursor":"c"}"#, list(false, 1, Some(true), Some("c"))),
        (r#"{"items":[],"pagination":{"has_more":false}}"#, list(false, 0, Some(false), None)),
        (r#"{"crons":{}}"#, None),
        ("404 page not found", None),
    ] {
        assert_eq!(cron_list(body.as_bytes(), "nightly"), expected, "{body}");
    }
}

#[test]
fn a_list_of_cron_jobs_goes_on_wherever_its_server_says_so() {
    for (body, seen, expected) in [
        (r#"{"crons":[{}]}"#, 1, false),
        (r#"{"crons":[{}],"has_more":true}"#, 1, true),
        (r#"{"crons":[{}],"has_more":false,"total":9}"#, 1, false),
        (r#"{"crons":[{}],"total":9,"limit":1,"offset":3}"#, 4, true),
        (r#"{"crons":[{}],"pagination":{"total":9}}"#, 9, false),
        (r#"{"crons":[{}],"next_cursor":"c"}"#, 1, true),
        (r#"{"crons":[{}],"next_cursor":null}"#, 1, false),
        (r#"{"crons":[],"has_more":true}"#, 1, false),
    ] {
        assert_eq!(cron_list(body.as_bytes(), "x").unwrap().goes_on(seen), expected, "{body}");
    }
}

#[test]
fn health_and_depth_are_read_in_every_dialect() {
    for (body, status, version) in [
        (r#"{"status":"ok","backend":{"status":"down"}}"#, Some("ok"), None),
        (r#"{"version":"1.0","status":"ok"}"#, Some("ok"), Some("1.0")),
        (r#"{"status":"ok","version":"<b>"}"#, Some("ok"), None),
        (r#"{"status":"ok","version":1}"#, Some("ok"), None),
        (r#"{"status":true}"#, None, None),
        (r#"{"status":"down","status":"ok"}"#, None, None),
        (r#"{"status":"ok","st\u0061tus":"ok"}"#, None, None),
        ("[]", None, None),
    ] {
        let expected = HealthWord { status: status.map(str::to_owned), version: version.map(str::to_owned) };
        assert_eq!(health(body.as_bytes()), expected, "{body}");
    }
    for (body, expected) in [
        (r#"{"queue":"q","stats":{"available":3,"active":4,"scheduled":9}}"#, Some(7)),
        (r#"{"queue":{"name":"q","available":3,"active":4,"paused":false}}"#, Some(7)),
        (r#"{"queue":{"available":3}}"#, None),
        (r#"{"queue":{"available":-3,"active":4}}"#, None),
        (r#"{"stats":{"available":18446744073709551615,"active":1}}"#, None),
    ] {
        assert_eq!(queue_depth(body.as_bytes()), expected, "{body}");
    }
    for (body, expected) in [
        (r#"{"queues":5,"workers":2,"jobs":{"available":184,"active":47,"scheduled":92}}"#, Some(231)),
        (r#"{"available":1,"active":2}"#, Some(3)),
        (r#"{"queues":5}"#, None),
    ] {
        assert_eq!(admin_depth(body.as_bytes()), expected, "{body}");
    }
}
