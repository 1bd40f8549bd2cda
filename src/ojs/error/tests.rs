use super::several::Fates;
use super::*;
use crate::ojs::answer::is_error_document;
use crate::ojs::fault::Fault;

/// The refusals of FETCHes by pools of workers.
fn of_pools() -> [ErrorDocument; 5] {
    [
        ErrorDocument::pool_mismatch("general"),
        ErrorDocument::unknown_pool(["general"]),
        ErrorDocument::pool_unclear("queues"),
        ErrorDocument::pool_isolated(),
        ErrorDocument::pool_lease(60_000),
    ]
}

/// Documents about single calls.
fn of_calls() -> Vec<ErrorDocument> {
    vec![
        ErrorDocument::key_is_spent(&Fates::default()),
        ErrorDocument::part_refused("eu-west-1", StatusCode::CONFLICT),
        ErrorDocument::cron_elsewhere("eu-west-1"),
        ErrorDocument::contradicting_pins(Vec::new()),
    ]
}

#[test]
fn every_document_has_the_five_members_and_a_reason() {
    let fault = Fault::not_an_object("meta");
    let documents = [
        ErrorDocument::from_fault(&fault),
        ErrorDocument::unknown_region("mars-1", ["us-east-1"]),
        ErrorDocument::unknown_address("mars-1", ["us-east-1"]),
        ErrorDocument::address_unclear(),
        ErrorDocument::not_addressable(),
        ErrorDocument::unknown_channel(),
        ErrorDocument::bad_cursor(),
        ErrorDocument::residency(),
        ErrorDocument::regions_missing(["us-east-1"], ["eu-west-1"], 0),
        ErrorDocument::unknown_strategy(),
        ErrorDocument::pin_without_region(),
        ErrorDocument::pin_not_permitted("eu-west-1"),
        ErrorDocument::client_replicated_from(),
        ErrorDocument::content_encoding(),
        ErrorDocument::no_gzip(),
        ErrorDocument::compression_ratio(7),
        ErrorDocument::ambiguous_path(),
        ErrorDocument::idempotency_key_invalid(),
        ErrorDocument::idempotency_key_reused(),
        ErrorDocument::lease_lost("eu-west-1"),
        ErrorDocument::pools_are_configured(true),
        ErrorDocument::pools_are_configured(false),
        ErrorDocument::scope_unknown(),
        ErrorDocument::no_fleet_figures(),
        ErrorDocument::hub_without_figures(),
        ErrorDocument::outcomes_query(),
        ErrorDocument::decisions_query(),
        ErrorDocument::body_too_large(7),
        ErrorDocument::misdirected_host(),
        ErrorDocument::not_found("/x"),
        ErrorDocument::method_not_allowed("POST"),
        ErrorDocument::bad_request("odd"),
        ErrorDocument::request_timeout(),
        ErrorDocument::uri_too_long(),
        ErrorDocument::head_too_large(),
        ErrorDocument::version_not_supported(),
        ErrorDocument::region_unavailable("eu-west-1", "open", 0),
        ErrorDocument::no_healthy_region(0),
        ErrorDocument::owner_unavailable(None, 0),
        ErrorDocument::retry_budget(0),
        ErrorDocument::journal_unavailable(),
        ErrorDocument::hub_unavailable(0),
        ErrorDocument::outcome_unknown("eu-west-1", Some("j")),
        ErrorDocument::upstream_timeout("eu-west-1"),
        ErrorDocument::broken_answer("eu-west-1"),
        ErrorDocument::overloaded(0),
        ErrorDocument::hops_unreadable(),
        ErrorDocument::too_many_hops(3),
        ErrorDocument::mixed_batch(Map::new()),
        ErrorDocument::bound_elsewhere("eu-west-1"),
        ErrorDocument::pin_is_no_text(),
        ErrorDocument::unknown_atomicity(),
        ErrorDocument::batch_failed(StatusCode::SERVICE_UNAVAILABLE, false, &Fates::default()),
        ErrorDocument::batch_failed(StatusCode::SERVICE_UNAVAILABLE, true, &Fates::default()),
    ];
    for document in documents.into_iter().chain(of_pools()).chain(of_calls()) {
        let json = document.to_json("req_1");
        assert!(is_error_document(&json));
        let read: Value = serde_json::from_slice(&json).unwrap();
        let error = read["error"].as_object().unwrap();
        assert_eq!(error.len(), 5);
        assert_eq!(error["request_id"], "req_1");
        assert_eq!(error["details"]["reason"], document.reason.as_str());
        assert!(!document.message.is_empty());
        // Without these two rules SDKs would replay at once, or for ever.
        assert_eq!(document.status == StatusCode::SERVICE_UNAVAILABLE, document.retry_after.is_some());
        assert_ne!(document.retry_after, Some(0));
        assert_eq!(document.retryable, matches!(document.status.as_u16(), 502..=504));
    }
}

#[test]
fn an_unknown_outcome_is_a_500_that_names_region_and_job() {
    let document = ErrorDocument::outcome_unknown("eu-west-1", Some("0190"));
    assert_eq!((document.status.as_u16(), document.code.as_str(), document.retryable), (500, "backend_error", false));
    assert_eq!(
        (document.region().map(RegionId::as_str), document.particulars.further["job_id"].as_str()),
        (Some("eu-west-1"), Some("0190"))
    );
}

#[test]
fn a_pin_that_is_no_region_id_is_not_repeated() {
    assert_eq!(ErrorDocument::unknown_region("mars-1", []).region(), RegionId::parse("mars-1").ok().as_ref());
    assert_eq!(ErrorDocument::unknown_region("Bearer secret", []).region(), None);
}
