//! What the demo leaves behind.

use crate::support::{command, program_path};

#[test]
fn a_demo_that_cannot_start_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let temporary = [("TMPDIR", folder.path().to_str().unwrap())];
    let ended = command(&["demo", "--port", &port, "--admin-port", "0"], &temporary, "");
    assert!(ended.code == Some(1) && ended.stderr.contains("--port and --admin-port choose others"), "{ended:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_tour_ends_with_130_and_leaves_no_files() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let mut demo = std::process::Command::new(program_path())
        .args(["demo", "--port", "0", "--admin-port", "0"])
        .env("TMPDIR", folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let first_step = lines.by_ref().any(|line| line.unwrap().contains("An ordinary job"));
    assert!(first_step, "the tour has begun");
    let kill = format!("kill -INT {}", demo.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    lines.for_each(drop);
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
