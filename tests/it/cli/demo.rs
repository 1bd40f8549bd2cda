//! The demo: its tour, what can be broken after it, and what it leaves behind.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use ojs_testbed::Authority;

use crate::support::{Client, command, eventually, program_path};

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
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Command::new(program_path())
        .args(["demo", "--port", "0", "--admin-port", "0"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let first_step = lines.by_ref().any(|line| line.unwrap().contains("An ordinary job"));
    assert!(first_step, "the tour has begun");
    let kill = format!("kill -INT {}", demo.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    lines.for_each(drop);
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What a line of the demo says behind these words, up to the next space.
fn word_after(lines: &[String], words: &str) -> String {
    let rest = lines.iter().find_map(|line| line.split_once(words)).unwrap_or_else(|| panic!("{words}: {lines:#?}")).1;
    rest.split(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn after_the_tour_jobs_stay_local_and_typed_lines_break_regions() {
    let folder = tempfile::tempdir().unwrap();
    // Both streams are one, as a terminal shows them.
    let script = format!("exec '{}' demo --port 0 --admin-port 0 2>&1", program_path().display());
    let mut demo = Command::new("sh")
        .args(["-c", &script])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let tour: Vec<String> = output.by_ref().take_while(|line| line != "ready: tour finished").collect();
    let client = Client::new(word_after(&tour, "  sidecar   http://").parse().unwrap());
    for number in 0..20 {
        let answer = client.enqueue(r#"{"type":"email.send","args":[]}"#).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (201, "us-east-1"), "job {number} after the tour");
    }
    check_text(&tour);
    let mut input = demo.stdin.take().unwrap();
    let status = async || client.get("/v1/federation/regions").await.json()["regions"][1]["status"].clone();
    let pinned = r#"{"type":"a","args":[],"meta":{"ojs.federation.region":"eu-west-1"}}"#;
    for (command, said, health) in [
        ("stop eu-west-1", "eu-west-1 is stopped", "unhealthy"),
        ("resume eu-west-1", "eu-west-1 is well again", "healthy"),
        ("silent eu-west-1", "eu-west-1 is silent", "unhealthy"),
        (&"stop ".repeat(200), "the line is longer than 256 bytes", "unhealthy"),
        ("slow eu-west-1", "eu-west-1 is slow", "healthy"),
        ("resume eu-west-1", "eu-west-1 is well again", "healthy"),
        ("break eu-west-1", "there is no command \"break\"", "healthy"),
        ("help", "stop REGION", "healthy"),
    ] {
        writeln!(input, "{command}").unwrap();
        assert!(output.by_ref().any(|line| line.contains(said)), "{command}");
        eventually(&format!("{command}: {health}"), async || status().await == health).await;
        if health == "unhealthy" {
            assert_eq!(client.enqueue(pinned).await.status, 503, "{command}");
        }
    }
    eventually("the region takes jobs again", async || client.enqueue(pinned).await.status == 201).await;
    // The end of the input is no end of the demo.
    drop(input);
    assert_eq!(client.enqueue(pinned).await.status, 201);
    assert!(Command::new("sh").args(["-c", &format!("kill -INT {}", demo.id())]).status().unwrap().success());
    output.for_each(drop);
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn with_a_hub_the_tour_ends_with_one_order_for_three_sidecars() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().to_str().unwrap().to_owned();
    let run = move || {
        command(&["demo", "--hub", "--tour-only", "--port", "0", "--admin-port", "0"], &[("TMPDIR", &temporary)], "")
    };
    let ended = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.all());
    let sent: Vec<&str> = ended.stdout.lines().filter_map(|line| line.split_once("  ->  ")).map(|(_, to)| to).collect();
    assert!(sent.len() == 3 && sent.iter().all(|to| ["eu-west-1", "ap-south-1"].contains(to)), "{}", ended.all());
    assert!(ended.stdout.ends_with("ready: tour finished\n"), "{}", ended.all());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What the tour prints: log lines stand above the step that follows them, and its commands can be typed.
fn check_text(tour: &[String]) {
    let place =
        |words: &str| tour.iter().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {tour:#?}"));
    let step = |number: u8| place(&format!("{number}. "));
    for (words, after) in [("to=\"open\"", 5), ("to=\"half-open\"", 7), ("to=\"closed\"", 7)] {
        let line = place(words);
        assert!(step(after) < line && line < step(after + 1), "{words}: {tour:#?}");
    }
    assert!(tour.iter().any(|line| line.contains("affinity, the usual strategy, is the local region")));
    let regions = tour.iter().find_map(|line| {
        line.trim().strip_suffix(&format!(" regions --address {}", word_after(tour, "  sidecar   http://")))
    });
    assert_eq!(regions, program_path().to_str());
    let grep = tour.iter().find_map(|line| line.split_once("| grep ")).unwrap().1;
    let pattern = regex_automata::meta::Regex::new(grep.trim_matches('\'')).unwrap();
    let sample = |value: u32| format!("ojs_federation_attempts_total{{region=\"a\",result=\"ok\"}} {value}");
    assert_eq!([0, 1, 20].map(|value| pattern.is_match(&sample(value))), [false, true, true]);
}

#[tokio::test]
async fn a_region_of_the_command_line_does_with_a_taken_id_what_it_is_told_and_says_so() {
    let arguments = ["region", "--listen", "127.0.0.1:0", "--duplicate-ids", "same"];
    let mut region = Command::new(program_path()).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(region.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<String> = lines.take_while(|line| !line.starts_with("ready:")).collect();
    let client = Client::new(word_after(&lines, " serves at http://").parse().unwrap());
    let uri = "urn:ojs:ext:experimental:duplicate-ids-same";
    let manifest = client.get("/ojs/manifest").await.json();
    let job = r#"{"id":"01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f","type":"t","args":[]}"#;
    let statuses = [client.enqueue(job).await.status.as_u16(), client.enqueue(job).await.status.as_u16()];
    region.kill().unwrap();
    region.wait().unwrap();
    assert_eq!((&manifest["extensions"][0], statuses), (&uri.into(), [201, 200]));
}

#[test]
fn a_region_whose_certificates_cannot_be_used_names_them_and_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a");
    let [ours, other] =
        ["ours", "other"].map(|stem| authority.server(&["localhost"]).write_to(folder.path(), stem).unwrap());
    let (cert, key, none) = (ours.cert.to_str().unwrap(), ours.key.to_str().unwrap(), "/nowhere/x.pem");
    let other = other.key.to_str().unwrap();
    for (options, code, told) in [
        (&["--tls-cert", cert][..], 2, "--tls-key <FILE>"),
        (&["--client-ca", cert], 2, "--tls-cert <FILE>"),
        (&["--tls-cert", none, "--tls-key", key], 1, "/nowhere/x.pem: No such file"),
        (&["--tls-cert", cert, "--tls-key", key, "--client-ca", none], 1, "/nowhere/x.pem: No such file"),
        (&["--tls-cert", cert, "--tls-key", other], 1, "the region cannot use its certificates: "),
    ] {
        let ended = command(&[&["region", "--listen", "127.0.0.1:0"], options].concat(), &[], "");
        assert!(ended.code == Some(code) && ended.stderr.contains(told), "{options:?}: {ended:?}");
    }
}
