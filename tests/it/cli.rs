//! The commands, as processes of their own.

mod check;
mod demo;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::support::{Process, Setup, Stage, command};

const JOB: &str = r#"{"type":"email.send","args":["a"]}"#;

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

async fn staged() -> Stage {
    Setup::default().stage().await
}

#[test]
fn check_tells_five_mistakes_a_missing_file_and_a_warning_at_once_each_with_its_place_and_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let text = "local_region: mars\nregions:\n- id: us-east-1\n  url: http://us.example.com\n  wieght: 3\n  tls: { cert: /nowhere.pem }\n\
                health_check: { interval: 10 }\nlimits: { call_timeout: 40s }\n";
    let path = written(folder.path(), "config.yaml", text);
    let ended = command(&["check", "--config", path.to_str().unwrap()], &[], "");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(78), ""), "{ended:?}");
    let started = command(&["run", "--config", path.to_str().unwrap()], &[], "");
    assert_eq!((started.code, &started.stderr), (Some(78), &ended.stderr), "run tells the same");
    assert!(ended.stderr.contains("\n6 problems in the configuration\n"), "{}", ended.stderr);
    let warning = format!("warning: limits.call_timeout ({}:8): longer than the 30s", path.display());
    assert!(ended.stderr.contains(&warning) && ended.stderr.matches("warning: ").count() == 2, "{}", ended.stderr);
    let missing = format!(
        "  regions[0].tls.cert ({}:6): file not found (/nowhere.pem), expected PEM certificates\n",
        path.display()
    );
    assert!(ended.stderr.contains(&missing), "{}", ended.stderr);
    for (key, line, remedy) in [
        ("local_region", 1, "expected the id of a region listed under regions"),
        ("regions[0].url", 4, "expected https"),
        ("regions[0].wieght", 5, "did you mean weight?"),
        ("regions[0].tls.key", 6, "expected the private key"),
        ("health_check.interval", 7, "such as 250ms, 10s, 5min or 7d"),
    ] {
        let place = format!("  {key} ({}:{line}): ", path.display());
        let told = ended.stderr.lines().find_map(|it| it.strip_prefix(&place));
        assert!(told.is_some_and(|told| told.contains(remedy)), "{key} is not told in\n{}", ended.stderr);
    }
}

#[tokio::test]
async fn check_prints_the_effective_configuration_which_checks_as_itself() {
    let stage = staged().await;
    let first = command(&["check", "--config", stage.config.to_str().unwrap()], &[], "");
    assert_eq!((first.code, first.stderr.as_str()), (Some(0), ""), "{first:?}");
    assert!(first.stdout.contains("max_redirects: 3"), "defaults are shown: {}", first.stdout);
    let path = written(stage.files.path(), "effective.yaml", &first.stdout);
    let second = command(&["check", "--config", path.to_str().unwrap()], &[], "");
    assert_eq!((second.code, &second.stdout), (Some(0), &first.stdout), "{second:?}");
}

