use proptest::prelude::*;

use super::*;

fn check(method: &str, path: &str, operation: Operation, class: Class) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let matched = identify(&method, path);
    assert_eq!((matched.operation, matched.class), (operation, class), "{method} {path}");
}

#[test]
fn every_endpoint_of_the_catalogue_is_recognised() {
    use Operation as Op;
    for (method, path, operation, class) in [
        ("POST", "/ojs/v1/jobs", Op::Enqueue, Class::Enqueue),
        ("POST", "/ojs/v1/jobs/batch", Op::Batch, Class::Create),
        ("POST", "/ojs/v1/jobs/bulk", Op::Bulk, Class::Create),
        ("POST", "/ojs/v1/cron", Op::CronWrite, Class::Create),
        ("PUT", "/ojs/v1/cron/nightly", Op::CronWrite, Class::Create),
        ("PATCH", "/ojs/v1/cron/nightly", Op::CronWrite, Class::Create),
        ("POST", "/ojs/v1/workflows", Op::WorkflowWrite, Class::Create),
        ("PATCH", "/ojs/v1/workflows/wf_1", Op::WorkflowWrite, Class::Create),
        ("POST", "/ojs/v1/workflows/wf_1/cancel", Op::Workflow, Class::Definition),
        ("POST", "/ojs/v1/cron/nightly/trigger", Op::Cron, Class::Definition),
        ("GET", "/ojs/v1/cron", Op::List, Class::List),
        ("DELETE", "/ojs/v1/cron/nightly", Op::Cron, Class::Definition),
        ("POST", "/ojs/v1/workers/fetch", Op::Fetch, Class::Worker),
        ("POST", "/ojs/v1/jobs/fetch", Op::Fetch, Class::Worker),
        ("POST", "/ojs/v1/workers/ack", Op::Ack, Class::Worker),
        ("POST", "/ojs/v1/workers/nack", Op::Nack, Class::Worker),
        ("POST", "/ojs/v1/workers/heartbeat", Op::Heartbeat, Class::Worker),
        ("POST", "/ojs/v1/jobs/0190/ack", Op::JobSettle, Class::Worker),
        ("GET", "/ojs/v1/jobs/0190", Op::JobGet, Class::Job),
        ("HEAD", "/ojs/v1/jobs/0190", Op::JobGet, Class::Job),
        ("DELETE", "/ojs/v1/jobs/0190", Op::JobCancel, Class::Job),
        ("GET", "/ojs/v1/jobs/0190/result", Op::JobScoped, Class::Job),
        ("POST", "/ojs/v1/jobs/results", Op::JobResults, Class::Job),
        ("POST", "/ojs/v1/jobs/bulk/cancel", Op::JobsById, Class::Job),
        ("GET", "/ojs/v1/jobs/0190/events", Op::JobEvents, Class::Stream),
        ("GET", "/ojs/v1/queues/email/events", Op::QueueEvents, Class::Stream),
        ("GET", "/ojs/v1/events/stream", Op::Events, Class::Stream),
        ("GET", "/ojs/v1/ws", Op::WebSocket, Class::Stream),
        ("GET", "/ojs/v1/queues", Op::Queues, Class::List),
        ("GET", "/ojs/v1/queues/email/stats", Op::QueueStats, Class::Queue),
        ("POST", "/ojs/v1/queues/email/pause", Op::QueuePause, Class::Queue),
        ("GET", "/ojs/v1/admin/stats", Op::AdminStats, Class::List),
        ("GET", "/ojs/v1/dead-letter", Op::List, Class::List),
        ("GET", "/ojs/v1/dead-letter/stats", Op::List, Class::List),
        ("GET", "/ojs/v1/dead-letter/0190", Op::JobScoped, Class::Job),
        ("POST", "/ojs/v1/dead-letter/0190/retry", Op::Recreate, Class::Job),
        ("GET", "/ojs/v1/schemas/a/versions/1", Op::Definition, Class::Definition),
        ("GET", "/ojs/v1/health", Op::Health, Class::System),
        ("GET", "/ojs/manifest", Op::Manifest, Class::System),
        ("GET", "/v1/federation/regions", Op::FederationRegions, Class::Federation),
        ("GET", "/ojs/federation/backends", Op::FederationRegions, Class::Federation),
        ("POST", "/ojs/v1/federation/route", Op::FederationRoute, Class::Federation),
        ("GET", "/ojs/federation/health", Op::FederationHealth, Class::Federation),
        ("GET", "/ojs/v1/federation/outcomes", Op::FederationOutcomes, Class::Federation),
        ("GET", "/v1/federation/decisions", Op::FederationDecisions, Class::Federation),
        ("GET", "/v1/federation/jobs", Op::FederationJob, Class::Federation),
        ("GET", "/ojs/v1/federation/jobs/a", Op::FederationJob, Class::Federation),
        ("GET", "/v1/federation/route", Op::FederationOther, Class::Federation),
        ("GET", "/v1/federation", Op::Unknown, Class::Other),
        ("PUT", "/ojs/v1/jobs", Op::Unknown, Class::Other),
        ("POST", "/ojs/v1/brand/new", Op::Unknown, Class::Other),
        ("OPTIONS", "/ojs/v1/jobs", Op::Unknown, Class::Other),
        ("GET", "/", Op::Unknown, Class::Other),
    ] {
        check(method, path, operation, class);
        assert!(!identify(&Method::GET, path).raw_differs);
    }
}

