//! The commands of the README and of the guides, run as they are written.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ojs_testbed::Authority;

use super::blocks::{fenced, of};
use super::commands::is_excepted;
use super::read;
use crate::support::program_path;

/// The pages whose blocks are run, but those that are excepted.
pub const RUN: &[&str] = &[
    "README.md",
    "docs/guide/breakers.md",
    "docs/guide/clients.md",
    "docs/guide/demo.md",
    "docs/guide/first-federation.md",
    "docs/guide/hub.md",
    "docs/guide/kubernetes.md",
    "docs/guide/ledger.md",
    "docs/guide/outcomes.md",
    "docs/guide/runbook.md",
    "docs/guide/running.md",
    "docs/guide/upgrading.md",
    "docs/guide/uwer.md",
];

/// The ports of the pages and of `config/dev.yaml`.
const PORTS: [&str; 13] =
    ["8080", "8081", "8082", "8090", "8091", "8443", "8444", "9464", "9465", "9466", "9474", "9475", "5433"];
/// Commands that ask a sidecar where its clients reach it.
const ASKING: [&str; 6] = ["await", "job", "outcomes", "regions", "route", "why"];
/// Commands that ask its admin listener.
const ORDERING: [&str; 8] =
    ["drain", "throttle", "unthrottle", "maintenance", "pause", "resume", "switches", "undrain"];
/// The federation that pages speak to which start none themselves.
const STAGE: &str = "\
ojs-sidecar region --listen 127.0.0.1:8081 --id us-east-1 &
ojs-sidecar region --listen 127.0.0.1:8082 --id eu-west-1 &
ojs-sidecar run --config config.yaml &
ojs-sidecar await us-east-1 eu-west-1
";

/// What a page's commands wrote.
struct Said {
    out: String,
    all: String,
}

impl Said {
    /// The statuses of the answers whose heads were shown. A body ends without a line break, so that the next head may follow on its line.
    fn statuses(&self) -> Vec<&str> {
        self.out.split("HTTP/1.1 ").skip(1).map(|rest| &rest[..3]).collect()
    }

    /// The regions that these answers name.
    fn regions(&self) -> Vec<String> {
        let named = self.out.lines().map(str::to_ascii_lowercase);
        named.filter_map(|line| Some(line.strip_prefix("ojs-federation-region: ")?.trim().to_owned())).collect()
    }

    fn has(&self, text: &str) -> bool {
        self.out.contains(text)
    }
}

/// How many ports were looked at.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The ports of a text, replaced by free ones.
struct Ports(Vec<String>);

impl Ports {
    /// Free ports below those that the kernel gives to connections and to listeners on port 0, so that none is taken before it is used.
    fn take() -> Self {
        let is_free = |port: &u32| TcpListener::bind(format!("127.0.0.1:{port}")).is_ok();
        let next = || 10_000 + NEXT.fetch_add(1, Relaxed).wrapping_add(std::process::id().wrapping_mul(97)) % 20_000;
        Self(std::iter::repeat_with(next).filter(is_free).map(|port| port.to_string()).take(PORTS.len()).collect())
    }

    fn put(&self, text: &str) -> String {
        let places = PORTS.iter().enumerate();
        let marked =
            places.fold(text.to_owned(), |text, (at, port)| text.replace(&format!(":{port}"), &format!(":@{at}@")));
        self.0.iter().enumerate().fold(marked, |text, (at, port)| text.replace(&format!("@{at}@"), port))
    }
}

/// Runs a page's blocks as one session in a folder of its own, behind `before`; none where a tool is missing.
fn run(page: &str, before: &str, files: &[(&str, String)]) -> Option<Said> {
    let has = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    if let Some(missing) = ["bash", "curl", "openssl", "timeout"].iter().find(|tool| !has(tool)) {
        let line = format!("SKIPPED: {page}: {missing} is not installed\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        return None;
    }
    let blocks: Vec<String> = of(page).into_iter().filter(|it| !is_excepted(it)).map(|block| block.text).collect();
    assert!(!blocks.is_empty(), "{page} has nothing to run");
    let asking = |text: String, (name, port): (&str, &str)| {
        text.replace(&format!("ojs-sidecar {name}"), &format!("ojs-sidecar {name} --address 127.0.0.1:{port}"))
    };
    let names = ASKING.iter().map(|name| (*name, "8080")).chain(ORDERING.iter().map(|name| (*name, "9464")));
    // Those at a hub ask no sidecar; in quotes they are no such text.
    let at_hub = |text: String, order: &str| {
        text.replace(&format!("ojs-sidecar regions {order}"), &format!("ojs-sidecar 'regions' {order}"))
    };
    let whole = ["put", "list", "delete"].into_iter().fold(format!("{before}{}", blocks.concat()), at_hub);
    let commands = names.fold(whole, asking);
    let ports = Ports::take();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), ports.put(text)).unwrap();
    }
    let script = format!("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}", ports.put(&commands));
    Some(shell(page, folder.path(), &script))
}

