//! Who is who: a region that cannot prove its name gets nothing, and credentials go where they belong.

use std::time::Duration;

use ojs_testbed::{DemoRegion, Identity, RegionTls};

use crate::support::{Federation, Setup, eventually, job, pinned};

/// Longer than the interval of probes, jitter included.
const PROBE_DUE: Duration = Duration::from_secs(12);

fn quiet(http2: bool) -> Setup {
    let setup = Setup::default().steered().regions(2).yaml("limits: { worker_threads: 1 }");
    if http2 { setup.http2() } else { setup }
}

/// All regions' authorities are trusted for this one, as if there were only one: what tells regions apart is their name.
fn shared_trust(setup: Setup, identity: &str) -> Setup {
    let files =
        "ca: \"{dir}/all.ca.pem\", cert: \"{dir}/us-east-1-client.cert.pem\", key: \"{dir}/us-east-1-client.key.pem\"";
    setup.region(0, &format!("tls: {{ {files}, {identity} }}"))
}

/// The local region shows another identity, on connections of which the sidecar has none yet.
async fn shows(federation: &Federation, identity: Identity) {
    let region = &federation.regions[0];
    region.set_server(identity).unwrap();
    region.cut_connections().await;
    region.record().clear();
}

/// A pinned job is refused, a flexible one goes elsewhere, and not one byte of either reached the local region.
async fn check_refused(federation: &Federation) {
    let answer = federation.client.enqueue(pinned("us-east-1", "only-here")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "region_unavailable"));
    let answer = federation.client.enqueue(job("anywhere")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("ojs-federation-attempts"), Some("2"));
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    check_untouched(&federation.regions[0]);
    let failovers = r#"failovers_total{from_region="us-east-1",reason="tls"}"#;
    assert_eq!(federation.metric(failovers).await, 1.0);
}

fn check_untouched(region: &DemoRegion) {
    let record = region.record();
    assert_eq!(record.requests().len(), 0);
    assert!(record.raw_bytes().iter().all(bytes::Bytes::is_empty), "{:?}", record.raw_bytes());
}

/// How often a state is read before the clock moves again: a probe that is under way when the clock moves runs out of
/// its time, so the clock stands still until that probe has had a second.
const LOOKS: usize = 200;

/// Advances to the next probe of the local region and waits for its verdict.
async fn probed(federation: &Federation, health: &str) {
    let mut looks = 0;
    eventually(health, async || {
        if looks % LOOKS == 0 {
            federation.advance(PROBE_DUE);
        }
        looks += 1;
        federation.health(0) == health
    })
    .await;
}

/// The next probes, one at a time, until the local region is unhealthy for its TLS: the first one may have met a
/// connection that was just cut.
async fn refused_by_tls(federation: &Federation) -> serde_json::Value {
    let mut looks = 0;
    eventually("a handshake that fails", async || {
        if last_error(federation).await["reason"] == "tls" {
            return true;
        }
        if looks % LOOKS == 0 {
            federation.advance(PROBE_DUE);
        }
        looks += 1;
        false
    })
    .await;
    why(federation).await
}

#[tokio::test]
async fn a_region_with_another_regions_valid_certificate_gets_no_byte() {
    for http2 in [false, true] {
        let federation = quiet(http2).start().await;
        let names = ["localhost", "us-east-1.test", "127.0.0.1"];
        shows(&federation, federation.authorities[1].server(&names)).await;
        check_refused(&federation).await;
        probed(&federation, "unhealthy").await;
        check_untouched(&federation.regions[0]);
    }
}

#[tokio::test]
async fn with_one_authority_for_all_another_regions_name_gets_no_byte() {
    let federation = shared_trust(quiet(false), "server_name: us-east-1.test").start().await;
    assert_eq!(federation.client.enqueue(job("a")).await.header("ojs-federation-region"), Some("us-east-1"));
    shows(&federation, federation.authorities[1].server(&["localhost", "eu-west-1.test", "127.0.0.1"])).await;
    check_refused(&federation).await;
}

