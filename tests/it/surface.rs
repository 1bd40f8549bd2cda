//! `docs/reference/endpoints.md`: every endpoint and where it goes, written from what three regions receive of each call.
//!
//! The rows are those by which the program recognises calls; what a row says is held against what the regions record, so that no
//! call can go another way than its row.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ojs_sidecar::ojs::{Endpoint, IdAt, Operation, Paging, Scope, surface};
use ojs_sidecar::policy::Repeat;
use serde_json::json;

use crate::support::{Client, Federation, Setup, pinned};

const FILE: &str = "docs/reference/endpoints.md";
const VARIABLE: &str = "SURFACE_UPDATE";
/// What every call is about lives here; the local region is another one.
const HOME: &str = "eu-west-1";

const INTRODUCTION: &str = "# Endpoints

Every endpoint of OJS servers that the sidecar knows, and the regions that its calls reach. The endpoints that the sidecar answers itself are on
[a page of their own](api.md). A test sends each of these calls to a running sidecar with three regions; the jobs, workers and definitions of
these calls live in a remote region. The test writes this file from what the regions received: `SURFACE_UPDATE=1 cargo test --test it surface`.

`{}` stands for one segment of a path, `{*}` for one or more. A path below `/ojs/` that is not here goes to the local region; it is never
a 404 of the sidecar's own. Reads and administration may name their region with `OJS-Federation-Region: R` or `?region=R`, and go
there alone. The answer names the regions that it is made of in the header of the same name.

| column | meaning |
|---|---|
| received by, answered by | `local` is the local region, `its own` the remote region that holds the job or definition, `all` every region |
| sent again | what the sidecar itself repeats. `elsewhere`: in the next region, when nothing was sent or the region refused the whole call. `there`: in the same region, because a second call changes nothing or is recognised. Empty: the call is sent once |

Heartbeats are those of a worker without jobs. A read by name is also the question by which its region is found, so all regions receive it.
";

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn sent_again(endpoint: &Endpoint) -> &'static str {
    match endpoint.scope {
        Scope::Enqueue | Scope::Batch | Scope::Bulk | Scope::Define => "elsewhere",
        _ => match Repeat::of(endpoint.operation, endpoint.path.ends_with("/nack")) {
            Repeat::Never => "",
            Repeat::Ack | Repeat::Nack | Repeat::Freely => "there",
        },
    }
}

/// Three regions, a sidecar in the first one, and one in the region that holds what calls are about.
struct Stage {
    federation: Federation,
    beside: Client,
    /// The second sidecar, which ends when this is dropped.
    _running: Box<dyn std::any::Any>,
}

/// What became of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    received: &'static str,
    answered: &'static str,
}

/// What a call is about.
struct Subject {
    job: String,
    /// What stands in the path.
    name: String,
}

impl Stage {
    async fn start() -> Self {
        let breaker = "circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }";
        let federation = Setup::default().steered().by_the_documents().yaml(breaker).start().await;
        let beside = federation.sidecar_in(HOME, &[]).await;
        Self { federation, beside: beside.client, _running: Box::new(beside) }
    }

