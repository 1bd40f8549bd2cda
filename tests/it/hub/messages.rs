//! Messages of the hub and its commands for wrong inputs: each names an option or a key that exists.

use std::os::unix::fs::PermissionsExt as _;

use ojs_testbed::Authority;

use super::INFO;
use super::postgres::Postgres;
use super::sso::Sso;
use super::stage::HubStage;
use crate::support::{Ended, Process, command, eventually};

async fn run(arguments: Vec<String>) -> Ended {
    let run = move || command(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test]
async fn a_command_that_cannot_speak_to_a_hub_names_the_option_to_look_at() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    Authority::new("another").write_ca(&stage.path(""), "other").unwrap();
    let token = Sso::new("first").token("ann", "ojs:read");
    std::fs::write(stage.path("token"), token).unwrap();
    let (url, file) = (stage.url(), |name: &str| stage.path(name).to_str().unwrap().to_owned());
    let (ca, other, token) = (file("hub.ca.pem"), file("other.ca.pem"), file("token"));
    let (cert, wrong_key) = (file("ann.cert.pem"), file("eve.key.pem"));
    for (options, words) in [
        (vec!["--hub", &url], "no authority that this machine trusts: set --hub-ca"),
        (vec!["--hub", &url, "--hub-ca", &other], "no authority of --hub-ca"),
        (vec!["--hub", &url, "--hub-ca", &ca], "the hub wants a client certificate: set --hub-cert and --hub-key"),
        (vec!["--hub", &url, "--hub-ca", &ca, "--token-file", &token], "this hub takes no tokens"),
        (
            vec!["--hub", &url, "--hub-ca", &ca, "--hub-cert", &cert, "--hub-key", &wrong_key],
            "--hub-key: the private key",
        ),
        (vec!["--hub", &url, "--hub-ca", "/nowhere"], "--hub-ca: expected the path of a file"),
        (vec!["--hub", "https://127.0.0.1:1", "--hub-ca", &ca], "no hub answers at 127.0.0.1:1"),
    ] {
        let failed = run(["fleet"].iter().chain(&options).map(|it| (*it).to_owned()).collect()).await;
        assert!(failed.code == Some(1) && failed.stderr.contains(words), "{options:?}: {}", failed.all());
        let names_others = ["server_name", "uri_san", "tls.", "the region"].iter().any(|it| failed.stderr.contains(it));
        assert!(!names_others, "{options:?}: {}", failed.all());
        let is_unanswered = words.contains("no hub answers");
        assert_eq!(failed.stderr.contains("no hub answers"), is_unanswered, "{options:?}: {}", failed.all());
    }
    for words in [&["fleet"][..], &["audit", "export"]] {
        let wrong = run(words.iter().map(|it| (*it).to_owned()).collect()).await;
        assert!(wrong.code == Some(2) && wrong.stderr.contains("--hub <URL>"), "{}", wrong.all());
    }
}

#[tokio::test]
async fn a_second_hub_on_the_file_and_a_configuration_of_the_other_role_are_named() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let config = stage.write_config(0);
    let config = config.to_str().unwrap();
    let own = |words: &[&str]| run(words.iter().map(|it| (*it).to_owned()).collect());
    let held = own(&["hub", "--config", config]).await;
    assert!(held.code == Some(1) && held.stderr.contains("record.path: another hub"), "{}", held.all());
    let checked = own(&["hub", "--config", config, "--check"]).await;
    assert!(
        checked.code == Some(0) && checked.stdout.contains("the file of the record was not opened"),
        "{}",
        checked.all()
    );
    let of_hub = own(&["check", "--config", config]).await;
    assert!(
        of_hub.code == Some(78) && of_hub.stderr.contains("looks like the configuration of a hub"),
        "{}",
        of_hub.all()
    );
    let one = stage.federation("one", "").await;
    let of_sidecar = own(&["hub", "--config", one.config.to_str().unwrap()]).await;
    let words = "looks like the configuration of a sidecar";
    assert!(of_sidecar.code == Some(78) && of_sidecar.stderr.contains(words), "{}", of_sidecar.all());
}