#[test]
fn exactly_the_creating_calls_are_marked() {
    let creating: Vec<_> = ROWS.iter().filter(|row| row.creates).map(|row| row.pattern).collect();
    let expected = [
        "/ojs/v1/jobs",
        "/ojs/v1/jobs/batch",
        "/ojs/v1/jobs/bulk",
        "/ojs/v1/cron",
        "/ojs/v1/cron/{*}",
        "/ojs/v1/crons",
        "/ojs/v1/crons/{*}",
        "/ojs/v1/workflows",
        "/ojs/v1/workflows/{*}",
        "/ojs/v1/dead-letter/{}/retry",
        "/ojs/v1/admin/dead-letter/{}/retry",
        "/v1/agent/jobs/{}/fork",
        "/v1/agent/jobs/{}/replay",
        "/v1/agents/{}/fork",
        "/v1/agents/{}/replay",
        "/ojs/v1/agents/{}/fork",
        "/ojs/v1/agents/{}/replay",
    ];
    assert_eq!(creating, expected);
}

#[test]
fn only_known_data_may_pass_unread() {
    use Payload::{Data, MayDefineJobs, Unknown};
    for (method, path, payload) in [
        ("POST", "/ojs/v1/workers/ack", Data),
        ("POST", "/ojs/v1/workers/fetch", Data),
        ("PUT", "/ojs/v1/jobs/0190/checkpoint", Data),
        ("POST", "/ojs/v1/schemas", Data),
        ("PUT", "/ojs/v1/admin/schemas/a/1", Data),
        ("POST", "/ojs/v1/jobs", MayDefineJobs),
        ("PUT", "/ojs/v1/jobs", MayDefineJobs),
        ("QUERY", "/ojs/v1/jobs", MayDefineJobs),
        ("post", "/ojs/v1/jobs", MayDefineJobs),
        ("QUERY", "//ojs/v1/Jobs", MayDefineJobs),
        ("GET", "/ojs/v1/jobs", MayDefineJobs),
        ("DELETE", "/ojs/v1/jobs/batch", MayDefineJobs),
        ("OPTIONS", "/ojs/v1/cron", MayDefineJobs),
        ("PATCH", "/ojs/v1/jobs/0190", MayDefineJobs),
        ("POST", "/ojs/v1/jobs/bulk/create", MayDefineJobs),
        ("POST", "/ojs/v1/queues/q/jobs", MayDefineJobs),
        ("POST", "/ojs/v1/cron/nightly/trigger", MayDefineJobs),
        ("POST", "/ojs/v2/jobs", Unknown),
        ("POST", "/ojs/v1/brand/new", Unknown),
        ("POST", "/ojs/v1/jobs/schedule", Unknown),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(identify(&method, path).payload, payload, "{method} {path}");
    }
}

