//! Members of a job near the start or the end of an answer, found without a walk over all that is between.
//!
//! Servers write the id and the state of a job before its arguments or behind them, and times behind them. A walk over the answer to an
//! enqueue takes a tenth of the instructions of the whole call.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::base::block::{Block, equal, first_marked};

/// How far from either end a member is looked for: room for all that servers write before or behind arguments. Units: bytes.
const NEAR_BYTES: usize = 256;
/// The beginning of an answer that wraps the job.
const WRAPPED: &[u8] = b"{\"job\":{";

/// The name of a member, with the quotes around it and the one that opens its value. Within a string its quotes would be escaped.
pub(super) struct Name(Finder<'static>);

pub(super) static ID: LazyLock<Name> = LazyLock::new(|| Name(Finder::new(b"\"id\":\"")));
pub(super) static STATE: LazyLock<Name> = LazyLock::new(|| Name(Finder::new(b"\"state\":\"")));
pub(super) static ENQUEUED_AT: LazyLock<Name> = LazyLock::new(|| Name(Finder::new(b"\"enqueued_at\":\"")));

/// The text of a member of the job that only plain members follow, up to the end of the answer. `body` is JSON.
pub(super) fn behind_all<'b>(body: &'b [u8], name: &Name) -> Option<&'b str> {
    let tail = &body[body.len().saturating_sub(NEAR_BYTES)..];
    let (value, rest) = value(tail, name)?;
    let before = &tail[..tail.len() - rest.len() - value.len()];
    // Behind an opened brace, it is a member of another object than the job, unless the job has plain members only.
    let is_of_job = !matches!(before.iter().rfind(|byte| matches!(byte, b'{' | b'}' | b'[' | b']')), Some(b'{' | b'['));
    let end: &[u8] = if body.starts_with(WRAPPED) { b"}}" } else { b"}" };
    (rest[first_marked(rest, brackets)..].trim_ascii_end() == end && is_of_job).then_some(value)
}

/// The text of a member of the job that only plain members precede, from the start of the answer. `body` is JSON.
pub(super) fn before_all<'b>(body: &'b [u8], name: &Name) -> Option<&'b str> {
    let inside = body.strip_prefix(WRAPPED).or_else(|| body.strip_prefix(b"{"))?;
    // With the brace before the first member.
    let head = &body[body.len() - inside.len() - 1..][..inside.len().min(NEAR_BYTES) + 1];
    let (value, rest) = value(head, name)?;
    let before = &head[1..head.len() - rest.len() - value.len()];
    (first_marked(before, brackets) == before.len()).then_some(value)
}

/// Marks braces and brackets, which differ by one bit from each other, and spaces with the zeros behind the end: an answer with spaces is for the walk.
fn brackets(block: Block) -> Block {
    let block = block | Block::splat(0x20);
    equal(block, b'{') | equal(block, b'}') | equal(block, 0x20)
}

/// The first value of that name, and the bytes behind it. One with an escape is none.
fn value<'b>(bytes: &'b [u8], name: &Name) -> Option<(&'b str, &'b [u8])> {
    let at = name.0.find(bytes)?;
    // Behind anything else, it may be the end of a longer name with an escaped quote in it.
    bytes.get(at.checked_sub(1)?).filter(|byte| matches!(byte, b'{' | b','))?;
    let value = &bytes[at + name.0.needle().len()..];
    let end = memchr::memchr2(b'"', b'\\', value).filter(|end| value[*end] == b'"')?;
    Some((std::str::from_utf8(&value[..end]).ok()?, &value[end..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::super::ShownJob;

    /// Values in which all names occur at all levels, and texts that look like members.
    fn any_value() -> impl Strategy<Value = Value> {
        let text =
            prop::sample::select(vec!["", "x", "{", "}}", "]", "\"state\":\"y\"", "\\", "2026-11-28T15:53:53.860Z"]);
        let leaf = prop_oneof![any::<u8>().prop_map(Value::from), text.prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 6, |inner| {
            let name =
                prop::sample::select(vec!["id", "job", "state", "enqueued_at", "created_at", "args", "a\"id", "z"]);
            let members = prop::collection::vec((name, inner.clone()), 0..6);
            let object = |members: Vec<(&str, Value)>| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            };
            prop_oneof![members.prop_map(object), prop::collection::vec(inner, 0..4).prop_map(Value::Array)]
        })
    }

    proptest! {
        #[test]
        fn what_is_found_near_the_ends_is_what_a_walk_finds(inner in any_value(), is_wrapped in any::<bool>(), line in any::<bool>()) {
            let answer = if is_wrapped { json!({ "job": inner }) } else { inner };
            let body = format!("{answer}{}", if line { "\n" } else { "" });
            if let Some(near) = ShownJob::near_the_ends(body.as_bytes()) {
                prop_assert_eq!(near, ShownJob::read(body.as_bytes()));
            }
        }
    }

    #[test]
    fn answers_of_servers_are_read_near_their_ends_however_much_is_between() {
        let much = "x".repeat(1_000);
        let (id, at) = ("01975c4e-6f0b-7cc1-9e11-000000000001", "2026-11-28T15:53:53.860Z");
        let times = format!(r#""created_at":"{at}","enqueued_at":"{at}""#);
        for job in [
            format!(
                r#"{{"specversion":"1.0","id":"{id}","type":"a.b","args":["{much}",{{"id":"y"}}],"priority":0,"state":"available","attempt":0,{times}}}"#
            ),
            format!(
                r#"{{"id":"{id}","type":"a.b","state":"available","args":[],"meta":{{"state":"{much}"}},{times}}}"#
            ),
        ] {
            for body in [format!("{{\"job\":{job}}}"), format!("{job}\n")] {
                let near = ShownJob::near_the_ends(body.as_bytes());
                assert_eq!(near, Some(ShownJob::read(body.as_bytes())), "{body}");
                assert_eq!(near.and_then(|it| it.state), Some("available".into()));
            }
        }
        // One that stands between nested members, or is not there, is for the walk.
        let other = format!(
            r#"{{"job":{{"id":"a","state":"b","args":["{much}"],"created_at":"c"}},"existing":{{"state":"d","enqueued_at":"e"}}}}"#
        );
        assert_eq!(ShownJob::near_the_ends(other.as_bytes()), None);
        let named = r#"{"job":{"x\"id":"d","id":"a","state":"b","args":[],"enqueued_at":"c"}}"#;
        assert_eq!(ShownJob::near_the_ends(named.as_bytes()), None);
        for body in
            [r#"{"id":"a","args":[],"state":"b","meta":{},"enqueued_at":"c"}"#, r#"{"id":"a","state":"b"}"#, "[]", ""]
        {
            assert_eq!(ShownJob::near_the_ends(body.as_bytes()), None, "{body}");
        }
    }
}
