//! The README's quick start does what it says.

use std::net::TcpListener;
use std::process::Command;

use crate::files::{judge, read};
use crate::support::program_path;

/// The ports of `config/dev.yaml` and of the README's commands.
const PORTS: [&str; 4] = ["8080", "8081", "8082", "9464"];

#[test]
fn the_quick_start_of_the_readme_runs_as_it_is_written() {
    if ["bash", "curl", "timeout"].iter().any(|tool| judge(tool, &["--version"], "").is_none()) {
        return;
    }
    let readme = read("README.md");
    let (_, rest) = readme.split_once("<!-- quick-start -->\n```\n").unwrap();
    let (commands, _) = rest.split_once("```").unwrap();
    // Ports that were free a moment ago stand for those that may be taken on this machine.
    let held: Vec<TcpListener> = PORTS.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let free: Vec<String> = held.iter().map(|held| held.local_addr().unwrap().port().to_string()).collect();
    drop(held);
    let elsewhere = |text: &str| {
        let places = PORTS.iter().enumerate();
        let marked =
            places.fold(text.to_owned(), |text, (at, port)| text.replace(&format!(":{port}"), &format!(":@{at}@")));
        free.iter().enumerate().fold(marked, |text, (at, port)| text.replace(&format!("@{at}@"), port))
    };
    let commands = commands.replace("ojs-sidecar await", "ojs-sidecar await --address 127.0.0.1:8080");
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("config")).unwrap();
    std::fs::write(dir.path().join("config/dev.yaml"), elsewhere(&read("config/dev.yaml"))).unwrap();
    let script = format!("trap 'kill $(jobs -p)' EXIT\n{}", elsewhere(&commands));
    let folder = program_path().parent().unwrap().to_owned();
    let search =
        std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    let output = Command::new("timeout")
        .args(["120", "bash", "-c", &script])
        .current_dir(dir.path())
        .env("PATH", search.unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // An answer's body ends without a line break, so that the next head may follow on the same line.
    let heads: Vec<&str> = said.split("HTTP/1.1 ").skip(1).map(|rest| &rest[..3]).collect();
    assert_eq!(heads, ["201", "201", "503"], "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let regions: Vec<String> = said
        .lines()
        .filter_map(|line| {
            line.to_ascii_lowercase().strip_prefix("ojs-federation-region: ").map(|it| it.trim().to_owned())
        })
        .collect();
    assert_eq!(regions[..2], ["us-east-1", "eu-west-1"], "{said}");
    assert!(said.contains(r#""reason":"region_unavailable""#), "{said}");
    assert!(said.contains(r#""healthy_regions""#), "the health of the federation is shown: {said}");
}
