//! Every command of the README and of the guides is run by a test, or is in a closed list with the reason why it is not.

use std::collections::BTreeSet;
use std::path::Path;

use super::blocks::{Block, all};
use super::guide::RUN;
use super::read;
use crate::support::command;

/// Why a block is not run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It builds the program; what builds the tests has done so.
    Build,
    /// `.ci/run` runs it.
    Checks,
    /// It takes minutes; `.ci/run` runs a shorter one.
    Long,
    /// It serves until it is ended; other blocks run it in the background.
    Serves,
    /// It needs a cluster.
    Cluster,
    /// It needs root and systemd.
    Systemd,
    /// It needs Docker and registries of images.
    Docker,
    /// It needs an outcome that is unknown, or a job that is set aside; tests of `outcomes` and `spool` make one.
    Unknown,
    /// Its program may not be installed; a contract test runs it where it is.
    Judge,
}

/// The blocks that are not run: the page, the first command, and why.
const EXCEPTIONS: &[(&str, &str, Why)] = &[
    ("README.md", "cargo run --release -- demo", Why::Checks),
    ("README.md", "cargo test --locked", Why::Checks),
    ("README.md", "cargo build --release", Why::Build),
    ("README.md", "ojs-sidecar run --config config.yaml", Why::Serves),
    ("docs/guide/demo.md", "cargo run --release -- demo", Why::Checks),
    ("docs/guide/demo.md", "docker compose -f deploy/compose/demo.yaml up --build", Why::Docker),
    ("docs/guide/demo.md", "cargo run --release -- demo --chaos 25", Why::Long),
    ("docs/guide/docker.md", "docker build -t ojs-sidecar:0.2.0 .", Why::Docker),
    ("docs/guide/docker.md", "docker compose -f deploy/compose/compose.yaml config --quiet", Why::Docker),
    ("docs/guide/docker.md", "docker compose -f deploy/compose/hub.yaml config --quiet", Why::Docker),
    ("docs/guide/docker.md", "docker compose -f deploy/compose/demo.yaml up --build", Why::Docker),
    ("docs/guide/first-federation.md", "cargo build --release", Why::Build),
    ("docs/guide/kubernetes.md", SECRET, Why::Cluster),
    ("docs/guide/kubernetes.md", "kubectl kustomize deploy/kubernetes/application", Why::Cluster),
    ("docs/guide/kubernetes.md", "kubectl exec POD -c ojs-sidecar -- /usr/local/bin/ojs-sidecar regions", Why::Cluster),
    ("docs/guide/kubernetes.md", HUB_SECRET, Why::Cluster),
    ("docs/guide/outcomes.md", SETTLE, Why::Unknown),
    ("docs/guide/running.md", "cargo build --release", Why::Build),
    ("docs/guide/running.md", "ojs-sidecar run --config config.yaml", Why::Serves),
    ("docs/guide/running.md", "promtool test rules deploy/prometheus/rules_test.yaml", Why::Judge),
    ("docs/guide/spool.md", "install -m 0600 /dev/null spool.key", Why::Judge),
    ("docs/guide/spool.md", "ojs-sidecar spool", Why::Unknown),
    ("docs/guide/systemd.md", INSTALL, Why::Systemd),
    ("docs/guide/systemd.md", "install -m 644 deploy/systemd/ojs-hub.service /etc/systemd/system/", Why::Systemd),
    ("docs/guide/systemd.md", "systemctl reload ojs-sidecar", Why::Systemd),
    ("docs/guide/upgrading.md", "systemctl enable --now ojs-sidecar.socket", Why::Systemd),
];

const SECRET: &str =
    "kubectl create secret generic ojs-us-east-1 --from-file=tls.crt --from-file=tls.key --from-file=ca.crt";
const HUB_SECRET: &str =
    "kubectl create secret generic ojs-hub-tls --from-file=tls.crt --from-file=tls.key --from-file=ca.crt";
const SETTLE: &str = "ojs-sidecar outcomes settle 01a2b3c4-5d6e-7f80-9a1b-2c3d4e5f6071 --absent --reason \"not in the \
                      region's database, ana\"";
const INSTALL: &str = "install -m 644 deploy/systemd/ojs-sidecar.sysusers.conf /usr/lib/sysusers.d/ojs-sidecar.conf && \
                       systemd-sysusers";

/// The commands of two words.
const TWO_WORDS: [[&str; 2]; 18] = [
    ["uwer", "convert"],
    ["uwer", "letters"],
    ["ledger", "jobs"],
    ["ledger", "job"],
    ["ledger", "forget"],
    ["pools", "put"],
    ["quotas", "put"],
    ["quotas", "list"],
    ["pools", "list"],
    ["pools", "delete"],
    ["regions", "put"],
    ["regions", "list"],
    ["regions", "delete"],
    ["outcomes", "settle"],
    ["spool", "retry"],
    ["spool", "discard"],
    ["audit", "export"],
    ["audit", "verify"],
];

/// Programs of others, and words of the shell, that blocks begin commands with.
const OTHERS: &str = "$as_owner [ bash cat cd chown curl cut do docker done echo export for grep head install journalctl kill kubectl mkdir \
                      openssl printf promtool rm sed systemctl systemd-sysusers tail tr true until wait while";

