//! Bearer tokens of operators in place of client certificates.

use bytes::Bytes;
use http::Method;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use ojs_testbed::Authority;
use serde_json::Value;

use super::sso::{SECTION, Sso};
use super::stage::{Hub, HubStage, ask, connected, status};
use crate::support::{Ended, command, eventually};

async fn with_tokens() -> (HubStage, Sso, Hub) {
    let (stage, sso) = (HubStage::new(SECTION), Sso::new("first"));
    sso.publish(&stage);
    let hub = stage.run().await;
    (stage, sso, hub)
}

/// The status of a request with this certificate and this token.
async fn code(stage: &HubStage, who: Option<&str>, token: &str, method: &Method, path: &str) -> u16 {
    ask(stage, who, method, path, &[&format!("Bearer {token}")]).await.0.status.as_u16()
}

#[tokio::test]
async fn each_scope_of_a_token_opens_its_own_endpoints_and_without_credentials_nothing_is_readable() {
    let (stage, sso, _hub) = with_tokens().await;
    let why = "reason=r&ticket=t";
    let set = format!("/v1/hub/switches?switch=maintenance&for=1h&{why}");
    let end = format!("/v1/hub/switches?switch=maintenance&{why}");
    let scopes = ["ojs:read", "ojs:operate", "ojs:audit", "openid ojs:read ojs:operate ojs:audit", "openid", ""];
    let tokens = scopes.map(|scope| sso.token("ann", scope));
    let cells: [(Method, &str, [u16; 6]); 29] = [
        (Method::GET, "/v1/hub/switches", [200, 403, 403, 200, 403, 403]),
        (Method::PUT, &set, [403, 200, 403, 200, 403, 403]),
        (Method::DELETE, &end, [403, 200, 403, 404, 403, 403]),
        (Method::POST, "/api/limits/throttle", [403, 400, 403, 400, 403, 403]),
        (Method::GET, "/v1/hub/sidecars", [200, 403, 403, 200, 403, 403]),
        (Method::GET, "/v1/hub/outcomes", [200, 403, 403, 200, 403, 403]),
        (Method::GET, "/v1/hub/audit", [403, 403, 200, 200, 403, 403]),
        (Method::GET, "/v1/hub/feed?sidecar=x", [403; 6]),
        (Method::GET, "/v1/hub/limits", [200, 403, 403, 200, 403, 403]),
        (Method::GET, "/v1/hub/promotions", [200, 403, 403, 200, 403, 403]),
        (Method::POST, "/v1/hub/promotions", [403, 400, 403, 400, 403, 403]),
        (Method::GET, "/v1/hub/promotions/x", [404, 403, 403, 404, 403, 403]),
        (Method::DELETE, "/v1/hub/promotions/x", [403, 404, 403, 404, 403, 403]),
        (Method::GET, "/v1/hub/figures", [200, 403, 403, 200, 403, 403]),
        (Method::PUT, "/v1/hub/figures", [403; 6]),
        (Method::POST, "/v1/hub/grants", [403; 6]),
        (Method::POST, "/v1/hub/keys/claim", [403; 6]),
        (Method::POST, "/v1/hub/keys/settle", [403; 6]),
        (Method::POST, "/v1/hub/reports", [403; 6]),
        (Method::PUT, "/v1/hub/status", [403; 6]),
        (Method::POST, "/v1/hub/changes", [403; 6]),
        (Method::GET, "/v1/hub/index", [403; 6]),
        (Method::GET, "/v1/federation/regions", [200, 403, 403, 200, 403, 403]),
        (Method::PUT, "/v1/federation/regions/a", [403, 400, 403, 400, 403, 403]),
        (Method::DELETE, "/v1/federation/regions/a", [403, 400, 403, 400, 403, 403]),
        (Method::GET, "/v1/federation/jobs/a", [404, 403, 403, 404, 403, 403]),
        (Method::POST, "/v1/hub/switches", [405; 6]),
        (Method::GET, "/v1/hub/other", [404; 6]),
        (Method::GET, "/", [404; 6]),
    ];
    for (method, path, expected) in cells {
        for ((token, scope), expected) in tokens.iter().zip(scopes).zip(expected) {
            assert_eq!(code(&stage, None, token, &method, path).await, expected, "{scope:?} {method} {path}");
        }
        let (head, document) = ask(&stage, None, &method, path, &[]).await;
        assert_eq!((head.status.as_u16(), &head.headers["www-authenticate"]), (401, &"Bearer".parse().unwrap()));
        assert_eq!(document["error"]["code"], "unauthorized", "{method} {path}");
        let (head, _) = ask(&stage, None, &method, path, &["Bearer a.b.c"]).await;
        assert_eq!((head.status.as_u16(), &head.headers["www-authenticate"]), (401, &"Bearer".parse().unwrap()));
    }
    let (_, lacks) = ask(&stage, None, &Method::PUT, &set, &[&format!("Bearer {}", tokens[0])]).await;
    let message = lacks["error"]["message"].as_str().unwrap();
    assert!(message.contains("needs the scope operate") && message.contains("`tokens.scopes`"), "{message}");
    let (_, lacks) = ask(&stage, None, &Method::GET, "/v1/hub/feed", &[&format!("Bearer {}", tokens[3])]).await;
    assert!(lacks.to_string().contains("only the certificate of a sidecar"), "{lacks}");
    let in_query = format!("/v1/hub/switches?access_token={}", tokens[3]);
    assert_eq!(ask(&stage, None, &Method::GET, &in_query, &[]).await.0.status, 401);
}

