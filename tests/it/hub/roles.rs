//! The rights of the roles and scopes of certificates at the hub.

use http::Method;

use super::stage::{HubStage, status};
use crate::support::command;

#[tokio::test]
async fn each_role_and_scope_opens_its_own_endpoints_and_no_certificate_opens_none() {
    let stage = HubStage::new("");
    let hub = stage.run().await;
    stage.client("stranger", "spiffe://test/stranger");
    let why = "reason=r&ticket=t&author=a";
    let set = format!("/v1/hub/switches?switch=maintenance&for=1h&{why}");
    let end = format!("/v1/hub/switches?switch=maintenance&{why}");
    let region = format!("/v1/federation/regions/eu-west-1?{why}");
    let cells: [(Method, &str, [u16; 4]); 37] = [
        (Method::GET, "/v1/hub/switches", [403, 200, 200, 403]),
        (Method::PUT, &set, [403, 200, 403, 403]),
        (Method::DELETE, &end, [403, 200, 403, 403]),
        // Without a body it is no order, which only an operator who may give one gets to hear.
        (Method::POST, "/api/limits/throttle", [403, 400, 403, 403]),
        (Method::GET, "/v1/hub/sidecars", [403, 200, 200, 403]),
        (Method::GET, "/v1/hub/audit", [403, 200, 403, 403]),
        (Method::GET, "/v1/hub/feed?sidecar=x", [200, 403, 403, 403]),
        (Method::GET, "/v1/hub/outcomes", [403, 200, 200, 403]),
        (Method::GET, "/v1/hub/limits", [403, 200, 200, 403]),
        (Method::GET, "/v1/hub/promotions", [403, 200, 200, 403]),
        (Method::POST, "/v1/hub/promotions", [403, 400, 403, 403]),
        (Method::GET, "/v1/hub/promotions/x", [403, 404, 404, 403]),
        (Method::DELETE, "/v1/hub/promotions/x", [403, 404, 403, 403]),
        (Method::GET, "/v1/hub/figures", [200, 200, 200, 403]),
        (Method::PUT, "/v1/hub/figures", [400, 403, 403, 403]),
        (Method::POST, "/v1/hub/grants", [400, 403, 403, 403]),
        (Method::POST, "/v1/hub/reports", [400, 403, 403, 403]),
        (Method::POST, "/v1/hub/keys/claim", [400, 403, 403, 403]),
        (Method::POST, "/v1/hub/keys/settle", [400, 403, 403, 403]),
        (Method::POST, "/v1/hub/changes", [400, 403, 403, 403]),
        (Method::GET, "/v1/federation/regions", [200, 200, 200, 403]),
        // Without a body it is no region.
        (Method::PUT, &region, [403, 400, 403, 403]),
        (Method::DELETE, &region, [403, 404, 403, 403]),
        // This hub has no index, which only those get to hear who may read one.
        (Method::GET, "/v1/federation/jobs?job_id=a", [404, 404, 404, 403]),
        (Method::GET, "/v1/federation/jobs/a", [404, 404, 404, 403]),
        (Method::GET, "/v1/hub/index", [403, 403, 403, 403]),
        (Method::GET, "/v1/hub/copies?job_id=a", [403, 403, 403, 403]),
        // This hub reaches no region, which only those get to hear who may cancel a job or run one again.
        (Method::POST, "/api/jobs/a/cancel", [403, 404, 403, 403]),
        (Method::POST, "/api/jobs/a/replay", [403, 404, 403, 403]),
        (Method::GET, "/api/replays", [403, 200, 200, 403]),
        (Method::GET, "/api/replays/a", [403, 404, 404, 403]),
        (Method::GET, "/api/incidents", [403, 200, 200, 403]),
        (Method::GET, "/api/incidents/a", [403, 404, 404, 403]),
        (Method::POST, "/api/incidents/a/close", [403, 400, 403, 403]),
        // The scope `backfill` is needed for many jobs, and no operator of this hub has it.
        (Method::POST, "/api/replays", [403, 403, 403, 403]),
        (Method::DELETE, "/api/replays/a", [403, 403, 403, 403]),
        // Without a body it is no status, which only a sidecar gets to hear.
        (Method::PUT, "/v1/hub/status", [400, 403, 403, 403]),
    ];
    for (method, path, expected) in cells {
        for (who, expected) in ["pod", "ann", "eve", "stranger"].into_iter().zip(expected) {
            let (status, document) = status(&stage, who, &method, path).await;
            assert_eq!(status, expected, "{who} {method} {path}: {document}");
        }
    }
    assert_eq!(status(&stage, "ann", &Method::POST, "/v1/hub/switches").await.0, 405);
    assert_eq!(status(&stage, "ann", &Method::GET, "/v1/hub/other").await.0, 404);
    let bare =
        command(&["switches", "--hub", &stage.url(), "--hub-ca", stage.path("hub.ca.pem").to_str().unwrap()], &[], "");
    assert!(bare.code == Some(1) && bare.stderr.contains("client certificate"), "{}", bare.all());
    let metrics = hub.admin.get("/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("ojs_hub_sidecars 0"), "{metrics:?}");
    assert_eq!(hub.admin.get("/readyz").await.status, 200);
}
