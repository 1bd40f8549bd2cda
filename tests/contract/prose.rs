//! What the documents must say, and must not say, whatever else is changed in them.

use crate::files::read;

/// The text below a heading, up to the next one of its level.
fn section(document: &str, heading: &str) -> String {
    let text = read(document);
    let (_, rest) = text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{document} has no {heading}"));
    let level = heading.split(' ').next().unwrap();
    rest.split(&format!("\n{level} ")).next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_guide_installs_sdks_from_their_own_repositories() {
    let guide = read("docs/guide/clients.md");
    for (language, repository) in
        [("Rust", "ojs-rust-sdk"), ("JavaScript", "ojs-js-sdk"), ("Python", "ojs-python-sdk"), ("Go", "ojs-go-sdk")]
    {
        let row = guide.lines().find(|line| line.starts_with(&format!("| {language} | "))).unwrap();
        assert!(row.contains(&format!("github.com/openjobspec/{repository}")), "{row}");
    }
    // Another project has the first name, and the second does not exist.
    for wrong in ["pip install ojs", "npm install @openjobspec/sdk", "npm i @openjobspec/sdk"] {
        assert!(!guide.contains(wrong) && !read("README.md").contains(wrong), "{wrong}");
    }
    assert!(guide.contains("github.com/openjobspec/ojs-cli") && guide.contains("github.com/openjobspec/ojs-admin-ui"));
}

#[test]
fn the_limits_name_what_others_may_expect_and_is_not_there() {
    let missing = read("docs/limits.md");
    for word in [
        "packages",
        "replicated",
        "journal.path",
        "Idempotency-Key",
        "without a report",
        "not identified",
        "TLS",
        "revocation",
        "signs",
        "discovery",
        "hub",
        "Fleets",
        "gRPC",
        "traces",
        "to send it later",
        "Helm",
    ] {
        assert!(missing.contains(word), "{word} is not in {missing}");
    }
    assert!(read("README.md").contains("[Limits](docs/limits.md)"), "README does not lead to the limits");
}

#[test]
fn the_readme_says_truly_what_other_proxies_can_do() {
    let peers = section("README.md", "## Why not nginx, Envoy or Linkerd");
    assert!(
        peers.contains("Envoy (`json_to_metadata`) and HAProxy (`req.body,json_query`) route by a member of a body")
    );
}

#[test]
fn the_documents_promise_no_watch_that_is_not_kept() {
    let promised = section("docs/outcomes.md", "## What is not promised");
    assert!(
        promised.contains("sent again to a region that overwrites")
            && promised.contains("A write later than 15 minutes")
    );
    let clocks = read("docs/pitfalls.md");
    assert!(clocks.contains("ages of rows in the journal go by a clock of its own, which no jump moves"));
}

#[test]
fn the_performance_of_large_jobs_is_given_for_both_kinds_of_body() {
    let figures = read("docs/performance.md");
    assert!(
        figures.contains("With one long text, jobs of 64 kB")
            && figures.contains("at 64 kB 0.69 x the rate of the best")
    );
}

#[test]
fn the_security_policy_says_how_to_report_and_what_is_defended() {
    for heading in ["## Reporting", "## Versions", "## Scope", "## Threat model"] {
        assert!(section("SECURITY.md", heading).len() > 100, "{heading}");
    }
}
