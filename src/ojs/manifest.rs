//! A region's manifest, made that of the federation: readable for clients of both dialects, with the extension that we are.
//!
//! Spec: ojs-protocol 2.9. The Rust SDK requires `ojs_version`, servers in Go write `specversion`.

use super::splice::{Edits, Member, elements, end_of_object, last, members, string};

/// The name of the federation extension.
pub const FEDERATION_EXTENSION: &str = "urn:ojs:spec:federation";

/// The name of the extension for fair scheduling. Spec: fair-scheduling, its head.
pub const SCHEDULING_EXTENSION: &str = "urn:ojs:ext:fair-scheduling";

/// The version of the document that this program follows.
const EXTENSION_VERSION: &str = "1.0.0-rc.1";

/// The codings that a body may come with, as manifests name them.
const CODINGS: [&str; 2] = ["gzip", "identity"];

/// The version where a manifest has none.
const VERSION: &str = "\"1.0\"";

/// The level of a manifest; `None` when it has none.
#[must_use]
pub fn conformance_level(body: &[u8]) -> Option<u64> {
    last(&members(body)?, "conformance_level")?.value.parse().ok()
}

/// Whether a manifest names an extension, in the form of either dialect: in a list of names, or in lists of entries that have one as their `uri`.
#[must_use]
pub fn announces(body: &[u8], extension: &str) -> bool {
    let is_it = |entry: &str| {
        let uri = members(entry.as_bytes()).and_then(|inner| last(&inner, "uri").and_then(|uri| string(uri.value)));
        string(entry).or(uri).is_some_and(|name| name == extension)
    };
    let is_in = |list: &str| list.starts_with('[') && elements(list).into_iter().any(is_it);
    let manifest = members(body).unwrap_or_default();
    let Some(extensions) = last(&manifest, "extensions") else { return false };
    is_in(extensions.value)
        || members(extensions.value.as_bytes()).unwrap_or_default().iter().any(|list| is_in(list.value))
}

/// Splices the federation's additions into a region's manifest: the version under both its names, the extension in the
/// form of the other extensions, and the lowest level of the regions.
///
/// `None` when the body is no JSON object, and so no manifest.
#[must_use]
pub fn federated_manifest(body: &[u8], lowest_level: Option<u64>) -> Option<Vec<u8>> {
    let members = members(body)?;
    let mut edits = Edits::default();
    let mut added: Vec<String> = Vec::new();
    for (name, other) in [("ojs_version", "specversion"), ("specversion", "ojs_version")] {
        if last(&members, name).is_none() {
            let version = last(&members, other).map_or(VERSION, |member| member.value);
            added.push(format!("\"{name}\":{version}"));
        }
    }
    if let (Some(member), Some(level)) = (last(&members, "conformance_level"), lowest_level)
        && member.value.parse() != Ok(level)
    {
        edits.exchange(member.place.clone(), level.to_string());
    }
    restrict_compression(&mut edits, &members);
    match last(&members, "extensions") {
        None => added.push(format!("\"extensions\":[\"{FEDERATION_EXTENSION}\"]")),
        Some(member) => extend(&mut edits, member),
    }
    if !added.is_empty() {
        edits.append(end_of_object(body), members.is_empty(), &added.join(","));
    }
    Some(edits.apply(body))
}

/// A region's own manifest, which names no compression that this program does not read. `None` as of [`federated_manifest`].
#[must_use]
pub fn restricted_manifest(body: &[u8]) -> Option<Vec<u8>> {
    let mut edits = Edits::default();
    restrict_compression(&mut edits, &members(body)?);
    Some(edits.apply(body))
}