    /// Makes what a call is about, anew, because an earlier call may have removed it.
    async fn subject(&self, endpoint: &Endpoint, method: &str) -> Subject {
        let client = &self.federation.client;
        let job = client.enqueue(pinned(HOME, "surface")).await.job_id();
        let names = |prefix: &str| endpoint.path.contains(&format!("{prefix}/{{"));
        let name = match () {
            () if names("/workers") => {
                let beat = json!({ "worker_id": "w1", "active_jobs": [] }).to_string();
                assert_eq!(self.beside.post("/ojs/v1/workers/heartbeat", beat).await.status, 200);
                if endpoint.path.ends_with("{*}") && method == "POST" { "w1/quiet" } else { "w1" }.to_owned()
            }
            () if names("/cron") || names("/crons") => {
                client.post("/ojs/v1/cron", cron("nightly")).await;
                "nightly".to_owned()
            }
            () if names("/workflows") => {
                let answer = client.post("/ojs/v1/workflows", workflow()).await;
                answer.json()["workflow"]["id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
            }
            // Anything of a queue that has no row of its own.
            () if endpoint.path.ends_with("/queues/{*}") => "q/zz".to_owned(),
            () if names("/queues") => "q".to_owned(),
            () if names("/bulk") => "cancel".to_owned(),
            () if is_about_a_job(endpoint) => job.clone(),
            () => "zz".to_owned(),
        };
        Subject { job, name }
    }

    /// Sends one call, and tells which regions received it and which are named in the answer.
    async fn send(&self, endpoint: &Endpoint, method: &str) -> Seen {
        let subject = self.subject(endpoint, method).await;
        let path = endpoint.path.replacen("{*}", "{}", 1).replacen("{}", &subject.name, 1);
        let path = path.replace("{*}", "zz").replace("{}", "zz");
        let body = if method == "GET" { String::new() } else { body(endpoint, &subject) };
        self.federation.regions.iter().for_each(|region| region.record().clear());
        let mut wire = self.federation.client.wire().await;
        let length = body.len();
        let kind = "application/openjobspec+json";
        wire.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await;
        // Streams never end; their head says all that is asked here.
        let (_, headers) = wire.head().await;
        let has_received = |place: &usize| {
            let requests = self.federation.regions[*place].record().requests_to(&path);
            let is_it = |target: &str| target.split('?').next() == Some(path.as_str());
            requests.iter().any(|request| request.method == method && is_it(&request.path))
        };
        let received: Vec<usize> = (0..3).filter(has_received).collect();
        let named = headers["ojs-federation-region"].to_str().unwrap();
        let answered: Vec<usize> =
            named.split(", ").filter_map(|id| crate::support::IDS.iter().position(|known| *known == id)).collect();
        Seen { received: words(&received, "none"), answered: words(&answered, "the sidecar") }
    }
}

fn words(regions: &[usize], none: &'static str) -> &'static str {
    match regions {
        [] => none,
        [0] => "local",
        [1] => "its own",
        [0, 1] => "local and its own",
        [0, 1, 2] => "all",
        _ => "some",
    }
}

fn is_about_a_job(endpoint: &Endpoint) -> bool {
    matches!(endpoint.scope, Scope::Owner(IdAt::Path))
}

fn pin() -> serde_json::Value {
    json!({ "ojs.federation.region": HOME })
}

fn cron(name: &str) -> String {
    json!({ "name": name, "cron": "0 0 1 1 *", "type": "a", "args": [], "meta": pin() }).to_string()
}

fn workflow() -> String {
    let step = json!({ "id": "s", "type": "a", "args": [], "meta": pin(), "options": { "queue": "slow" } });
    json!({ "name": "w", "steps": [step] }).to_string()
}

fn body(endpoint: &Endpoint, subject: &Subject) -> String {
    let job = json!({ "type": "a", "args": [], "meta": pin() });
    let id = &subject.job;
    match endpoint.scope {
        Scope::Enqueue => job.to_string(),
        Scope::Batch | Scope::Bulk => json!({ "jobs": [job] }).to_string(),
        Scope::Define if endpoint.operation == Operation::WorkflowWrite => workflow(),
        Scope::Define => cron("other"),
        Scope::Owner(IdAt::Body) => json!({ "job_id": id, "progress": 0.5, "error": { "message": "m" } }).to_string(),
        Scope::ByIds if endpoint.operation == Operation::JobResults => json!({ "ids": [id] }).to_string(),
        Scope::ByIds => json!({ "job_ids": [id] }).to_string(),
        Scope::Fetch => json!({ "queues": ["none"], "worker_id": "w2" }).to_string(),
        Scope::Heartbeat => json!({ "worker_id": "w2", "active_jobs": [] }).to_string(),
        Scope::Owner(IdAt::Path) | Scope::Named | Scope::Worker => String::new(),
        _ => "{}".to_owned(),
    }
}

/// By whom a call of a scope may be received.
fn may_be_received_by(scope: Scope, method: &str) -> &'static [&'static str] {
    let is_read = method == "GET";
    match scope {
        Scope::Enqueue | Scope::Batch | Scope::Bulk | Scope::Define | Scope::Owner(_) | Scope::ByIds => &["its own"],
        Scope::Worker if is_read => &["all"],
        // The question by which a cron job is found is the read of it.
        Scope::Named if is_read => &["all", "its own"],
        Scope::Named | Scope::Worker => &["its own"],
        // Of a worker that has no job; where it has, its own tests show.
        Scope::Heartbeat => &["local"],
        Scope::List(_) | Scope::Sum | Scope::QueueStats | Scope::QueueControl | Scope::Manifest => &["all"],
        Scope::AllRegions | Scope::QueueDefinition if !is_read => &["all"],
        Scope::AllRegions | Scope::QueueDefinition | Scope::Fetch => &["local"],
        Scope::Local | Scope::Scheduling | Scope::EventStream | Scope::Tunnel => &["local"],
        Scope::Health | Scope::Ours => &["none"],
    }
}

/// Drives every row, and returns what was seen of each: one entry where all its methods go alike.
async fn drive() -> Vec<(Endpoint, Vec<(&'static str, Seen)>)> {
    let stage = Stage::start().await;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for endpoint in surface() {
        let methods = if endpoint.methods.is_empty() { METHODS.to_vec() } else { endpoint.methods.clone() };
        let mut seen: Vec<(&'static str, Seen)> = Vec::new();
        for method in methods {
            let one = stage.send(&endpoint, method).await;
            let allowed = may_be_received_by(endpoint.scope, method);
            if !allowed.contains(&one.received) || one.answered == "some" {
                wrong.push(format!("{method} {}: {one:?}, not received by {allowed:?}", endpoint.path));
            }
            seen.push((method, one));
        }
        rows.push((endpoint, seen));
    }
    assert!(wrong.is_empty(), "calls go another way than their rows say:\n{}", wrong.join("\n"));
    rows
}

/// `local`, or `GET local, PUT all` where methods go different ways.
fn by_method(seen: &[(&'static str, Seen)], of: impl Fn(&Seen) -> &'static str) -> String {
    let words: BTreeSet<&str> = seen.iter().map(|(_, seen)| of(seen)).collect();
    if words.len() == 1 {
        return words.into_iter().collect();
    }
    let each: Vec<String> = seen.iter().map(|(method, seen)| format!("{method} {}", of(seen))).collect();
    each.join(", ")
}

fn markdown(rows: &[(Endpoint, Vec<(&'static str, Seen)>)]) -> String {
    let mut text = String::from(INTRODUCTION);
    text.push_str(
        "\n| method | path | operation | class | goes to | received by | answered by | body | sent again |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for (endpoint, seen) in rows {
        let methods = if endpoint.methods.is_empty() { "any".to_owned() } else { endpoint.methods.join(", ") };
        let (operation, class) = (endpoint.operation.as_str(), endpoint.class.as_str());
        let (goes_to, again) = (goes_to(endpoint.scope), sent_again(endpoint));
        let (received, answered) = (by_method(seen, |seen| seen.received), by_method(seen, |seen| seen.answered));
        let _ = writeln!(
            text,
            "| {methods} | `{}` | `{operation}` | `{class}` | {goes_to} | {received} | {answered} | {} | {again} |",
            endpoint.path, endpoint.body
        );
    }
    text.push_str("\n## What shows it\n\nWhole-program tests below `tests/it/`, with jobs that routing or a pin has put into a remote region.\n\n");
    text.push_str("| goes to | tests |\n|---|---|\n");
    for scope in scopes() {
        let tests: Vec<String> = shown_by(scope).iter().map(|test| format!("`{test}`")).collect();
        let _ = writeln!(text, "| {} | {} |", goes_to(scope), tests.join(", "));
    }
    text
}

/// Where calls of a scope go, in words.
const fn goes_to(scope: Scope) -> &'static str {
    match scope {
        Scope::Enqueue => "the region that routing chooses",
        Scope::Batch | Scope::Bulk => "the regions that routing chooses; one where that is possible",
        Scope::Define => "one region: its pin, else by routing",
        Scope::Owner(_) => "the region that holds the job",
        Scope::ByIds => "the regions that hold the jobs; with a filter, all, summed",
        Scope::Fetch => "the local region; for queues of `workers.remote_fetch` then others",
        Scope::Heartbeat => "every region that the worker holds jobs of or fetched from",
        Scope::List(Paging::Names) => "all regions, united by name",
        Scope::List(_) => "all regions, merged page by page",
        Scope::Sum | Scope::QueueStats => "all regions, summed",
        Scope::QueueControl => "all regions, or the local one (`queues.control`)",
        Scope::QueueDefinition => "read in one region; written to all, or to the local one (`queues.control`)",
        Scope::Worker => "read in all regions; changed in those that know the worker, else in all",
        Scope::Named => "the region where it lives",
        Scope::AllRegions => "read in one region, written to all",
        Scope::Local => "the local region",
        Scope::Scheduling => "the local region; with pools, answered by the sidecar",
        Scope::EventStream => "the job's region, or the local region for a queue",
        Scope::Tunnel => "the local region, as a tunnel",
        Scope::Manifest => "the local region, else any, with the federation extension added",
        Scope::Health | Scope::Ours => "answered by the sidecar",
    }
}

/// Every scope of the table, once for each wording.
fn scopes() -> Vec<Scope> {
    let mut seen = BTreeSet::new();
    surface().map(|endpoint| endpoint.scope).filter(|scope| seen.insert(goes_to(*scope))).collect()
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
        Scope::Scheduling => {
            &["workers::scheduling::pools_are_changed_in_the_configuration_and_without_any_the_region_is_asked"]
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

#[tokio::test]
async fn the_surface_is_what_the_regions_receive() {
    let text = markdown(&drive().await);
    if std::env::var_os(VARIABLE).is_some() {
        std::fs::write(file(FILE), &text).unwrap();
    }
    let written = std::fs::read_to_string(file(FILE)).unwrap_or_default();
    assert!(written == text, "{FILE} is out of date; run: {VARIABLE}=1 cargo test --test it surface");
}

#[test]
fn every_way_that_a_call_can_go_is_shown_by_tests_that_exist() {
    for scope in scopes() {
        assert!(!shown_by(scope).is_empty(), "{}", goes_to(scope));
        for test in shown_by(scope) {
            let (module, name) = test.rsplit_once("::").unwrap();
            let module = module.replace("::", "/");
            let files = [format!("tests/it/{module}.rs"), format!("tests/it/{module}/mod.rs")];
            let file =
                files.into_iter().find(|file| self::file(file).exists()).unwrap_or_else(|| panic!("{test}: no file"));
            assert!(std::fs::read_to_string(self::file(&file)).unwrap().contains(&format!("fn {name}(")), "{test}");
        }
    }
}