#[tokio::test]
async fn check_asks_the_regions_when_it_is_told_to_and_warns_of_those_that_do_not_answer() {
    let stage = staged().await;
    let config = stage.config.to_str().unwrap();
    let asked = command(&["check", "--ask", "--config", config], &[], "");
    assert_eq!((asked.code, asked.stderr.as_str()), (Some(0), ""));
    stage.regions[1].stop().await;
    let asked = command(&["check", "--ask", "--config", config], &[], "");
    assert_eq!(asked.code, Some(1), "a region that is down is no mistake in the configuration, but a failed check");
    assert!(asked.stderr.contains("warning: region eu-west-1: does not answer"), "{}", asked.stderr);
    assert_eq!(asked.stderr.lines().count(), 1, "{}", asked.stderr);
    let unasked = command(&["check", "--config", config], &[], "");
    assert_eq!((unasked.code, unasked.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn check_fails_for_warnings_when_it_is_strict_and_for_what_the_host_forbids() {
    let stage = staged().await;
    let config = stage.config.to_str().unwrap();
    let check = |arguments: &[&str]| command(&[&["check", "--config", config], arguments].concat(), &[], "");
    let late = ["--set", "limits.call_timeout=40s"];
    assert_eq!(check(&late).code, Some(0));
    assert_eq!(check(&[&late[..], &["--strict"]].concat()).code, Some(1));
    assert_eq!(check(&["--strict"]).code, Some(0));
    let socket = check(&["--set", "listen.clients=unix:/nowhere/s.sock"]);
    assert_eq!(socket.code, Some(1));
    assert!(socket.stderr.contains("unix:/nowhere/s.sock cannot be made: No such file"), "{}", socket.stderr);
    let journal = check(&["--set", "journal.path=/nowhere/journal"]);
    assert_eq!(journal.code, Some(0), "routing goes on without a journal's file");
    assert!(journal.stderr.contains("journal.path: /nowhere/journal cannot be written: No such"), "{}", journal.stderr);
}

/// An X.509 version 1 certificate, as `openssl x509 -req` writes it without extensions.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBFzCBvwIUSHi1LMMTXXH62v/lvWxqH+FfBJkwCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTEyNjA0MzcwM1oYDzIxMjYxMTAyMDQzNzAzWjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQlkgU1e/rCjV1z
7BZ/dZQj0y6krlQyvnyjNBUNCUHdbd7jAfaGBlU54r0L8hrZcxuTpDJ8QwygcJXE
5meR1yfrMAoGCCqGSM49BAMCA0cAMEQCICvE8WzroXFV7HIn6xKQblTKE99Z4Lmi
SEjFQedbVDezAiBdtnZwGKA5OvYdzx42fEOBdqPq+ta59L0WBi9H64FwHA==
-----END CERTIFICATE-----
";

#[tokio::test]
async fn a_key_of_another_certificate_and_an_old_certificate_are_named() {
    let stage = staged().await;
    let good = std::fs::read_to_string(&stage.config).unwrap();
    let ours = stage.files.path().join("us-east-1-client.cert.pem");
    let check = |from: &str, to: &std::path::Path, expected: String| {
        let path = written(stage.files.path(), "broken.yaml", &good.replace(from, to.to_str().unwrap()));
        let ended = command(&["check", "--config", path.to_str().unwrap()], &[], "");
        assert!(ended.code == Some(78) && ended.stderr.contains(&expected), "{expected}\n{}", ended.stderr);
    };
    let old = written(stage.files.path(), "old.pem", VERSION_1);
    let expected =
        format!("certificate {} is an X.509 version 1 certificate; reissue it with extensions", old.display());
    check(ours.to_str().unwrap(), &old, expected);
    let key = stage.files.path().join("eu-west-1-client.key.pem");
    let expected = format!("certificate {} and private key {} do not belong together", ours.display(), key.display());
    check(stage.files.path().join("us-east-1-client.key.pem").to_str().unwrap(), &key, expected);
}

#[tokio::test]
async fn a_certificate_that_ends_is_named_with_its_file_and_date() {
    let stage = staged().await;
    let old = stage.authorities[0].expired_server(&["old"]).write_to(stage.files.path(), "old").unwrap();
    let good = std::fs::read_to_string(&stage.config).unwrap();
    let text = good
        .replace(stage.files.path().join("us-east-1-client.cert.pem").to_str().unwrap(), old.cert.to_str().unwrap())
        .replace(stage.files.path().join("us-east-1-client.key.pem").to_str().unwrap(), old.key.to_str().unwrap());
    let path = written(stage.files.path(), "old.yaml", &text);
    let ended = command(&["check", "--config", path.to_str().unwrap()], &[], "");
    let warning = format!("region us-east-1: the client certificate in {} ended at ", old.cert.display());
    assert!(ended.code == Some(0) && ended.stderr.contains(&warning), "{ended:?}");
}

#[tokio::test]
async fn flags_win_over_variables_and_variables_over_files() {
    let stage = staged().await;
    let file = stage.config.to_str().unwrap();
    let check = |env: &[(&str, &str)], flags: &[&str], level: &str, region: &str| {
        let ended = command(&[&["check", "--config", file], flags].concat(), env, "");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for line in [format!("  level: \"{level}\"\n"), format!("local_region: \"{region}\"\n")] {
            assert!(ended.stdout.contains(&line), "no {line} in {}", ended.stdout);
        }
    };
    check(&[], &[], "warn", "us-east-1");
    let env = [("OJSF_LOG__LEVEL", "debug"), ("OJSF_LOCAL_REGION", "eu-west-1"), ("OTHER", "x")];
    check(&env, &[], "debug", "eu-west-1");
    check(&env, &["--set", "log.level=error", "--local-region", "ap-south-1"], "error", "ap-south-1");
}

#[test]
fn a_wrong_command_line_ends_with_2_and_says_what_is_known() {
    for (arguments, told) in [
        (&[][..], "Usage:"),
        (&["runn"], "run"),
        (&["run", "--confg", "x"], "--config"),
        (&["demo", "--port", "99999"], "--port"),
        (&["demo", "--port", "80x"], "expected a whole number from 0 to 65535"),
        (&["demo", "--chaos-seed", "1"], "--chaos <SECONDS>"),
        (&["demo", "--chaos", "soon"], "expected a whole number from 1 to 86400"),
        (&["demo", "--chaos", "1", "--chaos-regions", "none"], "refuse, same, overwrite, mixed"),
        (&["route"], "<FILE>"),
        (&["regions", "extra"], "extra"),
    ] {
        let ended = command(arguments, &[], "");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(told), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn help_names_every_command_and_every_option_and_ends_with_0() {
    let help = command(&["--help"], &[], "");
    for word in ["run", "check", "regions", "route", "await", "demo", "Exit codes: 0 done"] {
        assert!(help.code == Some(0) && help.stdout.contains(word), "{word} is not in\n{}", help.stdout);
    }
    for (name, options) in [
        ("run", &["--config <FILE>", "--set <KEY=VALUE>", "--local-region <ID>", "OJSF_"][..]),
        ("check", &["--config <FILE>", "--set <KEY=VALUE>"]),
        ("regions", &["--address <ADDRESS>", "--json"]),
        ("route", &["<FILE>", "--address <ADDRESS>", "--json"]),
        ("demo", &["--port <PORT>", "--admin-port <ADMIN_PORT>", "--tour-only", "--chaos <SECONDS>"]),
        ("demo", &["--chaos-enqueues <N>", "--chaos-kills <N>", "--chaos-seed <N>"]),
        ("demo", &["--chaos-regions <WHAT>", "--chaos-late-writes <DURATION>", "--chaos-hostile"]),
        ("demo", &["--chaos-http2", "--chaos-default-timings"]),
        ("region", &["--duplicate-ids <WHAT>", "--tls-cert <FILE>", "--tls-key <FILE>", "--client-ca <FILE>"]),
    ] {
        let help = command(&[name, "--help"], &[], "");
        assert!(help.code == Some(0) && help.stderr.is_empty(), "{help:?}");
        for option in options {
            assert!(help.stdout.contains(option), "{option} is not in\n{}", help.stdout);
        }
    }
}

#[test]
fn the_version_names_commit_target_and_processor_level() {
    let version = command(&["--version"], &[], "");
    let lines: Vec<&str> = version.stdout.lines().collect();
    assert_eq!(lines[0], concat!("ojs-sidecar ", env!("CARGO_PKG_VERSION")));
    let commit = lines[1].strip_prefix("commit: ").unwrap();
    assert!(commit == "unknown" || commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
    assert!(lines[2].starts_with("target: ") && lines[2].ends_with(" build, plain"), "{version:?}");
    assert!(lines[3].starts_with("processor: "), "{version:?}");
    let short = command(&["-V"], &[], "");
    assert_eq!(short.stdout, concat!("ojs-sidecar ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_name_every_command() {
    let script = command(&["completions", "bash"], &[], "");
    assert_eq!(script.code, Some(0));
    for name in ["run", "check", "regions", "outcomes", "route", "demo"] {
        assert!(script.stdout.contains(name), "{name}");
    }
    assert_eq!(command(&["completions", "cobol"], &[], "").code, Some(2));
}

#[test]
fn settings_that_cannot_be_meant_end_with_78() {
    for (arguments, told) in [
        (&["run"][..], "config/minimal.yaml"),
        (&["check", "--config", "/nowhere.yaml"], "/nowhere.yaml: file not found"),
        (&["check", "--set", "log.level"], "expected KEY=VALUE"),
        (
            &["check", "--set", "log.levle=info"],
            "log.levle (flag --set log.levle): there is no such key; did you mean level?",
        ),
        (&["check", "--set", "log=info"], "section"),
        (&["check", "--set", "regions[0].id=a"], "set in a file"),
        (&["check", "--set", "regions.0.bearer_token=a"], "name that file as bearer_token_file"),
    ] {
        let ended = command(arguments, &[], "");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(78), ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(told), "{arguments:?}: {}", ended.stderr);
    }
    let ended = command(&["check"], &[("OJSF_LOG__FORMAT", "yaml")], "");
    assert!(ended.stderr.contains("log.format (variable OJSF_LOG__FORMAT): expected one of text, json"), "{ended:?}");
}

#[tokio::test]
async fn a_file_that_does_not_fit_is_found_before_anything_is_bound() {
    let stage = staged().await;
    let other = stage.authorities[1].client("other").write_to(stage.files.path(), "other").unwrap();
    let good = std::fs::read_to_string(&stage.config).unwrap();
    let check = |from: &str, to: &str, key: &str, told: &str| {
        let text = good.replace(from, to);
        assert_ne!(text, good);
        let path = written(stage.files.path(), "broken.yaml", &text);
        for name in ["check", "run"] {
            let ended = command(&[name, "--config", path.to_str().unwrap()], &[], "");
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(78), ""), "{name}: {ended:?}");
            let at_a_line = format!("  {key} ({}:", path.display());
            assert!(ended.stderr.contains(&at_a_line) && ended.stderr.contains(told), "{name}: {}", ended.stderr);
        }
    };
    check("us-east-1-client.key.pem", "none.key", "regions[0].tls.key", "): file not found");
    check("us-east-1-client.key.pem", "config.yaml", "regions[0].tls.key", "): the file holds something else");
    let key = stage.files.path().join("us-east-1-client.key.pem");
    check(key.to_str().unwrap(), other.key.to_str().unwrap(), "regions[0]", "do not belong together");
}

#[tokio::test]
async fn regions_and_route_show_tables_over_tcp_and_over_a_unix_socket() {
    let stage = staged().await;
    let socket = format!("unix:{}", stage.files.path().join("s").display());
    let listen = format!("listen.clients=127.0.0.1:0,{socket}");
    let sidecar = Process::run(&stage.config, &["--set", "log.level=info", "--set", &listen]).await;
    let job =
        written(stage.files.path(), "job.json", r#"{"type":"x","args":[],"meta":{"ojs.federation.region":"mars"}}"#);
    for address in [sidecar.client_address.clone(), format!("http://{}/", sidecar.client_address), socket] {
        let table = command(&["regions", "--address", &address], &[], "");
        assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""), "{table:?}");
        let lines: Vec<&str> = table.stdout.lines().collect();
        assert_eq!(lines[0], "federation test");
        assert!(lines[1].starts_with("REGION      STATUS   BREAKER  LATENCY MS"), "{}", table.stdout);
        for (line, region) in lines[2..].iter().zip(&stage.regions) {
            let cells: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(cells[..3], [region.id(), "healthy", "closed"]);
            assert_eq!(*cells.last().unwrap(), region.url());
        }
        let table = command(&["route", "-", "--address", &address], &[], JOB);
        assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""), "{table:?}");
        let lines: Vec<&str> = table.stdout.lines().collect();
        assert_eq!((lines[0], lines.len()), ("target us-east-1, strategy affinity", 5), "{}", table.stdout);
        assert!(lines[2].starts_with("us-east-1") && lines[2].contains("healthy"), "{}", table.stdout);
        let table = command(&["route", job.to_str().unwrap(), "--address", &address], &[], "");
        assert!(table.stdout.contains("a live call would be refused with 400: the job is pinned"), "{table:?}");
    }
    assert!(stage.regions.iter().all(|region| region.jobs().is_empty()), "a dry run sends nothing");
}

#[tokio::test]
async fn json_is_the_sidecars_own_document_and_a_refusal_ends_with_1() {
    let federation = crate::support::Federation::start().await;
    let address = federation.address().to_string();
    let regions = command(&["regions", "--json", "--address", &address], &[], "");
    let document: serde_json::Value = serde_json::from_str(&regions.stdout).unwrap();
    assert_eq!((regions.code, document["regions"][1]["id"].as_str()), (Some(0), Some("eu-west-1")));
    let route = command(&["route", "-", "--json", "--address", &address], &[], JOB);
    let document: serde_json::Value = serde_json::from_str(&route.stdout).unwrap();
    assert_eq!((route.code, document["target_region"].as_str()), (Some(0), Some("us-east-1")));
    let route = command(&["route", "-", "--json", "--address", &address], &[], "{");
    let document: serde_json::Value = serde_json::from_str(&route.stdout).unwrap();
    assert_eq!((route.code, document["error"]["code"].as_str()), (Some(1), Some("invalid_payload")));
    let route = command(&["route", "-", "--address", &address], &[], "{");
    assert_eq!((route.code, route.stdout.as_str()), (Some(1), ""));
    assert!(route.stderr.starts_with("the sidecar answered 400: the body is not valid JSON"), "{}", route.stderr);
}

#[test]
fn whoever_asks_at_the_wrong_address_is_told_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let _ = socket.read(&mut head).unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").unwrap();
    });
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (address, told) in [
        (other.as_str(), "is no ojs-sidecar"),
        (&closed, "start one, or name another with --address"),
        ("unix:/nowhere.sock", "start one, or name another with --address"),
        ("8080", "expected host:port or unix:/path"),
    ] {
        let ended = command(&["regions", "--address", address], &[], "");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{address}: {ended:?}");
        assert!(ended.stderr.contains(told) && ended.stderr.contains(address), "{address}: {}", ended.stderr);
    }
    let ended = command(&["route", "/nowhere.json"], &[], "");
    assert_eq!((ended.code, ended.stderr.contains("/nowhere.json cannot be read")), (Some(1), true), "{ended:?}");
}