/// Of the codings that a region reads only those are left that a body may come here with.
fn restrict_compression(edits: &mut Edits, manifest: &[Member<'_>]) {
    let Some(limits) = last(manifest, "payload_limits") else { return };
    let inner = members(limits.value.as_bytes()).unwrap_or_default();
    let Some(codings) = last(&inner, "supported_compression") else { return };
    let is_read = |coding: &&str| string(coding).is_some_and(|name| CODINGS.contains(&&*name));
    let all = if codings.value.starts_with('[') { elements(codings.value) } else { Vec::new() };
    let read: Vec<&str> = all.iter().copied().filter(is_read).collect();
    if read.len() < all.len() {
        let place = limits.place.start + codings.place.start..limits.place.start + codings.place.end;
        edits.exchange(place, format!("[{}]", read.join(",")));
    }
}

fn extend(edits: &mut Edits, extensions: &Member<'_>) {
    let (value, place) = (extensions.value, &extensions.place);
    match value.bytes().next() {
        Some(b'[') => extend_list(edits, value, place.end),
        Some(b'{') => {
            let inner = members(value.as_bytes()).unwrap_or_default();
            match last(&inner, "official") {
                Some(official) if official.value.starts_with('[') => {
                    extend_official(edits, official.value, place.start + official.place.end);
                }
                Some(official) => {
                    let at = place.start + official.place.start..place.start + official.place.end;
                    edits.exchange(at, format!("[{}]", entry()));
                }
                None => edits.append(place.end, inner.is_empty(), &format!("\"official\":[{}]", entry())),
            }
        }
        // `null`, or a form of no dialect: the form about which clients are strictest.
        _ => edits.exchange(place.clone(), format!("[\"{FEDERATION_EXTENSION}\"]")),
    }
}

fn extend_list(edits: &mut Edits, list: &str, end: usize) {
    let entries = elements(list);
    if !entries.iter().any(|entry| string(entry).is_some_and(|name| name == FEDERATION_EXTENSION)) {
        edits.append(end, entries.is_empty(), &format!("\"{FEDERATION_EXTENSION}\""));
    }
}

fn extend_official(edits: &mut Edits, list: &str, end: usize) {
    let entries = elements(list);
    let is_ours = |entry: &&str| {
        let members = members(entry.as_bytes()).unwrap_or_default();
        last(&members, "uri").and_then(|uri| string(uri.value)).is_some_and(|uri| uri == FEDERATION_EXTENSION)
    };
    if !entries.iter().any(is_ours) {
        edits.append(end, entries.is_empty(), &entry());
    }
}

fn entry() -> String {
    format!(r#"{{"name":"federation","uri":"{FEDERATION_EXTENSION}","version":"{EXTENSION_VERSION}"}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, level: Option<u64>, expected: &str) {
        let manifest = federated_manifest(body.as_bytes(), level).unwrap();
        assert_eq!(String::from_utf8(manifest.clone()).unwrap(), expected);
        let again = federated_manifest(&manifest, level).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), expected, "nothing is added twice");
    }

    #[test]
    fn an_extension_is_found_in_the_form_of_either_dialect() {
        for manifest in [
            r#"{"extensions":["urn:ojs:spec:cron","urn:ojs:ext:fair-scheduling"]}"#,
            r#"{"extensions":{"official":[],"experimental":[{"name":"x","uri":"urn:ojs:ext:fair-scheduling"}]}}"#,
            r#"{"extensions":[{"uri":"urn:ojs:ext:fair-scheduling"}]}"#,
        ] {
            assert!(announces(manifest.as_bytes(), SCHEDULING_EXTENSION), "{manifest}");
        }
        for manifest in [
            "",
            "[]",
            "{}",
            r#"{"extensions":null}"#,
            r#"{"extensions":"urn:ojs:ext:fair-scheduling"}"#,
            r#"{"extensions":["urn:ojs:ext:fair-scheduling-2"]}"#,
            r#"{"extensions":{"official":{"uri":"urn:ojs:ext:fair-scheduling"}}}"#,
            r#"{"other":["urn:ojs:ext:fair-scheduling"]}"#,
        ] {
            assert!(!announces(manifest.as_bytes(), SCHEDULING_EXTENSION), "{manifest}");
        }
    }

    #[test]
    fn only_codings_that_are_read_here_are_advertised() {
        let restricted = |body: &str| String::from_utf8(restricted_manifest(body.as_bytes()).unwrap()).unwrap();
        let limits =
            |codings: &str| format!(r#"{{ "payload_limits" : {{"a":1, "supported_compression": {codings} }}}}"#);
        for (said, left) in [
            (r#"["gzip", "zstd"]"#, r#"["gzip"]"#),
            (r#"["zstd",7]"#, "[]"),
            (r#"["identity","br","gzip"]"#, r#"["identity","gzip"]"#),
            (r#"["gzip"]"#, r#"["gzip"]"#),
            ("[ ]", "[ ]"),
            ("null", "null"),
        ] {
            assert_eq!(restricted(&limits(said)), limits(left));
        }
        for body in ["{}", r#"{"payload_limits":7}"#, r#"{"supported_compression":["zstd"]}"#] {
            assert_eq!(restricted(body), body);
        }
        assert_eq!(restricted_manifest(b"[]"), None);
    }

    #[test]
    fn both_dialects_are_added_to_and_everything_else_stays_as_it_is() {
        let urn = FEDERATION_EXTENSION;
        let ours = entry();
        check(
            r#"{ "ojs_version" : "1.0", "x": 1E400, "conformance_level": 4 ,"extensions":[ ] }"#,
            Some(2),
            &format!(
                r#"{{ "ojs_version" : "1.0", "x": 1E400, "conformance_level": 2 ,"extensions":[ "{urn}"] ,"specversion":"1.0"}}"#
            ),
        );
        check(
            "{\"specversion\":\"1.0.1\",\"ojs_version\":\"1.0\",\"extensions\":[\"urn:x\"]}\n",
            None,
            &format!("{{\"specversion\":\"1.0.1\",\"ojs_version\":\"1.0\",\"extensions\":[\"urn:x\",\"{urn}\"]}}\n"),
        );
        check(
            r#"{"specversion":"1.0.1","extensions":{"official":[{"uri":"urn:x"}],"x":[]}}"#,
            None,
            &format!(
                r#"{{"specversion":"1.0.1","extensions":{{"official":[{{"uri":"urn:x"}},{ours}],"x":[]}},"ojs_version":"1.0.1"}}"#
            ),
        );
        for (extensions, expected) in [
            ("{}", format!(r#"{{"official":[{ours}]}}"#)),
            (r#"{"x":1}"#, format!(r#"{{"x":1,"official":[{ours}]}}"#)),
            (r#"{"official":null}"#, format!(r#"{{"official":[{ours}]}}"#)),
            (r#"{"official":[]}"#, format!(r#"{{"official":[{ours}]}}"#)),
            ("null", format!(r#"["{urn}"]"#)),
            (r#"["urn:ojs:\u0073pec:federation"]"#, r#"["urn:ojs:\u0073pec:federation"]"#.to_owned()),
        ] {
            check(
                &format!(r#"{{"ojs_version":"1","specversion":"1","extensions":{extensions}}}"#),
                None,
                &format!(r#"{{"ojs_version":"1","specversion":"1","extensions":{expected}}}"#),
            );
        }
        check("{}", Some(1), &format!(r#"{{"ojs_version":"1.0","specversion":"1.0","extensions":["{urn}"]}}"#));
    }

    #[test]
    fn what_is_no_object_is_no_manifest() {
        for body in ["", "[]", "{", "null", "<html>", "{\"a\":1}x"] {
            assert!(federated_manifest(body.as_bytes(), None).is_none(), "{body}");
        }
    }

    #[test]
    fn the_level_is_a_whole_number_and_the_last_one_counts() {
        for (body, level) in [
            (r#"{"conformance_level":3}"#, Some(3)),
            (r#"{"conformance_level":3,"conformance_level":1}"#, Some(1)),
            (r#"{"conformance_level":"3"}"#, None),
            (r#"{"conformance_level":-1}"#, None),
            ("{}", None),
            ("", None),
        ] {
            assert_eq!(conformance_level(body.as_bytes()), level, "{body}");
        }
    }
}