/// Whether a block is one that is not run.
pub fn is_excepted(block: &Block) -> bool {
    exception(block).is_some()
}

fn exception(block: &Block) -> Option<usize> {
    EXCEPTIONS.iter().position(|(page, first, _)| *page == block.page && *first == block.first())
}

#[test]
fn every_command_of_readme_and_guides_runs_or_is_excepted() {
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for block in all() {
        let place = format!("{}:{}: {}", block.page, block.line, block.first());
        match exception(&block) {
            Some(number) => {
                if !used.insert(number) {
                    wrong.push(format!("{place}: its exception is used twice"));
                }
            }
            None if RUN.contains(&block.page.as_str()) => {}
            None => wrong.push(format!("{place}: no test runs it")),
        }
        wrong.extend(mistakes(&block).into_iter().map(|mistake| format!("{place}: {mistake}")));
    }
    let unused = (0..EXCEPTIONS.len()).filter(|number| !used.contains(number));
    wrong.extend(unused.map(|number| format!("{:?} excepts nothing", EXCEPTIONS[number])));
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// What is wrong with a block, without running it: syntax, programs, files, commands and flags of ours.
fn mistakes(block: &Block) -> Vec<String> {
    let mut wrong = Vec::new();
    let syntax = std::process::Command::new("bash").args(["-n", "-c", &block.text]).output();
    if let Some(syntax) = syntax.ok().filter(|syntax| !syntax.status.success()) {
        wrong.push(String::from_utf8_lossy(&syntax.stderr).into_owned());
    }
    for words in &block.commands() {
        wrong.extend(unknown_files(words));
        if let Some(own) = own(words) {
            wrong.extend(unknown_options(own));
        }
        let known = OTHERS.split_whitespace().any(|other| other == words[0]);
        match words[0].as_str() {
            "ojs-sidecar" => {}
            "cargo" if matches!(words[1].as_str(), "build" | "run" | "test") => {}
            "make" if read("Makefile").lines().next().unwrap().split(' ').any(|target| target == words[1]) => {}
            _ if known || words[0].contains('=') => {}
            other => wrong.push(format!("{other} is no program that is known here")),
        }
    }
    wrong
}

/// The arguments of the program's own in a command: its name begins them, or stands behind `--`; or cargo runs it.
fn own(words: &[String]) -> Option<&[String]> {
    let is_name = |word: &str| word.rsplit('/').next() == Some("ojs-sidecar");
    let at = (0..words.len()).find(|at| is_name(&words[*at]) && (*at == 0 || words[at - 1] == "--"));
    let run = (words[0] == "cargo" && words[1] == "run").then(|| words.iter().position(|word| word == "--")).flatten();
    at.or(run).map(|at| &words[at + 1..])
}

/// The command, and the options, that the program does not have.
fn unknown_options(arguments: &[String]) -> Vec<String> {
    let is_word = |word: &&String| !word.starts_with('-');
    let name: Vec<&str> = match arguments {
        [group, name, ..] if TWO_WORDS.contains(&[group.as_str(), name.as_str()]) => vec![group, name],
        [first, ..] if is_word(&first) => vec![first],
        _ => vec![],
    };
    let help = command(&[&name[..], &["--help"]].concat(), &[], "");
    if help.code != Some(0) {
        return vec![format!("ojs-sidecar has no command {}", name.join(" "))];
    }
    let options = arguments.iter().filter(|word| word.starts_with("--") && word.len() > 2);
    let options = options.map(|word| word.split('=').next().unwrap_or_default());
    let words: BTreeSet<&str> = help.stdout.split(|c: char| c.is_whitespace() || c == ',').collect();
    let unknown = options.filter(|option| !words.contains(option));
    unknown.map(|option| format!("ojs-sidecar {} has no option {option}", name.join(" "))).collect()
}

/// The files of the source that a command names and that do not exist.
fn unknown_files(words: &[String]) -> Vec<String> {
    let folders = ["config/", "deploy/", "docs/", "tests/"];
    let named = words.iter().filter(|word| folders.iter().any(|folder| word.starts_with(folder)));
    let missing = named.filter(|name| !Path::new(env!("CARGO_MANIFEST_DIR")).join(name).exists());
    missing.map(|name| format!("{name} does not exist")).collect()
}

#[test]
fn a_wrong_command_is_seen() {
    let check = |text: &str| mistakes(&Block { page: String::new(), line: 1, text: text.to_owned() }).len();
    let table = [
        ("ojs-sidecar check --config a.yaml --strict\n", 0),
        ("ojs-sidecar chek --config a.yaml\n", 1),
        ("ojs-sidecar check --stricter --config=a.yaml\n", 1),
        ("x=1 && (ojs-sidecar run\n", 2),
        ("kubectl exec POD -c ojs-sidecar -- /usr/local/bin/ojs-sidecar region\n", 0),
        ("kubectl exec POD -c ojs-sidecar -- /usr/local/bin/ojs-sidecar regionz\n", 1),
        ("cargo run --release -- demo --chaoss 5\n", 1),
        ("install -m 644 deploy/systemd/nothing /etc/x\n", 1),
        ("crul -s localhost\n", 1),
        ("make relaese\n", 1),
    ];
    for (text, expected) in table {
        assert_eq!(check(text), expected, "{text}");
    }
}