#[test]
fn no_row_is_hidden_behind_an_earlier_one() {
    for (place, row) in ROWS.iter().enumerate() {
        let path = row.pattern.replace("{*}", "zz/zz").replace("{}", "zz");
        for bit in [table::GET, table::POST, table::PUT, table::PATCH, table::DELETE, table::OTHER] {
            let first = ROWS.iter().position(|other| other.methods & bit != 0 && other.fits(&path, true));
            assert!(row.methods & bit == 0 || first == Some(place), "{} with method bit {bit}", row.pattern);
        }
    }
}

#[test]
fn a_creating_call_is_recognised_in_any_spelling_and_flagged() {
    for path in [
        "/ojs/v1/jobs/",
        "//ojs/v1/jobs",
        "/ojs/v1/./jobs",
        "/ojs/v1/x/../jobs",
        "/ojs/v1/%6Aobs",
        "/ojs/v1/%256Aobs",
        "/ojs%2Fv1%2fjobs",
        "/ojs/v1/queues/q%2F..%2f..%2fjobs",
        "/OJS/V1/Jobs",
        "/ojs/v1/jobs;x=y",
        "/ojs\\v1\\jobs",
        "/ojs/v1/cron/a%2Fb",
        "/ojs/v1/cron//..;",
        "/ojs/v1/workflows//",
    ] {
        let matched = identify(&Method::POST, path);
        assert!(matched.creates_jobs && matched.raw_differs, "{path}: {matched:?}");
    }
    // A server that decodes once sees a cron name; one that decodes fully sees another path. Both are covered.
    for path in [
        "/ojs/v1/cron/a%2F..%2F..%2Fx",
        "/ojs/v1/x/..%2Fcron/a%252F..%252F..%252Fy",
        "/ojs/v1/CRON/a",
        "/ojs/v1/cron/..",
        "/ojs/v1/cron/%2e%2e",
    ] {
        let matched = identify(&Method::PUT, path);
        assert!(matched.creates_jobs && matched.raw_differs, "{path}: {matched:?}");
    }
    assert!(!identify(&Method::GET, "/ojs/v1/Jobs/x").creates_jobs);
    assert_eq!(identify(&Method::GET, "/ojs/v1/schemas/a%2Fb").operation, Operation::Definition);
}

#[test]
fn the_federation_api_names_its_methods() {
    assert_eq!(federation_methods("/v1/federation/regions/"), Some("GET, HEAD"));
    assert_eq!(federation_methods("/ojs/federation/route"), Some("POST"));
    assert_eq!(federation_methods("/v1/federation/nothing"), None);
}

#[test]
fn classes_are_numbered_in_their_order() {
    for (place, class) in Class::ALL.into_iter().enumerate() {
        assert_eq!(class.index(), place);
        assert!(class.as_str().bytes().all(|byte| byte.is_ascii_lowercase()));
    }
}

proptest! {
    #[test]
    fn an_encoded_enqueue_is_never_taken_for_something_else(
        layers in proptest::collection::vec(0_usize..4, 12), slash in 0_usize..3,
    ) {
        let mut raw = String::new();
        for (byte, layers) in "/ojs/v1/jobs".bytes().zip(layers) {
            match layers {
                0 => raw.push(char::from(byte)),
                _ => raw.push_str(&format!("%{}{byte:02X}", "25".repeat(layers - 1))),
            }
        }
        raw.push_str(&"/".repeat(slash));
        let matched = identify(&Method::POST, &raw);
        prop_assert_eq!(matched.operation, Operation::Enqueue);
        prop_assert_eq!(matched.raw_differs, raw != "/ojs/v1/jobs");
    }

    #[test]
    fn whatever_is_posted_below_cron_is_creating(name in "[a-z%/.25fF\\\\;]{1,24}") {
        let matched = identify(&Method::PUT, &format!("/ojs/v1/cron/{name}"));
        let plain = name.bytes().all(|byte| byte.is_ascii_lowercase());
        let no_name = name.bytes().all(|byte| byte == b'/');
        prop_assert!(matched.creates_jobs || no_name, "{matched:?}");
        prop_assert!(!plain || !matched.raw_differs);
    }

    #[test]
    fn no_path_makes_it_panic(path in ".{0,40}") {
        prop_assert!(!identify(&Method::GET, &path).creates_jobs);
    }
}
