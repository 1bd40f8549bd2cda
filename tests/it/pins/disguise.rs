//! Pinned jobs in disguise: each of these could be a job to some server, and must not reach a region that it is not meant for.

use super::body::{job, pin, pinned_job};
use super::call::{Call, Sight};
use super::script::{Script, text_of};
use crate::support::IDS;

/// A pinned job by a path that means `/ojs/v1/jobs` to somebody: refused whatever the pin says.
pub fn odd_path(script: &mut Script, mark: u64) -> Call {
    let region = script.below(IDS.len());
    let body = pinned_job(script, mark, region);
    let target = script.pick(&[
        "//ojs/v1/jobs",
        "/ojs//v1/jobs",
        "/ojs/v1/./jobs",
        "/ojs/v1/jobs/.",
        "/ojs/v1/x/../jobs",
        "/ojs/v1/x/%2e%2E/jobs",
        "/%6Fjs/v1/jobs",
        "/ojs/v1/%6aobs",
        "/ojs/v1/%256aobs",
        "/ojs%2Fv1%2fjobs",
        "/ojs/v1/jobs/",
        "/ojs/v1/jobs;a=b",
        "/ojs/v1;a/jobs",
        "/OJS/V1/JOBS",
        "/ojs/v1/Jobs/batch",
        "/ojs/v1/jobs/batch/",
        "/ojs/v1/cron//",
        "http://localhost/ojs/v1/jobs",
        "https://eu-west-1.test/ojs/v1/jobs",
        "/ojs\\v1\\jobs",
        "ojs/v1/jobs",
        "*",
    ]);
    // The absolute form of a host of ours is that host's path.
    let sight = if target == "http://localhost/ojs/v1/jobs" { Sight::Only(region) } else { Sight::Nobody };
    Call::new(script, mark, sight, ("POST", target), body.into())
}

/// A pinned job in an encoding that we do not read and some server may.
pub fn odd_encoding(script: &mut Script, mark: u64) -> Call {
    let region = script.below(IDS.len());
    let text = pinned_job(script, mark, region);
    let encoding = script.below(8);
    let body = match encoding {
        0 => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        1 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        2 => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        3 => format!("{}{text}{}", "[".repeat(65), "]".repeat(65)).into(),
        4 => format!("{text}{text}").into(),
        5 => [text.as_bytes(), b"\0"].concat(),
        6 => text.replace("\"note\"", "'note'").into(),
        _ => text.into_bytes(),
    };
    let target = script.pick(&["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/ojs/v1/cron"]);
    if encoding != 7 {
        return Call::new(script, mark, Sight::Nobody, ("POST", target), body);
    }
    let coding = script.pick(&["gzip", "identity", "x-none"]);
    let sight = if coding == "identity" { Sight::Only(region) } else { Sight::Nobody };
    Call::new(script, mark, sight, ("POST", target), body).header("Content-Encoding", coding)
}

/// A job whose pin is written so that two servers would read it in two ways, or that stands where it would be lost.
pub fn odd_job(script: &mut Script, mark: u64) -> Call {
    let (here, there) = (pin(script, 0), pin(script, 1));
    let attributes = |members: &str| format!("{{{members},\"note\":\"{}\"}}", text_of(mark));
    let (here, there) = (attributes(&here), attributes(&there));
    let plain = r#""type":"t","args":[]"#;
    let body = match script.below(12) {
        0 => format!(r#"{{{plain},"Meta":{there}}}"#),
        1 => format!(r#"{{{plain},"meta":{here},"meta":{there}}}"#),
        2 => format!(r#"{{{plain},"meta":{there},"m\u0065ta":{{}}}}"#),
        3 => format!(r#"{{{plain},"meta":{here},"options":{{"metadata":{there}}}}}"#),
        4 => format!(r#"{{{plain},"options":{{"Metadata":{there}}}}}"#),
        5 => format!(r#"{{{plain},"option\u017F":{{"metadata":{there}}}}}"#),
        6 => format!(r#"{{{plain},"options":{{"meta":{there}}}}}"#),
        7 => format!(r#"{{{plain},"callbacks":{{"on_success":{{"type":"t","meta":{there}}}}}}}"#),
        8 => format!(r#"{{"jobs":[{{{plain},"meta":{there}}}]}}"#),
        9 => format!(r#"{{{plain},{}"#, &there[1..]),
        10 => format!(r#"[{{{plain},"meta":{there}}}]"#),
        _ => job(script, mark, Some(r#""OJS.federation.region":"eu-west-1""#), None),
    };
    Call::new(script, mark, Sight::Nobody, ("POST", "/ojs/v1/jobs"), body.into())
}

/// A pinned job in a call that we do not know to create jobs.
pub fn odd_call(script: &mut Script, mark: u64) -> Call {
    let region = script.below(IDS.len());
    let body = pinned_job(script, mark, region).replace("nonsense", "geo-pin");
    let call = script.pick(&[
        ("PUT", "/ojs/v1/jobs"),
        ("QUERY", "/ojs/v1/jobs"),
        ("post", "/ojs/v1/jobs"),
        ("GET", "/ojs/v1/jobs"),
        ("DELETE", "/ojs/v1/jobs"),
        ("OPTIONS", "/ojs/v1/jobs/batch"),
        ("PUT", "/ojs/v1/jobs/0190"),
        ("POST", "/ojs/v1/jobs/schedule"),
        ("POST", "/ojs/v1/jobs/bulk/create"),
        ("POST", "/ojs/v1/queues/q/jobs"),
        ("POST", "/ojs/v1/cron/nightly/trigger"),
        ("POST", "/ojs/v2/jobs"),
        ("POST", "/ojs/V1/federation/route"),
        ("POST", "/ojs/v1/brand/new"),
        ("POST", "/elsewhere"),
    ]);
    let sight = if region == 0 { Sight::Only(0) } else { Sight::Nobody };
    let call = Call::new(script, mark, sight, call, body.into());
    match script.below(6) {
        0 => call.header("Connection", "Upgrade").header("Upgrade", "websocket"),
        1 => Call { method: "POST", target: "/ojs/v1/workers/ack".into(), ..call.hidden() }
            .header("X-Original-URL", "/ojs/v1/jobs"),
        2 => call.hidden().header("X-HTTP-Method-Override", "POST"),
        _ => call,
    }
}