#[tokio::test]
async fn a_hub_says_at_a_signal_that_its_changed_configuration_needs_a_restart() {
    let stage = HubStage::new("");
    let hub = stage.run().await;
    let config = stage.path("hub0.yaml");
    let before = std::fs::read_to_string(&config).unwrap();
    for (text, words) in [
        (format!("{before}\nlog: {{ level: debug }}\n"), "hub_restart_needed"),
        (before.replace("role: sidecar", "role: guest"), "hub_config_refused"),
    ] {
        std::fs::write(&config, text).unwrap();
        hub.hang_up();
        eventually("the hub says so", async || hub.log_has(&[words, "hub0.yaml"])).await;
    }
    assert!(!hub.log_has(&["hub_identity_refused"]));
}

#[tokio::test]
async fn a_sidecar_says_once_why_a_hub_could_not_be_opened_and_that_a_feed_was_lost() {
    let mut stage = HubStage::new("");
    let mut hub = stage.run().await;
    let address = stage.url().trim_start_matches("https://").parse().unwrap();
    // No server listens at the second address.
    stage.set_via(&[address, "127.0.0.1:1".parse().unwrap()]);
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    for _ in 0..2 {
        hub.kill();
        eventually("the sidecar has lost it", async || {
            count(&sidecar, "the feed of the hub is lost", &address.to_string()) > 0
        })
        .await;
        eventually("it tries the other one", async || count(&sidecar, "could not be opened", "127.0.0.1:1") > 0).await;
        hub = stage.run().await;
        stage.follows("one").await;
    }
    assert_eq!(count(&sidecar, "could not be opened", "127.0.0.1:1"), 1, "{:?}", sidecar.log());
    assert_eq!(count(&sidecar, "is lost", "127.0.0.1:1"), 0, "{:?}", sidecar.log());
}

/// The lines of a sidecar's log with these words about a URL.
fn count(sidecar: &Process, words: &str, url: &str) -> usize {
    sidecar.log().iter().filter(|line| line.contains("hub_lost") && line.contains(words) && line.contains(url)).count()
}

#[tokio::test]
async fn the_end_of_a_switch_names_no_author_where_the_feed_does_not() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    assert_eq!(stage.order("ann", &["maintenance", "on", "--for", "7d"]).await.code, Some(0));
    sidecar.wait_for_line("ojs.federation.switch_set").await;
    assert_eq!(stage.order("ann", &["maintenance", "off"]).await.code, Some(0));
    sidecar.wait_for_line("ojs.federation.switch_ended").await;
    let ended = sidecar.log().into_iter().find(|line| line.contains("switch_ended")).unwrap();
    assert!(ended.contains("ended at the hub") && !ended.contains("ana") && !ended.contains("OPS-7"), "{ended}");
}

#[tokio::test]
async fn a_database_that_refuses_the_role_is_reported_with_its_key_and_one_that_is_away_is_shown() {
    let stage = HubStage::new("");
    let Some(mut server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    let mut stage = stage.with_record(record.clone());
    let wrong = stage.path("wrong.password");
    std::fs::write(&wrong, "another").unwrap();
    std::fs::set_permissions(&wrong, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (start, rest) = record.split_once("password_file: ").unwrap();
    let end = rest.find([',', '}']).unwrap();
    stage.set_record_of(0, format!("{start}password_file: {wrong:?}{}", &rest[end..]));
    let config = stage.write_config(0).to_str().unwrap().to_owned();
    let refused = run(vec!["hub".to_owned(), "--config".to_owned(), config]).await;
    assert!(
        refused.code == Some(78) && refused.stderr.contains("look at `user` and `password_file`"),
        "{}",
        refused.all()
    );
    stage.set_record_of(0, record);
    let _hub = stage.run().await;
    assert!(!stage.command("ann", &["fleet"]).await.stdout.contains("does not answer"));
    server.kill();
    eventually("the inventory says so", async || {
        stage.command("ann", &["fleet"]).await.stdout.contains("the record of this hub does not answer")
    })
    .await;
}
