//! The directive of the answer to a worker's heartbeat.
//!
//! Servers in Go write the order into `directive` and leave `state` at `active`; SDKs read only `state`. Copied there, the
//! order is heard. Spec: ojs-protocol 2.4, ojs-clients 4.

use super::splice::{Edits, end_of_object, last, members, string};

/// The answer with a `directive` other than `continue` copied to `state`.
///
/// `None` when nothing is to be changed: no such directive, the same state already, or no JSON object.
#[must_use]
pub fn heartbeat_state(body: &[u8]) -> Option<Vec<u8>> {
    let members = members(body)?;
    let order = last(&members, "directive")?.value;
    if string(order).is_none_or(|order| order.is_empty() || order == "continue") {
        return None;
    }
    let mut edits = Edits::default();
    let mut states = members.iter().filter(|member| member.is("state")).peekable();
    if states.peek().is_none() {
        edits.append(end_of_object(body), false, &format!("\"state\":{order}"));
    }
    for state in states.filter(|state| state.value != order) {
        edits.exchange(state.place.clone(), order);
    }
    (!edits.is_empty()).then(|| edits.apply(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_copied_to_where_clients_look_and_everything_else_stays() {
        for (body, expected) in [
            (
                r#"{"state":"active", "directive" : "quiet","jobs_extended":["a"],"n":1E400}"#,
                Some(r#"{"state":"quiet", "directive" : "quiet","jobs_extended":["a"],"n":1E400}"#),
            ),
            (r#"{"directive":"terminate"}"#, Some(r#"{"directive":"terminate","state":"terminate"}"#)),
            ("{\"directive\":\"quiet\" }\n", Some("{\"directive\":\"quiet\" ,\"state\":\"quiet\"}\n")),
            (
                r#"{"state":"a","directive":"quiet","state":null}"#,
                Some(r#"{"state":"quiet","directive":"quiet","state":"quiet"}"#),
            ),
            (
                r#"{"data":{"state":"x","directive":"quiet"},"directive":"quiet","state":1}"#,
                Some(r#"{"data":{"state":"x","directive":"quiet"},"directive":"quiet","state":"quiet"}"#),
            ),
            (r#"{"state":"active","directive":"quiet","directive":"continue"}"#, None),
            (r#"{"state":"active","directive":"\u0063ontinue"}"#, None),
            (r#"{"state":"quiet","directive":"quiet"}"#, None),
            (r#"{"state":"active","directive":null}"#, None),
            (r#"{"state":"active","directive":["quiet"]}"#, None),
            (r#"{"state":"active","directive":""}"#, None),
            (r#"{"state":"running"}"#, None),
            (r#"[{"directive":"quiet"}]"#, None),
            (r#"{"directive":"quiet""#, None),
            ("", None),
        ] {
            let changed = heartbeat_state(body.as_bytes()).map(|changed| String::from_utf8(changed).unwrap());
            assert_eq!(changed.as_deref(), expected, "{body}");
        }
    }
}
