//! `docs/surface.md`: every endpoint and where it goes, written from the table of operations.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ojs_sidecar::ojs::{Endpoint, Paging, Scope, surface};
use ojs_sidecar::policy::Repeat;

use crate::files::{path, read};

const FILE: &str = "docs/surface.md";
const VARIABLE: &str = "SURFACE_UPDATE";

const INTRODUCTION: &str = "# Surface

Every endpoint of OJS servers that the sidecar knows, and where it goes. The table is the one by which the program recognises calls
(`src/ojs/operation/table.rs`); a test writes this file from it: `SURFACE_UPDATE=1 cargo test --test contract surface`.

`{}` stands for one segment of a path, `{*}` for one or more. A path below `/ojs/` that is not here goes to the local region; it is never
a 404 of the sidecar's own. Reads and administration may name their region with `OJS-Federation-Region: R` or `?region=R`, and go
there alone.

\"Sent again\" says what the sidecar itself repeats: `elsewhere` in the next region when nothing was sent, or when the region refused the
whole call; `there` in the same region, because telling it twice changes nothing or can be recognised. Everything else is sent once.
";

fn sent_again(endpoint: &Endpoint) -> &'static str {
    match endpoint.scope {
        Scope::Enqueue | Scope::Batch | Scope::Bulk | Scope::Define => "elsewhere",
        _ => match Repeat::of(endpoint.operation, endpoint.path.ends_with("/nack")) {
            Repeat::Never => "",
            Repeat::Ack | Repeat::Nack | Repeat::Freely => "there",
        },
    }
}

fn markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    text.push_str(
        "\n| method | path | operation | class | goes to | body | sent again |\n|---|---|---|---|---|---|---|\n",
    );
    for endpoint in surface() {
        let methods = if endpoint.methods.is_empty() { "any".to_owned() } else { endpoint.methods.join(", ") };
        let (operation, class) = (endpoint.operation.as_str(), endpoint.class.as_str());
        let (goes_to, again) = (endpoint.scope.as_str(), sent_again(&endpoint));
        let _ = writeln!(
            text,
            "| {methods} | `{}` | `{operation}` | `{class}` | {goes_to} | {} | {again} |",
            endpoint.path, endpoint.body
        );
    }
    text.push_str("\n## What shows it\n\nWhole-program tests below `tests/it/`, with jobs that routing or a pin has put into a remote region.\n\n");
    text.push_str("| goes to | tests |\n|---|---|\n");
    for scope in scopes() {
        let tests: Vec<String> = shown_by(scope).iter().map(|test| format!("`{test}`")).collect();
        let _ = writeln!(text, "| {} | {} |", scope.as_str(), tests.join(", "));
    }
    text
}

/// Every scope of the table, once for each wording.
fn scopes() -> Vec<Scope> {
    let mut seen = BTreeSet::new();
    surface().map(|endpoint| endpoint.scope).filter(|scope| seen.insert(scope.as_str())).collect()
}

/// The tests that show where calls of a scope go: `module::name`.
fn shown_by(scope: Scope) -> &'static [&'static str] {
    match scope {
        Scope::Enqueue => &["lookup::a_job_is_found_in_the_region_that_it_was_pinned_to"],
        Scope::Batch | Scope::Bulk => &[
            "batch::split::jobs_with_different_pins_are_split_and_answered_in_the_order_of_the_request",
            "batch::bulk::a_mixed_bulk_enqueue_is_split_and_its_items_are_in_the_order_of_the_request",
        ],
        Scope::Define => &[
            "define::workflow::a_workflow_goes_whole_to_the_region_that_any_of_its_parts_is_pinned_to",
            "define::cron::a_cron_job_goes_to_its_pin_wherever_that_stands_and_else_to_the_local_region",
        ],
        Scope::Owner(_) => &[
            "lookup::every_call_about_one_job_reaches_the_region_that_holds_it_and_no_other",
            "lookup::cold::another_sidecar_finds_and_cancels_what_the_first_one_placed",
            "workers::settle::an_acknowledgement_reaches_the_owner_byte_for_byte_and_no_other_region",
            "workers::settle::progress_and_the_paths_of_adapters_reach_the_owner_too",
        ],
        Scope::ByIds => {
            &["lookup::several::results_of_jobs_in_three_regions_come_in_one_answer_in_the_order_asked_for"]
        }
        Scope::Fetch => &["workers::fetch::others_are_asked_for_what_is_missing_and_for_shared_queues_only"],
        Scope::Heartbeat => &["workers::beat::every_dialect_extends_the_leases_in_all_regions"],
        Scope::List(Paging::Names) => &["lists::queues::queues_are_united_by_name_and_their_figures_added_up"],
        Scope::List(_) => &[
            "lists::union::pages_of_every_style_are_the_union_also_over_a_restart",
            "lists::union::the_log_of_all_regions_is_followed_without_gap_or_repetition",
        ],
        Scope::Sum | Scope::QueueStats => &["lists::figures::statistics_are_summed_with_every_regions_own_beside_them"],
        Scope::QueueControl => &["lists::queues::pause_and_resume_reach_every_region_and_say_which_did_not_follow"],
        Scope::QueueDefinition => &["lists::queues::what_a_queue_is_to_be_is_written_to_all_regions_and_read_in_one"],
        Scope::Worker => &[
            "workers::one::a_worker_is_made_quiet_in_the_region_that_lists_it_and_in_no_other",
            "workers::one::a_worker_is_shown_and_removed_where_it_is",
        ],
        Scope::Named => &[
            "define::cron::calls_by_name_go_to_the_region_where_the_cron_job_lives",
            "define::workflow::a_workflow_is_found_and_cancelled_where_it_lives_also_by_who_never_heard_of_it",
        ],
        Scope::AllRegions => {
            &["define::schemas::a_schema_is_written_to_all_regions_and_the_local_ones_word_is_the_answer"]
        }
        Scope::Local => &["lookup::a_call_that_names_its_region_goes_there_alone_and_never_changes_where_a_job_goes"],
        Scope::EventStream => {
            &["event_stream::the_channel_of_a_job_streams_from_the_region_that_holds_it_as_things_happen"]
        }
        Scope::Tunnel => &["tunnel::a_websocket_carries_any_bytes_both_ways"],
        Scope::Manifest => &["manifest::it_is_that_of_the_local_region_with_the_extension_in_the_form_of_its_dialect"],
        Scope::Health | Scope::Ours => &["api::reports::regions_lists_the_registry_with_its_health"],
    }
}

#[test]
fn the_surface_is_what_the_table_says() {
    let text = markdown();
    if std::env::var_os(VARIABLE).is_some() {
        std::fs::write(path(FILE), &text).unwrap();
    }
    let file = std::fs::read_to_string(path(FILE)).unwrap_or_default();
    assert!(file == text, "{FILE} is out of date; run: {VARIABLE}=1 cargo test --test contract surface");
}

#[test]
fn every_way_that_a_call_can_go_is_shown_by_tests_that_exist() {
    for scope in scopes() {
        assert!(!shown_by(scope).is_empty(), "{}", scope.as_str());
        for test in shown_by(scope) {
            let (module, name) = test.rsplit_once("::").unwrap();
            let module = module.replace("::", "/");
            let files = [format!("tests/it/{module}.rs"), format!("tests/it/{module}/mod.rs")];
            let file = files.into_iter().find(|file| path(file).exists()).unwrap_or_else(|| panic!("{test}: no file"));
            assert!(read(&file).contains(&format!("fn {name}(")), "{test}");
        }
    }
}