#[tokio::test]
async fn an_expired_certificate_gets_no_byte() {
    let federation = quiet(false).start().await;
    shows(&federation, federation.authorities[0].expired_server(&["localhost"])).await;
    check_refused(&federation).await;
}

/// A federation in which the certificate of the local region, or ours for it, ends soon; a job has got there before.
async fn brief(http2: bool, of_region: bool) -> Federation {
    // Long enough that a connection comes about before the end, on a machine that is busy, too.
    for seconds in [2, 4, 8, 16, 32] {
        // Nothing but that end may close a connection.
        let yaml = "limits: { worker_threads: 1, connection_lifetime: 1h, pool_idle_timeout: 1h }";
        let setup = Setup::default().regions(2).yaml(yaml).yaml("health_check: { interval: 1h }");
        let stage = if http2 { setup.http2() } else { setup }.stage().await;
        let (authority, valid) = (&stage.authorities[0], Duration::from_secs(seconds));
        if of_region {
            stage.regions[0].set_server(authority.brief_server(&["localhost", "127.0.0.1"], valid)).unwrap();
        } else {
            authority.brief_client("sidecar", valid).write_to(stage.files.path(), "us-east-1-client").unwrap();
        }
        let federation = stage.launch();
        eventually("the first round of probes", async || federation.admin.get("/readyz").await.status == 200).await;
        if federation.client.enqueue(pinned("us-east-1", "before")).await.status == 201 {
            return federation;
        }
    }
    panic!("no job gets there before the end");
}

#[tokio::test]
async fn no_call_begins_on_a_connection_whose_certificates_have_ended() {
    for (http2, of_region) in [(false, true), (true, true), (false, false), (true, false)] {
        let federation = brief(http2, of_region).await;
        eventually(&format!("a job is refused, {http2} {of_region}"), async || {
            let answer = federation.client.enqueue(pinned("us-east-1", "after")).await;
            assert!(answer.status == 201 || answer.reason() == "region_unavailable", "{answer:?}");
            answer.status == 503
        })
        .await;
    }
}

#[tokio::test]
async fn an_expected_server_name_replaces_the_host_of_the_url() {
    let federation = shared_trust(quiet(false), "server_name: us-east-1.test").start().await;
    shows(&federation, federation.authorities[0].server(&["us-east-1.test"])).await;
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    shows(&federation, federation.authorities[0].server(&["localhost", "127.0.0.1"])).await;
    check_refused(&federation).await;
}

#[tokio::test]
async fn an_expected_uri_must_be_the_only_one_and_exactly_this_one() {
    let federation = shared_trust(quiet(false), "uri_san: \"spiffe://east/ojs\"").start().await;
    assert_eq!(federation.health(0), "unhealthy", "its certificate has no URI");
    let authority = &federation.authorities[0];
    shows(&federation, authority.server(&["spiffe://east/ojs"])).await;
    probed(&federation, "healthy").await;
    let answer = federation.client.enqueue(pinned("us-east-1", "a")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)], "{answer:?}");
    for others in
        [&["spiffe://east/ojs2", "localhost"][..], &["spiffe://east/ojs", "spiffe://west/ojs"], &["localhost"]]
    {
        shows(&federation, authority.server(others)).await;
        let answer = federation.client.enqueue(pinned("us-east-1", "b")).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "region_unavailable"), "{others:?}");
        check_untouched(&federation.regions[0]);
    }
}

#[tokio::test]
async fn a_region_that_does_not_accept_our_certificate_fails_over() {
    for http2 in [false, true] {
        let federation = quiet(http2).start().await;
        let region = &federation.regions[0];
        // From now on it wants clients of another authority, as after a rotation that we missed.
        let server = federation.authorities[0].server(&["localhost"]);
        let tls = RegionTls { server, client_ca_pem: Some(federation.authorities[1].ca_pem()) };
        region.set_tls(&tls).unwrap();
        region.cut_connections().await;
        region.record().clear();
        check_refused(&federation).await;
    }
}