fn shell(page: &str, folder: &Path, script: &str) -> Said {
    let own = program_path().parent().unwrap().to_owned();
    let search = std::env::var_os("PATH").unwrap();
    let search = std::env::join_paths([own].into_iter().chain(std::env::split_paths(&search))).unwrap();
    let output = Command::new("timeout")
        .args(["120", "bash", "-c", script])
        .current_dir(folder)
        .env("PATH", search)
        // On a busy machine a probe may take longer than the half second that the pages allow.
        .env("OJSF_HEALTH_CHECK__UNHEALTHY_THRESHOLD", "10")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = format!("{out}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{page}: {:?}\n{all}", output.status);
    Said { out, all }
}

/// The files of pages that speak to a federation which runs already.
fn staged(page: &str) -> Option<Said> {
    let job = r#"{"type":"a.b","args":[1],"meta":{"ojs.federation.region":"eu-west-1"}}"#.to_owned();
    run(page, STAGE, &[("config.yaml", read("config/dev.yaml")), ("job.json", job)])
}

#[test]
fn the_first_federation_runs_as_it_is_written() {
    let Some(said) = run("docs/guide/first-federation.md", "", &[]) else { return };
    assert_eq!(said.statuses(), ["201", "201", "201", "503", "201"], "{}", said.all);
    let regions = said.regions();
    assert_eq!(regions[..3], ["us-east-1", "eu-west-1", "eu-west-1"], "{}", said.all);
    assert_eq!(regions.last().map(String::as_str), Some("us-east-1"), "{}", said.all);
    for expected in [
        "refused: no client certificate",
        r#""reason":"region_unavailable""#,
        r#"ojs_federation_enqueues_total{region="eu-west-1",strategy="all"} 1"#,
        r#"ojs_federation_failovers_total{from_region="us-east-1""#,
        r#"ojs_federation_cross_region_total{from="us-east-1",to="eu-west-1"} 2"#,
    ] {
        assert!(said.has(expected), "{expected} is not in {}", said.all);
    }
}

