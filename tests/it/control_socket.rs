//! The control socket: orders of operators where the admin listener is not on loopback.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::support::{Ended, Process, Setup, Stage, command, eventually, job};

const WHY: [&str; 6] = ["--reason", "storm ahead", "--ticket", "OPS-7", "--author", "ana"];
const INFO: [&str; 4] = ["--set", "log.level=info", "--set", "listen.admin=0.0.0.0:0"];

async fn run(arguments: &[&str]) -> Ended {
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let run = move || command(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn order(socket: &Path, arguments: &[&str]) -> Ended {
    run(&[arguments, &WHY[..], &["--socket", socket.to_str().unwrap()]].concat()).await
}

/// A stage whose sidecar has a control socket beside its configuration.
async fn stage() -> Stage {
    let stage = Setup::default().stage().await;
    let text = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, text + "\ncontrol: { socket: control.sock }\n").unwrap();
    stage
}

#[tokio::test]
async fn orders_over_the_control_socket_are_carried_out_where_the_admin_listener_refuses_them() {
    let stage = stage().await;
    let socket = stage.files.path().join("control.sock");
    let mut sidecar = Process::run(&stage.config, &INFO).await;
    let mode = std::fs::symlink_metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{mode:o}");
    let set = format!("/switches?switch=drain&region=us-east-1&for=1h&{}", "reason=r&ticket=t&author=a");
    let refused = sidecar.admin.call(http::Method::PUT, &set, "").await;
    let message = refused.json()["error"]["message"].to_string();
    assert!(refused.status == 403 && message.contains("control.socket"), "{refused:?}");
    let goes_to = async || sidecar.client.enqueue(job("a")).await.region().to_owned();
    assert_eq!(goes_to().await, "us-east-1");
    let done = order(&socket, &["drain", "us-east-1", "--for", "1h"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("drain us-east-1 until "), "{}", done.all());
    assert_ne!(goes_to().await, "us-east-1");
    assert_eq!(order(&socket, &["pause", "type", "mail", "--for", "1h"]).await.code, Some(0));
    let mail = sidecar.client.enqueue(r#"{"type":"mail","args":[]}"#).await;
    mail.check_error(503, "backend_error", "source_paused");
    let path = socket.to_str().unwrap();
    let shown = run(&["switches", "--socket", path]).await;
    assert!(
        shown.stdout.contains("drain us-east-1 until ") && shown.stdout.contains("pause type mail"),
        "{}",
        shown.all()
    );
    let level = run(&["log-level", "debug", "--for", "1m", "--socket", path]).await;
    assert!(level.code == Some(0) && level.stdout.contains("log level debug"), "{}", level.all());
    let settled = run(&["outcomes", "settle", "none", "--absent", "--reason", "r", "--socket", path]).await;
    assert!(settled.code == Some(1) && settled.stderr.contains("404"), "{}", settled.all());
    let both = run(&["switches", "--socket", path, "--address", "127.0.0.1:1"]).await;
    assert_eq!(both.code, Some(2), "{}", both.all());
    assert_eq!(order(&socket, &["undrain", "us-east-1"]).await.code, Some(0));
    assert_eq!(goes_to().await, "us-east-1");
    sidecar.terminate();
    let (status, log) = sidecar.ended().await;
    assert!(status.success() && !socket.exists(), "{log:?}");
    let gone = run(&["switches", "--socket", path]).await;
    assert!(gone.code == Some(1) && gone.stderr.contains("--socket"), "{}", gone.all());
}

#[tokio::test]
async fn the_socket_of_a_dead_process_is_replaced_and_that_of_a_live_one_is_not() {
    let stage = stage().await;
    let socket = stage.files.path().join("control.sock");
    // A process that was killed leaves its file.
    drop(UnixListener::bind(&socket).unwrap());
    let first = Process::run(&stage.config, &INFO).await;
    let listed = async || run(&["switches", "--socket", socket.to_str().unwrap()]).await.code;
    assert_eq!(listed().await, Some(0));
    let refused = Process::try_begin_under(&[], &stage.config, &INFO).await.err().unwrap().join("\n");
    assert!(refused.contains("control.socket") && refused.contains("another process listens at"), "{refused}");
    assert_eq!(listed().await, Some(0), "the first one has it still");
    drop(first);
    let text = std::fs::read_to_string(&stage.config).unwrap();
    for (path, words) in [("nowhere/c.sock", "does not exist"), ("ca.txt", "is a file that is no socket")] {
        std::fs::write(stage.files.path().join("ca.txt"), "x").unwrap();
        std::fs::write(&stage.config, text.replace("control.sock", path)).unwrap();
        let refused = Process::try_begin_under(&[], &stage.config, &INFO).await.err().unwrap().join("\n");
        assert!(refused.contains("control.socket") && refused.contains(words), "{path}: {refused}");
    }
}

#[tokio::test]
async fn the_control_socket_stays_where_it_is_until_a_restart() {
    let stage = stage().await;
    let socket = stage.files.path().join("control.sock");
    let sidecar = Process::run(&stage.config, &INFO).await;
    let text = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, text.replace("control.sock", "other.sock") + "idempotency: { ttl: 2h }\n").unwrap();
    sidecar.signal("HUP");
    sidecar.wait_for_line("configuration_reloaded").await;
    eventually("it says so", async || {
        sidecar.admin.get("/readyz").await.json()["notes"].to_string().contains("control.socket")
            || sidecar.log().iter().any(|line| line.contains("control.socket"))
    })
    .await;
    assert_eq!(run(&["switches", "--socket", socket.to_str().unwrap()]).await.code, Some(0));
    assert!(!stage.files.path().join("other.sock").exists());
}
