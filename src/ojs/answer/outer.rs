//! Members of a job near the start or the end of an answer, found without a walk over all that is between.
//!
//! Servers write the id and the state of a job before its arguments or behind them, and times behind them. A walk over the answer to an
//! enqueue takes a tenth of the instructions of the whole call.

use crate::base::block::{Block, equal, first_marked, last_marked};

/// Members that are looked at from either end: servers write fewer before and behind arguments.
const MEMBERS_MAX: usize = 16;
/// The beginning of an answer that wraps the job.
const WRAPPED: &[u8] = b"{\"job\":{";

/// The name and the value of a member whose value is no object and no list: `None` for a value without quotes.
type Member<'b> = (&'b [u8], Option<&'b [u8]>);

/// Reads the members of the job before its first object or list, until `is_enough` says so of one. Those behind a space are not found.
pub(super) fn first_members<'b>(body: &'b [u8], mut is_enough: impl FnMut(Member<'b>) -> bool) {
    let mut rest = body.strip_prefix(WRAPPED).or_else(|| body.strip_prefix(b"{")).unwrap_or_default();
    for _ in 0..MEMBERS_MAX {
        let Some((member, behind)) = member_at_start(rest) else { return };
        let [b',', others @ ..] = behind else { return };
        rest = others;
        if is_enough(member) {
            return;
        }
    }
}

fn member_at_start(bytes: &[u8]) -> Option<(Member<'_>, &[u8])> {
    let (name, behind) = text_at_start(bytes)?;
    let value = behind.strip_prefix(b":")?;
    match text_at_start(value) {
        Some((text, behind)) => Some(((name, Some(text)), behind)),
        None => Some(((name, None), &value[bare_length(value.iter())?..])),
    }
}

/// Reads the members of the job behind its last object or list, from the last one on. Returns whether these were members of the job, and not
/// of an object that is the last member.
pub(super) fn last_members<'b>(body: &'b [u8], mut take: impl FnMut(Member<'b>)) -> bool {
    let (start, end): (usize, &[u8]) = if body.starts_with(WRAPPED) { (WRAPPED.len(), b"}}") } else { (1, b"}") };
    let Some(mut rest) = body.trim_ascii_end().strip_suffix(end) else { return false };
    for _ in 0..MEMBERS_MAX {
        if matches!(rest.last(), Some(b'}' | b']')) {
            return start == 1 || !may_have_sibling(rest);
        }
        let Some((member, before)) = member_at_end(rest) else { return false };
        take(member);
        match before {
            [others @ .., b','] => rest = others,
            _ => return before.len() == start,
        }
    }
    false
}

/// Whether an object may stand behind the one that `job` wraps: it begins as the value of a member, behind a brace that ends the job.
fn may_have_sibling(answer: &[u8]) -> bool {
    // Another object of the job, or a text, may look so: the answer is then walked over for nothing.
    let Some(end) = memchr::memchr(b'}', answer) else { return false };
    let is_value = |at: usize| answer[..end + at].trim_ascii_end().ends_with(b":");
    memchr::memchr_iter(b'{', &answer[end..]).any(is_value)
}

fn member_at_end(bytes: &[u8]) -> Option<(Member<'_>, &[u8])> {
    let (value, before) = match text_at_end(bytes) {
        Some((text, before)) => (Some(text), before),
        None => (None, &bytes[..bytes.len() - bare_length(bytes.iter().rev())?]),
    };
    let (name, before) = text_at_end(before.strip_suffix(b":")?)?;
    Some(((name, value), before))
}

/// The content of the text that bytes begin with, and the bytes behind it. `None` for other bytes, and for a text with an escape.
fn text_at_start(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = bytes.strip_prefix(b"\"")?;
    let end = first_marked(inside, ends_text);
    (*inside.get(end)? == b'"').then(|| (&inside[..end], &inside[end + 1..]))
}

/// Marks a quote, which ends a text, and a backslash, which only a walk reads. Names and values are short: they are in the block that is looked at first.
fn ends_text(block: Block) -> Block {
    equal(block, b'"') | equal(block, b'\\')
}

/// The content of the text that bytes end with, and the bytes before it. The same, but for a member's name or value in JSON only: within a
/// text, a quote has a backslash before it.
fn text_at_end(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = bytes.strip_suffix(b"\"")?;
    let start = last_marked(inside, ends_text)?;
    (inside[start] == b'"' && matches!(inside[..start].last(), Some(b':' | b',' | b'{')))
        .then(|| (&inside[start + 1..], &inside[..start]))
}

/// The length of a number, `true`, `false` or `null` that bytes begin with. `None` where they do not.
fn bare_length<'b>(bytes: impl Iterator<Item = &'b u8>) -> Option<usize> {
    let is_bare = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    Some(bytes.take_while(is_bare).count()).filter(|length| *length > 0)
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
        fn what_is_found_near_the_ends_is_what_a_walk_finds(inner in any_value(), other in any_value(), more in any_value(), form in 0..5, line in any::<bool>()) {
            let answer = match form {
                0 => inner.to_string(),
                1 => json!({ "job": inner }).to_string(),
                2 => format!("{{\"job\":{inner},\"z\":{more},\"existing\":{other}}}"),
                3 => format!("{{\"job\":{inner}, \"existing\" : {other}}}"),
                _ => format!("{{\"job\":{inner},\"existing\":{other}}}"),
            };
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
        let nested = other.replace(r#""existing":{"#, r#""existing":{"args":[1],"#);
        assert_eq!(ShownJob::near_the_ends(nested.as_bytes()), None);
        for between in [r#""duplicate":false,"existing":{"#, r#""x":[1],"existing": {"#] {
            let parted = nested.replace(r#""existing":{"#, between);
            assert_eq!(ShownJob::near_the_ends(parted.as_bytes()), None, "{parted}");
        }
        let named = r#"{"job":{"x\"id":"d","id":"a","state":"b","args":[],"enqueued_at":"c"}}"#;
        assert_eq!(ShownJob::near_the_ends(named.as_bytes()), None);
        for body in
            [r#"{"id":"a","args":[],"state":"b","meta":{},"enqueued_at":"c"}"#, r#"{"id":"a","state":"b"}"#, "[]", ""]
        {
            assert_eq!(ShownJob::near_the_ends(body.as_bytes()), None, "{body}");
        }
    }
}
