//! The pool that a FETCH names.

use std::borrow::Cow;

use super::members::{Member, OwnName, slice, text_of};
use crate::ojs::fault::Fault;
use crate::ojs::key::Likeness;

/// The pool that a FETCH names. Spec: fair-scheduling 6.2.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnPool<'b> {
    /// Its name.
    pub name: Cow<'b, str>,
    /// The place of its member among all.
    pub(super) member: usize,
}

/// Reads the name among the members of a body that was read before; `null` names none.
pub(super) fn read<'b>(text: &'b str, members: &[Member]) -> Result<Option<OwnPool<'b>>, Fault> {
    let mut pool = None;
    for (place, member) in members.iter().enumerate() {
        match member.likeness(OwnName::Pool) {
            Likeness::Different => {}
            Likeness::Exact if pool.is_none() => pool = Some((place, member.value)),
            Likeness::Exact | Likeness::Variant => return Err(Fault::ambiguous(OwnName::Pool.as_str())),
        }
    }
    let Some((member, raw)) = pool.and_then(|(place, span)| Some((place, slice(text, span)?))) else { return Ok(None) };
    if raw == "null" {
        return Ok(None);
    }
    let name = text_of(raw).ok_or_else(Fault::pool_is_no_text)?;
    Ok(Some(OwnPool { name, member }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::ojs::worker::FetchRequest;
    use crate::ojs::worker::testing::together;

    fn cut(body: &str, wanted: impl Fn(&str) -> bool) -> (Option<String>, String) {
        let mut claims = FetchRequest::read(body.as_bytes(), 64).unwrap();
        let own = claims.own_pool().unwrap();
        claims.keep_queues(wanted);
        own.iter().for_each(|own| claims.leave_out_pool(own));
        let cut = together(claims.whole(&Bytes::copy_from_slice(body.as_bytes())));
        (own.map(|own| own.name.into_owned()), cut)
    }

    #[test]
    fn the_name_of_a_pool_and_foreign_queues_are_cut_out_and_all_else_stays() {
        for (body, name, rest) in [
            (r#"{"pool":"p","queues":["a","b"]}"#, Some("p"), r#"{"queues":["a"]}"#),
            (
                r#"{ "queues" : ["b" , "a"], "pool" : "p" , "x":1E400 }"#,
                Some("p"),
                r#"{ "queues" : ["a"], "x":1E400 }"#,
            ),
            (r#"{"queues":["a"],"p\u006fol":"\u0070"}"#, Some("p"), r#"{"queues":["a"]}"#),
            (r#"{"queues":["a"],"pool":null}"#, None, r#"{"queues":["a"],"pool":null}"#),
            (r#"{"queues":["a"],"x":{"pool":"p"}}"#, None, r#"{"queues":["a"],"x":{"pool":"p"}}"#),
        ] {
            assert_eq!(cut(body, |queue| queue != "b"), (name.map(str::to_owned), rest.to_owned()), "{body}");
        }
    }

    #[test]
    fn a_pool_that_could_be_read_in_two_ways_or_is_no_text_is_refused() {
        for member in [r#""pool":"p","pool":"p""#, r#""Pool":"p""#, r#""pool":7"#, r#""pool":["p"]"#] {
            let body = format!(r#"{{"queues":["a"],{member}}}"#);
            assert!(FetchRequest::read(body.as_bytes(), 64).unwrap().own_pool().is_err(), "{body}");
        }
    }
}
