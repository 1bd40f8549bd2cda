//! A spooled job as clients see it: the members that it was sent with, and its state.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The members that the sidecar writes itself.
const OURS: [&str; 2] = ["id", "state"];

/// The members of a job, each as it was written.
#[derive(Deserialize)]
struct Members<'b>(#[serde(borrow)] BTreeMap<Cow<'b, str>, &'b RawValue>);

/// The document of a job in this state. A body that is no object shows nothing but its id.
pub(super) fn document(job_id: &str, state: &str, body: &[u8]) -> Vec<u8> {
    let members = serde_json::from_slice::<Members<'_>>(body).map(|members| members.0).unwrap_or_default();
    let mut document = format!(r#"{{"job":{{"id":{},"state":"{state}""#, serde_json::json!(job_id)).into_bytes();
    for (name, value) in members.iter().filter(|(name, _)| !OURS.contains(&name.as_ref())) {
        document.push(b',');
        document.extend_from_slice(serde_json::json!(name).to_string().as_bytes());
        document.push(b':');
        document.extend_from_slice(value.get().as_bytes());
    }
    document.extend_from_slice(b"}}");
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_shown_with_its_own_members_unchanged_and_one_id_and_state() {
        let shown = |body: &[u8]| String::from_utf8(document("j\"1", "pending", body)).unwrap();
        let body = br#"{"type":"a","args":[1.10,"\u00e9"],"state":"x","id":"y","meta":{"b":1}}"#;
        assert_eq!(
            shown(body),
            r#"{"job":{"id":"j\"1","state":"pending","args":[1.10,"\u00e9"],"meta":{"b":1},"type":"a"}}"#
        );
        for none in [&b"[1]"[..], b"{", b""] {
            assert_eq!(shown(none), r#"{"job":{"id":"j\"1","state":"pending"}}"#);
        }
    }
}
