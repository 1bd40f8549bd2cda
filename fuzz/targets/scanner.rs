//! The scanner accepts what serde_json accepts, and no body makes it, or what reads jobs with it, panic or disagree.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ojs_sidecar::ojs::{Envelope, jobs_within, scan};
use serde::de::IgnoredAny;
use serde_json::Value;

const DEPTH_MAX: usize = 100;

fuzz_target!(|body: &[u8]| {
    let text = std::str::from_utf8(body).ok();
    let json = text.is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    assert_eq!(scan(body, usize::MAX).is_ok(), json, "the scanner and serde_json disagree");
    let accepted = scan(body, DEPTH_MAX).is_ok();
    assert!(json || !accepted);

    if let Ok(envelope) = Envelope::read(body, DEPTH_MAX) {
        assert!(accepted && body.get(envelope.span()).is_some_and(|job| job.starts_with(b"{") && job.ends_with(b"}")));
        // What is read in place is what a parser reads. Where the parser knows no such value (1E400), nothing is compared.
        // A name by which serde_json hands raw values to itself makes it read another document.
        let raw = text.is_some_and(|text| text.contains("serde_json::private"));
        if let (Ok(parsed), false) = (serde_json::from_slice::<Value>(body), raw) {
            assert_eq!(envelope.id(), parsed["id"].as_str());
            assert_eq!(envelope.job_type(), parsed["type"].as_str());
        }
    }
    if let Ok(found) = jobs_within(body, DEPTH_MAX) {
        assert!(accepted || body.trim_ascii().is_empty());
        assert!(found.envelopes.iter().all(|envelope| body.get(envelope.span()).is_some()));
        assert!(found.routing.iter().all(|key| body.get(key.offset) == Some(&b'"')));
    }
});
