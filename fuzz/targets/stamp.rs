//! Stamping adds what a job lacks, keeps every byte that the client sent, and has nothing to do the second time.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ojs_sidecar::ojs::{Abridged, Additions, Envelope, segments_len, stamp};
use serde_json::Value;

const DEPTH_MAX: usize = 100;
const ALL: Additions<'_> =
    Additions { id: Some("I"), federation_id: Some("F\"\\\n"), source_region: Some("us-east-1"), routed_at: Some("T"), shard: None, due: None };

/// White space behind a job makes its body one that is sent in pieces, which show what was kept.
const PADDING: &[u8] = &[b' '; 4097];

fuzz_target!(|body: &[u8]| {
    let small = Bytes::copy_from_slice(body);
    let body = Bytes::from([body, PADDING].concat());
    let Ok(before) = Envelope::read(&body, DEPTH_MAX) else { return };
    let segments = stamp(&before, Abridged::whole(&body), &ALL).body;
    let after = Bytes::from(segments.concat());
    assert_eq!(segments_len(&segments), after.len());
    let stamped = stamp(&Envelope::read(&small, DEPTH_MAX).expect("the same job"), Abridged::whole(&small), &ALL);
    let whole = stamped.body.concat();
    assert_eq!([&whole[..], PADDING].concat(), after, "a small body is stamped alike");
    if let Some(cuts) = stamped.cuts {
        assert_eq!(cuts.around(&whole).concat(), small, "the way back leads to what was sent");
    }

    // The client's bytes, in order and whole, but for nulls that were replaced.
    let mut rest = &body[..];
    for segment in segments.iter().filter(|segment| body.as_ptr_range().contains(&segment.as_ptr())) {
        while !rest.starts_with(segment) {
            let null = rest.strip_prefix(b"null").unwrap_or_else(|| panic!("bytes of the client are lost"));
            rest = null;
        }
        rest = &rest[segment.len()..];
    }
    assert!(rest.is_empty() || rest == b"null");

    let read = Envelope::read(&after, DEPTH_MAX).expect("a stamped job is a job");
    assert_eq!(read.id(), if before.lacks_id() { Some("I") } else { before.id() });
    assert_eq!((read.job_type(), read.queue(), read.tags()), (before.job_type(), before.queue(), before.tags()));
    assert_eq!(read.attributes().region, before.attributes().region);
    assert_eq!(read.attributes().region_affinity, before.attributes().region_affinity);
    assert_eq!(stamp(&read, Abridged::whole(&after), &ALL).body.concat(), after, "a second stamp has nothing to do");

    // A name by which serde_json hands raw values to itself makes it read another document.
    if String::from_utf8_lossy(&body).contains("serde_json::private") {
        return;
    }
    let (Ok(old), Ok(new)) = (serde_json::from_slice::<Value>(&body), serde_json::from_slice::<Value>(&after)) else {
        return;
    };
    for (name, member) in old.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "id" | "meta" | "options") {
            assert_eq!(new.get(name), Some(member), "a member was changed");
        }
    }
});
