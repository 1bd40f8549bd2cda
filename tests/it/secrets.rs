//! No secret in any output: canaries in every place where an operator or a client may put one.

use crate::support::{Process, Setup, command};

const CANARY: &str = "xyzzy-plugh-42";
/// Taken apart, so that this file holds no key of its own.
const PEM: &str = concat!("-----BEGIN PRIVATE ", "KEY-----\\nxyzzy-plugh-42\\n-----END PRIVATE ", "KEY-----");

#[tokio::test]
async fn a_secret_in_the_wrong_place_of_a_configuration_is_never_repeated() {
    let stage = Setup::default().stage().await;
    let folder = stage.files.path();
    let good = std::fs::read_to_string(&stage.config).unwrap();
    let secret = folder.join("secret");
    std::fs::write(&secret, format!("{}\n", PEM.replace("\\n", "\n").replace("BEGIN", "BEGIN "))).unwrap();
    let key = folder.join("us-east-1-client.key.pem").display().to_string();
    let url = stage.regions[0].url();
    let region = |line: &str| good.replace(" id: us-east-1\n", &format!(" id: us-east-1\n  {line}\n"));
    for text in [
        region(&format!("bearer_token_file: {CANARY}")),
        region(&format!("bearer_token_file: \"{PEM}\"")),
        region(&format!("bearer_token: {CANARY}")),
        region(&format!("weight: {CANARY}")),
        region(&format!("forward_authorization: \"{CANARY}\"")),
        region(&format!("authorization: Bearer {CANARY}")),
        good.replace(&key, CANARY),
        good.replace(&format!("{key:?}"), &format!("\"{PEM}\"")),
        good.replace(&key, secret.to_str().unwrap()),
        good.replace("us-east-1.ca.pem", "secret"),
        good.replace(&url, &url.replace("://", &format!("://user:{CANARY}@"))),
        good.replace(&url, &format!("{url}/?token={CANARY}")),
        good.replace("local_region: us-east-1", &format!("local_region: {CANARY}!")),
        good.replace("federation_id: test", &format!("federation_id: [{CANARY}]")),
        format!("{good}password: \"{CANARY}\n"),
        format!("{good}: {CANARY}: {CANARY}"),
    ] {
        assert_ne!(text, good);
        let path = folder.join("broken.yaml");
        std::fs::write(&path, &text).unwrap();
        for name in ["check", "run"] {
            let ended = command(&[name, "--config", path.to_str().unwrap()], &[], "");
            assert_eq!(ended.code, Some(78), "{name}: {ended:?} of\n{text}");
            assert!(!ended.all().contains(CANARY), "{name}: {} of\n{text}", ended.all());
        }
    }
}

#[tokio::test]
async fn a_secret_in_a_variable_or_a_flag_is_never_repeated() {
    let stage = Setup::default().stage().await;
    let config = stage.config.to_str().unwrap();
    for key in
        ["log.level", "log.format", "listen.admin", "bearer_token", "regions", "limits.body_bytes", "listen.unix_mode"]
    {
        let variable = format!("OJSF_{}", key.to_ascii_uppercase().replace('.', "__"));
        let set = format!("{key}={CANARY}");
        for (flags, env) in [(&[][..], &[(variable.as_str(), CANARY)][..]), (&["--set", &set], &[])] {
            for name in ["check", "run"] {
                let ended = command(&[&[name, "--config", config], flags].concat(), env, "");
                assert_eq!(ended.code, Some(78), "{key}: {ended:?}");
                assert!(!ended.all().contains(CANARY), "{key}: {}", ended.all());
            }
        }
    }
    let ended = command(&["check", "--config", config, "--set", CANARY], &[], "");
    assert!(ended.code == Some(78) && !ended.all().contains(CANARY), "{ended:?}");
}

#[tokio::test]
async fn a_running_sidecar_shows_no_token_no_argument_no_meta_and_no_query_anywhere() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), CANARY).unwrap();
    let probes = "health_check: { interval: 50ms }";
    let stage =
        Setup::default().yaml(probes).region(1, &format!("bearer_token_file: {:?}", token.path())).stage().await;
    let settings = ["log.level=trace", "log.access=all"].map(|set| ["--set", set]).concat();
    let mut sidecar = Process::run(&stage.config, &settings).await;
    let address = sidecar.client_address.clone();
    let mut shown = Vec::new();
    for body in [
        format!(r#"{{"type":"t","args":["{CANARY}"],"meta":{{"user":"{CANARY}"}}}}"#),
        format!(r#"{{"type":"t","args":["{CANARY}"],"meta":{{"ojs.federation.region":"eu-west-1","u":"{CANARY}"}}}}"#),
        format!(r#"{{"type":"t","args":[],"meta":{{"ojs.federation.region":"{CANARY}!"}}}}"#),
        format!(r#"{{"type":"t","args":[],"meta":{{"ojs.federation.region_affinity":"{CANARY}"}}}}"#),
        format!(r#"{{"type":"{CANARY}","args":["{CANARY}"], {CANARY}"#),
        format!(r#"{{"type":"t","args":[],"meta":{{"{CANARY}":1,"{CANARY}":2,"ojs.federation.region":7}}}}"#),
    ] {
        let request = || {
            let authorization = format!("Bearer {CANARY}");
            http::Request::post(format!("/ojs/v1/jobs?q={CANARY}")).header("authorization", authorization)
        };
        let answer = sidecar.client.send(request(), body.clone()).await;
        // A region's own answer holds the job, and that is the client's to read.
        if !answer.status.is_success() {
            shown.push(format!("{answer:?}"));
        }
        shown.push(command(&["route", "-", "--address", &address], &[], &body).all());
    }
    sidecar.client.get(&format!("/ojs/v1/jobs/none?q={CANARY}")).await;
    shown.push(format!("{:?}", sidecar.client.get(&format!("/v1/federation/regions?q={CANARY}")).await));
    stage.regions[0].stop().await;
    stage.regions[1].stop().await;
    sidecar.wait_for_line("a health probe failed").await;
    for pin in ["eu-west-1", "us-east-1"] {
        let body = format!(r#"{{"type":"t","args":["{CANARY}"],"meta":{{"ojs.federation.region":"{pin}"}}}}"#);
        shown.push(format!("{:?}", sidecar.client.enqueue(body).await));
    }
    shown.push(format!(
        "{:?}",
        sidecar.client.raw(format!("GET /{CANARY} HTTP/1.1\r\n{CANARY}\r\n\r\n").as_bytes()).await
    ));
    shown.push(String::from_utf8_lossy(&sidecar.admin.get("/metrics").await.body).into_owned());
    shown.push(format!("{:?}", sidecar.admin.get(&format!("/readyz?q={CANARY}")).await));
    shown.push(command(&["regions", "--json", "--address", &address], &[], "").all());
    let record = stage.regions[1].record();
    let tokens =
        record.requests_to("/ojs/v1/jobs").iter().filter_map(|it| it.headers.get("authorization").cloned()).count();
    assert_eq!(tokens, 2, "the region itself gets the token, with the enqueue and with the look-up");
    sidecar.terminate();
    let (_, log) = sidecar.ended().await;
    assert!(log.iter().any(|line| line.contains("DEBUG")), "the log is at its most talkative: {log:?}");
    shown.extend(log);
    for text in shown {
        assert!(!text.contains(CANARY), "{text}");
    }
}