#[test]
fn one_hub_and_then_two_drain_a_region_for_all_sidecars_as_the_guide_says() {
    let Some(said) = run("docs/guide/hub.md", "", &[]) else { return };
    assert_eq!((said.statuses(), said.regions()), (vec!["201"; 5], vec!["eu-west-1".to_owned(); 5]), "{}", said.all);
    for expected in [
        "pause queue email until ",
        "5 rows are as they were written",
        "6 rows are as they were written, row 1 to row 6",
        "the hash of --end is that of row 5",
        "trail-1: 6 rows, and the signed head over them",
        "7 rows of hub.example are as they were signed at ",
        "Signature Verified Successfully",
    ] {
        assert!(said.has(expected), "{expected} is not in {}", said.all);
    }
    let by_token = r#""caller":"token https://sso.example.com#ann","action":"switch_ended""#;
    assert!(said.has(by_token) && said.has(r#""author":"ann""#), "{}", said.all);
}

#[test]
fn a_task_of_a_legacy_sender_is_one_job_and_a_wrong_one_is_mended_as_the_guide_says() {
    let Some(said) = run("docs/guide/uwer.md", "", &[]) else { return };
    assert_eq!(said.statuses(), ["201", "201", "422", "201"], "{}", said.all);
    for expected in [
        r#""state":"PENDING_DISPATCH""#,
        r#""origin_service":"inventory-sync-service""#,
        r#""field":"Priority""#,
        "SERVICE",
        "dropped: ",
        r#""priority":"HIGH","originService":"inventory-sync-service""#,
        r#""type":"inventory.sync","args":["AAECAwQFBgc="]"#,
    ] {
        assert!(said.has(expected), "{expected} is not in {}", said.all);
    }
}

#[test]
fn a_job_is_in_the_ledger_and_its_evidence_is_checked_as_the_guide_says() {
    let Some(said) = run("docs/guide/ledger.md", "", &[]) else { return };
    for expected in [
        "invoice.send",
        // `printf '[4711]' | sha256sum`
        "sha256:aff632ce33d78111b4edc3289a3edaa1304db2240146476466fa01a9922f99f0",
        "3 records of 1 days are as they were signed, 0 of them withheld; 1 jobs",
        "Signature Verified Successfully",
        "erased: 1 jobs of acme, the content of 3 records",
        "the ledger has no such job in this part",
        "3 records of 1 days are as they were signed, 3 of them withheld; 0 jobs",
    ] {
        assert!(said.has(expected), "{expected} is not in {}", said.all);
    }
}

/// What the runbook is about: a tenant with two jobs that wait, and one that a lost worker has.
const TROUBLE: &str = r#"
enqueue() { curl -fs http://127.0.0.1:8080/ojs/v1/jobs -H 'content-type: application/json' -d "$1"; }
enqueue '{"type":"invoice.send","args":[7],"options":{"queue":"mail"},"meta":{"tenant_id":"other"}}'
curl -fs http://127.0.0.1:8080/ojs/v1/workers/fetch -H 'content-type: application/json' -d '{"queues":["mail"],"worker_id":"w1"}'
for args in 1 2; do enqueue "{\"type\":\"invoice.send\",\"args\":[$args],\"options\":{\"queue\":\"mail\"},\"meta\":{\"tenant_id\":\"acme\"}}"; done
until [ "$(ojs-sidecar ledger jobs $hub | grep -cE 'leased|enqueued')" = 3 ]; do sleep 0.2; done
"#;

#[test]
fn an_operator_follows_the_runbook_as_it_is_written() {
    let regions = "insecure_dev: true\nregions:\n  - { id: us-east-1, url: \"http://127.0.0.1:8081\" }\n  - { id: eu-west-1, url: \"http://127.0.0.1:8082\" }\naccess:";
    let stage = of("docs/guide/ledger.md").remove(0).text.replacen("access:", regions, 1);
    let stage = stage.replacen("scopes: [read, operate, audit]", "scopes: [read, operate, audit, quota, backfill]", 1);
    let Some(said) = run("docs/guide/runbook.md", &format!("{stage}{TROUBLE}"), &[]) else { return };
    assert_eq!(said.statuses(), ["503"], "the tenant is paused: {}", said.all);
    let canceled = said.out.lines().filter(|line| line.contains(" canceled ") && line.contains(" acme ")).count();
    assert_eq!((canceled, said.out.matches("in us-east-1: cancelled").count()), (2, 3), "{}", said.all);
    for expected in [
        r#""reason":"source_paused""#,
        "acme    *     20000         500    delay",
        "2 jobs at 20 a second",
        "in us-east-1: leased",
        "in us-east-1: replayed as ",
        "in us-east-1: canceled",
        "maintenance until ",
        "ended: maintenance",
    ] {
        assert!(said.has(expected), "{expected} is not in {}", said.all);
    }
}

#[test]
fn a_type_that_fails_is_stopped_and_goes_on_as_the_guide_says() {
    let Some(said) = run("docs/guide/breakers.md", "", &[]) else { return };
    for expected in ["3 of 3", "scheduled_at", "operator: release 7.2 was rolled back", "there is no such incident"] {
        assert!(said.has(expected), "{expected} is not in {}", said.all);
    }
}

#[test]
fn the_quick_start_runs_as_it_is_written() {
    let Some(said) = run("docs/guide/demo.md", "", &[("config/dev.yaml", read("config/dev.yaml"))]) else { return };
    assert_eq!(said.statuses(), ["201", "201", "503"], "{}", said.all);
    assert_eq!(said.regions()[..2], ["us-east-1", "eu-west-1"], "{}", said.all);
    assert!(said.has(r#""reason":"region_unavailable""#) && said.has(r#""healthy_regions""#), "{}", said.all);
}

#[test]
fn the_configuration_of_the_readme_is_one_that_check_takes() {
    let [(_, config)] = &fenced(&read("README.md"), "yaml")[..] else { panic!("README has one configuration") };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.yaml"), config).unwrap();
    for region in ["us-east-1", "eu-west-1"] {
        std::fs::create_dir(folder.path().join(region)).unwrap();
        let identity = Authority::new(region).client("sidecar").write_to(folder.path(), region).unwrap();
        std::fs::rename(identity.cert, folder.path().join(region).join("client.pem")).unwrap();
        std::fs::rename(identity.key, folder.path().join(region).join("client.key")).unwrap();
    }
    let commands: String = of("README.md").into_iter().filter(|it| !is_excepted(it)).map(|it| it.text).collect();
    let said = shell("README.md", folder.path(), &format!("set -eu\n{commands}"));
    assert!(said.has("max_redirects: 3"), "{}", said.all);
}

#[test]
fn commands_for_a_running_sidecar_run_as_they_are_written() {
    for page in ["docs/guide/running.md", "docs/guide/kubernetes.md", "docs/guide/upgrading.md"] {
        staged(page);
    }
    let Some(said) = staged("docs/guide/clients.md") else { return };
    assert_eq!((said.statuses(), said.regions()), (vec!["201"], vec!["eu-west-1".to_owned()]), "{}", said.all);
}

#[test]
fn a_call_that_is_repeated_with_its_key_is_answered_again_as_the_guide_says() {
    let Some(said) = staged("docs/guide/outcomes.md") else { return };
    assert_eq!(said.statuses(), ["201", "201"], "{}", said.all);
    assert_eq!(said.all.to_ascii_lowercase().matches("ojs-federation-replayed: true").count(), 1, "{}", said.all);
}