#[tokio::test]
async fn certificates_prove_at_a_hub_with_tokens_what_they_prove_at_any_other() {
    let (stage, _, _hub) = with_tokens().await;
    stage.client("stranger", "spiffe://test/stranger");
    Authority::new("another").client("spiffe://test/ops/ann").write_to(&stage.path(""), "forged").unwrap();
    for (who, path, expected) in [
        ("ann", "/v1/hub/audit", 200),
        ("eve", "/v1/hub/audit", 403),
        ("pod", "/v1/hub/feed?sidecar=x", 200),
        ("stranger", "/v1/hub/switches", 403),
    ] {
        assert_eq!(status(&stage, who, &Method::GET, path).await.0, expected, "{who}");
    }
    let forged = stage.command("forged", &["switches"]).await;
    assert!(forged.code == Some(1) && forged.stderr.contains("client certificate"), "{}", forged.all());
}

#[tokio::test]
async fn a_token_decides_in_place_of_an_operators_certificate_and_is_refused_beside_a_sidecars() {
    let (stage, sso, _hub) = with_tokens().await;
    stage.client("stranger", "spiffe://test/stranger");
    let (reads, audits) = (sso.token("zoe", "ojs:read"), sso.token("zoe", "ojs:audit"));
    for (who, token, path, expected) in [
        ("ann", &reads, "/v1/hub/switches", 200),
        ("ann", &reads, "/v1/hub/audit", 403),
        ("eve", &audits, "/v1/hub/audit", 200),
        ("eve", &audits, "/v1/hub/switches", 403),
        ("stranger", &reads, "/v1/hub/switches", 200),
        ("ann", &"a.b.c".to_owned(), "/v1/hub/switches", 401),
        ("pod", &reads, "/v1/hub/switches", 400),
        ("pod", &reads, "/v1/hub/feed?sidecar=x", 400),
        ("pod", &"a.b.c".to_owned(), "/v1/hub/feed?sidecar=x", 400),
    ] {
        assert_eq!(code(&stage, Some(who), token, &Method::GET, path).await, expected, "{who} {path}");
    }
    let headers = [format!("bearer {reads}"), format!("Basic {reads}"), "Bearer".to_owned(), reads.clone()];
    for (header, expected) in headers.iter().zip([200, 401, 401, 401]) {
        let answered = ask(&stage, None, &Method::GET, "/v1/hub/switches", &[header]).await.0.status;
        assert_eq!(answered, expected, "{header}");
    }
    let twice = ask(&stage, None, &Method::GET, "/v1/hub/switches", &[&headers[0], &headers[0]]).await;
    assert_eq!(twice.0.status, 401);
    // A hub without the section takes none, and says so.
    let plain = HubStage::new("");
    let _plain = plain.run().await;
    let (head, document) = ask(&plain, Some("ann"), &Method::GET, "/v1/hub/switches", &[&headers[0]]).await;
    assert!(head.status == 400 && document.to_string().contains("takes no tokens"), "{document}");
}

#[tokio::test]
async fn changed_keys_are_used_and_those_that_cannot_be_read_change_nothing() {
    let (stage, old, hub) = with_tokens().await;
    let new = Sso::new("second");
    let token = |sso: &Sso| sso.token("ann", "ojs:read");
    let path = "/v1/hub/switches";
    let asked = async |sso: &Sso| code(&stage, None, &token(sso), &Method::GET, path).await;
    assert_eq!((asked(&old).await, asked(&new).await), (200, 401));
    for (broken, words) in [
        ("", "tokens.jwks_file: expected a JSON Web Key Set"),
        ("{\"keys\":[]}", "tokens.jwks_file: keys: expected at least one public key"),
        ("{\"keys\":[{\"kty\":\"EC\",\"d\":\"hidden\"}]}", "tokens.jwks_file: keys[0]: expected a public key"),
    ] {
        std::fs::write(stage.path("keys.json"), broken).unwrap();
        hub.hang_up();
        eventually("the hub says what is wrong", async || hub.log_has(&["hub_keys_refused", words])).await;
        assert_eq!((asked(&old).await, asked(&new).await), (200, 401), "{broken}");
    }
    assert!(!hub.log_has(&["hidden"]));
    new.publish(&stage);
    hub.hang_up();
    eventually("the new key is used", async || asked(&new).await == 200).await;
    let (head, document) = ask(&stage, None, &Method::GET, path, &[&format!("Bearer {}", token(&old))]).await;
    let message = document["error"]["message"].as_str().unwrap();
    assert!(head.status == 401 && message.contains("`kid`"), "{message}");
    assert!(hub.log_has(&["hub_keys_reloaded"]));
}