#[tokio::test]
async fn a_region_that_misses_a_certificate_of_ours_is_unhealthy_and_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "s3cr3t\n").unwrap();
    let setup = quiet(false).region(0, "tls: { ca: \"{dir}/us-east-1.ca.pem\" }");
    let federation = setup.region(0, &format!("bearer_token_file: {token:?}")).start().await;
    assert_eq!(federation.health(0), "unhealthy");
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    check_untouched(&federation.regions[0]);
}

#[tokio::test]
async fn authorization_travels_to_the_local_region_and_a_token_to_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "s3cr3t\n").unwrap();
    let setup = Setup::default().steered().region(1, &format!("bearer_token_file: {token:?}"));
    let federation = setup.start().await;
    let dropped =
        async |region: &str| federation.metric(&format!(r#"dropped_authorizations_total{{region="{region}"}}"#)).await;
    for (place, id, received) in
        [(0, "us-east-1", Some("Bearer mine")), (1, "eu-west-1", Some("Bearer s3cr3t")), (2, "ap-south-1", None)]
    {
        let request = http::Request::post("/ojs/v1/jobs").header("authorization", "Bearer mine");
        let answer = federation.client.send(request, pinned(id, "a")).await;
        assert_eq!(federation.stored(&answer.job_id()), [(place, 1)]);
        let requests = federation.regions[place].record().requests_to("/ojs/v1/jobs");
        let authorization = requests[0].headers.get("authorization").map(|value| value.to_str().unwrap());
        assert_eq!(authorization, received, "{id}");
        assert_eq!(dropped(id).await, if place == 0 { 0.0 } else { 1.0 });
    }
    assert_eq!(federation.seen("Bearer mine"), [0]);
    assert_eq!(federation.seen("s3cr3t"), [1], "probes carry the token, too, and only there");
}

/// Why the local region is unhealthy, as the API says.
async fn last_error(federation: &Federation) -> serde_json::Value {
    federation.client.get("/v1/federation/regions").await.json()["regions"][0]["last_error"].take()
}

/// Why the local region is unhealthy, as the API says; the same words are in `/readyz`.
async fn why(federation: &Federation) -> serde_json::Value {
    let error = last_error(federation).await;
    let ready = federation.admin.get("/readyz").await.json();
    let shown = &ready["regions"][0]["last_error"];
    assert_eq!(shown["reason"], error["reason"], "{ready}");
    if let Some(message) = error["message"].as_str() {
        assert!(shown["message"].as_str().unwrap().ends_with(message), "{ready}");
        assert!(error["address"].as_str().unwrap().contains("127.0.0.1:"), "{error}");
    }
    error
}

#[tokio::test]
async fn an_unhealthy_region_says_which_certificate_is_wrong_until_it_is_well() {
    let federation = quiet(false).start().await;
    let own = &federation.authorities[0];
    let names = ["localhost", "127.0.0.1"];
    for (identity, words) in [
        (
            federation.authorities[1].server(&names),
            "the region's server certificate is signed by no authority of tls.ca",
        ),
        (own.server(&["elsewhere.test"]), "the region's server certificate is for another name"),
        (own.expired_server(&names), "the region's server certificate has expired"),
    ] {
        shows(&federation, identity).await;
        let error = refused_by_tls(&federation).await;
        assert_eq!(error["status"], serde_json::Value::Null);
        assert!(error["message"].as_str().unwrap().starts_with(words), "{error}");
        shows(&federation, own.server(&names)).await;
        probed(&federation, "healthy").await;
        assert!(why(&federation).await.is_null());
    }
}

#[tokio::test]
async fn a_region_that_refuses_our_certificate_says_so() {
    let federation = quiet(false).start().await;
    let region = &federation.regions[0];
    let server = federation.authorities[0].server(&["localhost"]);
    let tls = RegionTls { server, client_ca_pem: Some(federation.authorities[1].ca_pem()) };
    region.set_tls(&tls).unwrap();
    region.cut_connections().await;
    let error = refused_by_tls(&federation).await;
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("the region refuses our client certificate (tls.cert)"), "{error}");
    let table = crate::support::command(&["regions", "--address", &federation.address().to_string()], &[], "");
    assert!(table.stdout.contains(message), "{}", table.stdout);
}
