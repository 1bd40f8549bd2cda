//! The text of jobs, spelled in every way that means the same.

use super::script::{Script, text_of};
use crate::support::IDS;

/// A text as JSON, with letters escaped here and there.
pub fn spelled(script: &mut Script, text: &str) -> String {
    let often = script.pick(&[3, 1000, 1000]);
    let letters = text.chars().map(|letter| match script.below(often) {
        0 if script.one_in(2) => format!("\\u{:04X}", u32::from(letter)),
        0 => format!("\\u{:04x}", u32::from(letter)),
        _ => letter.to_string(),
    });
    format!("\"{}\"", letters.collect::<String>())
}

/// The pin as a member of meta.
pub fn pin(script: &mut Script, region: usize) -> String {
    let (key, value) = (spelled(script, "ojs.federation.region"), spelled(script, IDS[region]));
    format!("{key}:{value}")
}

/// A job with its mark wherever a job has text of its own. `meta` and `metadata` are members of those two objects; none
/// leaves the object out.
pub fn job(script: &mut Script, mark: u64, meta: Option<&str>, metadata: Option<&str>) -> String {
    let mark = text_of(mark);
    let with_mark = |members: &str| match members {
        "" => format!("\"note\":\"{mark}\""),
        members => format!("{members},\"note\":\"{mark}\""),
    };
    let mut members = vec![format!("\"type\":\"t.{mark}\""), format!("\"args\":[\"{mark}\",1E400,{{\"meta\":null}}]")];
    members.extend(meta.map(|meta| format!("{}:{{{}}}", spelled(script, "meta"), with_mark(meta))));
    let metadata = metadata.map(|metadata| format!(",{}:{{{}}}", spelled(script, "metadata"), with_mark(metadata)));
    let metadata = metadata.unwrap_or_default();
    members.push(format!("{}:{{\"queue\":\"q-{mark}\"{metadata}}}", spelled(script, "options")));
    for last in (1..members.len()).rev() {
        members.swap(last, script.below(last + 1));
    }
    spaced(script, &format!("{{{}}}", members.join(",")))
}

/// A job that is pinned to a region as the rules allow it: in meta, in `options.metadata`, in both, beside other keys.
pub fn pinned_job(script: &mut Script, mark: u64, region: usize) -> String {
    let mut members = pin(script, region);
    if script.one_in(3) {
        // A pin counts whatever strategy stands beside it.
        let strategy = script.pick(&["overflow", "geo-pin", "round-robin", "nonsense"]);
        members = format!("\"ojs.federation.region_affinity\":\"{strategy}\",{members}");
    }
    if script.one_in(3) {
        members = format!(
            "{members},\"ojs.federation.federation_id\":\"own\",\"ojs.federation.target_region\":\"us-east-1\""
        );
    }
    let none = "\"ojs.federation.region\":null";
    let (meta, metadata) = match script.below(6) {
        0 | 1 => (Some(members.as_str()), None),
        2 => (None, Some(members.as_str())),
        3 => (Some(members.as_str()), Some(members.as_str())),
        4 => (Some(members.as_str()), Some("")),
        _ => (Some(none), Some(members.as_str())),
    };
    job(script, mark, meta, metadata)
}

/// A job that is pinned nowhere.
pub fn flexible_job(script: &mut Script, mark: u64) -> String {
    let strategies = ["affinity", "overflow", "round-robin", "latency", "weighted", "active-passive", "geographic"];
    let strategy = script.pick(&strategies);
    let members = format!("\"ojs.federation.region_affinity\":\"{strategy}\",\"country\":\"IN\"");
    match script.below(3) {
        0 => job(script, mark, None, None),
        1 => job(script, mark, Some(&members), None),
        _ => job(script, mark, None, Some(&members)),
    }
}

/// The same document with white space where it means nothing.
fn spaced(script: &mut Script, json: &str) -> String {
    if script.one_in(2) {
        return json.to_owned();
    }
    let (mut text, mut quoted, mut escaped) = (String::new(), false, false);
    for letter in json.chars() {
        if !quoted && matches!(letter, '{' | '}' | '[' | ']' | ',' | ':' | '"') {
            text.push_str(script.pick(&["", "", " ", "\n", "\r\n\t", "  "]));
        }
        if letter == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && letter == '\\' && !escaped;
        text.push(letter);
    }
    text
}