#[tokio::test]
async fn a_taken_port_ends_with_1_and_says_what_to_do() {
    let stage = staged().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for set in [format!("listen.clients={address}"), format!("listen.admin={address}")] {
        let ended = command(&["run", "--config", stage.config.to_str().unwrap(), "--set", &set], &[], "");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let told = format!("ojs-sidecar cannot start: {address} is taken; stop the process that listens there");
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    }
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = command(&["demo", "--port", &port, "--admin-port", "0"], &[], "");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("(--port and --admin-port choose others)"), "{}", ended.stderr);
}

#[tokio::test]
async fn await_ends_once_its_regions_are_healthy() {
    let stage = staged().await;
    stage.regions[1].stop().await;
    let fast =
        ["--set", "log.level=info", "--set", "health_check.interval=50ms", "--set", "circuit_breaker.cooldown=50ms"];
    let sidecar = Process::run(&stage.config, &fast).await;
    let address = sidecar.client_address.clone();
    let wait = move |more: &[&str]| command(&[&["await", "--address", &address], more].concat(), &[], "");
    let any = wait(&["--timeout", "1min"]);
    assert_eq!((any.code, any.all().as_str()), (Some(0), ""));
    for (region, told) in
        [("eu-west-1", "region eu-west-1 is unhealthy"), ("mars-1", "region mars-1 is not registered")]
    {
        let late = wait(&["us-east-1", region, "--timeout", "1s"]);
        assert_eq!(late.code, Some(1), "{late:?}");
        assert!(late.stderr.contains("not there after 1s") && late.stderr.contains(told), "{}", late.stderr);
    }
    let waiting = std::thread::spawn(move || wait(&["us-east-1", "eu-west-1", "--timeout", "1min"]));
    stage.regions[1].resume().await.unwrap();
    let there = tokio::task::spawn_blocking(move || waiting.join().unwrap()).await.unwrap();
    assert_eq!((there.code, there.all().as_str()), (Some(0), ""));
}

#[test]
fn await_says_that_no_sidecar_answers() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let ended = command(&["await", "--address", &closed, "--timeout", "10ms"], &[], "");
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("no sidecar answers") && ended.stderr.contains(&closed), "{}", ended.stderr);
}