#[tokio::test]
async fn the_command_line_sends_the_token_of_a_file_and_the_trail_names_its_subject() {
    let (stage, sso, _hub) = with_tokens().await;
    let file = |name: &str, token: &str| {
        std::fs::write(stage.path(name), format!("{token}\n")).unwrap();
        stage.path(name).to_str().unwrap().to_owned()
    };
    let all = file("all", &sso.token("ann@corp", "ojs:read ojs:operate ojs:audit"));
    let (url, ca) = (stage.url(), stage.path("hub.ca.pem"));
    let run = async |token: &str, arguments: &[&str]| -> Ended {
        let hub = ["--hub", &url, "--hub-ca", ca.to_str().unwrap(), "--token-file", token];
        let all: Vec<String> = arguments.iter().chain(&hub).map(|it| (*it).to_owned()).collect();
        let run = move || command(&all.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    let why = ["--reason", "storm ahead", "--ticket", "OPS-7"];
    let drain = [&["drain", "us-east-1", "--force", "--for", "1h"], &why[..]].concat();
    let done = run(&all, &drain).await;
    assert!(done.code == Some(0) && done.stdout.contains("(OPS-7, ann@corp, set at the hub)"), "{}", done.all());
    // The name that somebody claims counts for nothing beside the proven one.
    let other = run(&all, &[&["undrain", "us-east-1"], &why[..], &["--author", "bob"]].concat()).await;
    assert_eq!(other.code, Some(0), "{}", other.all());
    let shown = run(&all, &["switches"]).await;
    assert!(shown.stdout.contains("no switch is in force"), "{}", shown.all());
    assert_eq!(run(&all, &["fleet"]).await.code, Some(0));
    let trail = run(&all, &["audit", "export"]).await;
    let rows: Vec<Value> = trail.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{}", trail.all());
    for row in rows {
        assert_eq!((&row["caller"], &row["author"]), (&"token https://sso.test#ann@corp".into(), &"ann@corp".into()));
    }
    for (token, words) in [
        (file("ended", &sso.token_for(-60, "ann", "ojs:operate")), "401: the token is refused: `exp`: it has expired"),
        (
            file("reads", &sso.token("ann", "ojs:read")),
            "403: `token https://sso.test#ann` has no right to this; it needs the scope operate",
        ),
        (file("empty", ""), "--token-file"),
        (file("two", "a b"), "expected a file with a bearer token"),
        (stage.path("missing").to_str().unwrap().to_owned(), "missing: expected a file with a bearer token"),
    ] {
        let refused = run(&token, &drain).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(words), "{}", refused.all());
    }
    let nameless = stage.command("ann", &drain).await;
    assert!(nameless.code == Some(2) && nameless.stderr.contains("--author"), "{}", nameless.all());
}

#[tokio::test]
async fn a_hub_whose_keys_cannot_be_used_does_not_start() {
    let stage = HubStage::new(SECTION);
    let path = stage.write_config(0);
    let run = |option: &[&str]| command(&[&["hub", "--config", path.to_str().unwrap()], option].concat(), &[], "");
    for (content, words) in [
        (None, "tokens.jwks_file: expected the path of a JSON Web Key Set"),
        (Some("-----BEGIN"), "tokens.jwks_file: expected a JSON Web Key Set"),
        (Some("{\"keys\":[{\"kty\":\"RSA\"}]}"), "tokens.jwks_file: keys: expected at least one public key"),
    ] {
        content.inspect(|content| std::fs::write(stage.path("keys.json"), content).unwrap());
        for option in [&[][..], &["--check"]] {
            let refused = run(option);
            assert!(refused.code == Some(78) && refused.stderr.contains(words), "{}", refused.all());
        }
    }
    Sso::new("a").publish(&stage);
    assert_eq!(run(&["--check"]).code, Some(0));
}

#[tokio::test]
async fn connections_without_a_certificate_take_no_places_of_the_others() {
    let (stage, sso, _hub) = with_tokens().await;
    let mut held = Vec::new();
    for _ in 0..256 {
        held.push(connected(&stage, None).await);
    }
    let token = sso.token("ann", "ojs:read");
    let answered = async |sender: &mut SendRequest<Full<Bytes>>| {
        let request = http::Request::get("/v1/hub/switches").header("host", "hub");
        let request = request.header("authorization", format!("Bearer {token}")).body(Full::default()).unwrap();
        sender.send_request(request).await.ok().map(|it| it.status().as_u16())
    };
    eventually("no place is left", async || {
        // Idle ones end after a while, so that a slow machine needs more of them.
        held.push(connected(&stage, None).await);
        answered(held.last_mut().unwrap()).await.is_none()
    })
    .await;
    assert_eq!(status(&stage, "ann", &Method::GET, "/v1/hub/switches").await.0, 200);
    drop(held);
    eventually("places are free again", async || answered(&mut connected(&stage, None).await).await == Some(200)).await;
}
