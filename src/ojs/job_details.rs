//! The members of a job that the ledger of a hub keeps, and the bytes of its arguments, of which it keeps a digest.

use std::borrow::Cow;

use super::again::REPLAY_OF;
use super::member::{as_text, member, members_of};

/// Members of a job as it was sent. Of a member that is repeated the last one counts, as for the servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobDetails<'b> {
    /// The bytes of `args`, as they stand.
    pub args: Option<&'b [u8]>,
    /// `options.priority`, else `priority`.
    pub priority: Option<i64>,
    /// The job that it repeats, by its meta.
    pub replay_of: Option<Cow<'b, str>>,
}

impl<'b> JobDetails<'b> {
    /// The same of the answer of a region, which has the job as its member `job`, or is it.
    #[must_use]
    pub fn of_answer(answer: &'b [u8]) -> Self {
        Self::read(member(answer, "job").unwrap_or(answer))
    }

    /// Reads a body that is one job; all is none of another one.
    #[must_use]
    pub fn read(body: &'b [u8]) -> Self {
        let [args, priority, options, meta] = members_of(body, ["args", "priority", "options", "meta"]);
        let whole = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
        let within = |name| options.and_then(|options| member(options, name));
        let original = |meta| member(meta, REPLAY_OF).and_then(as_text);
        Self {
            args,
            priority: within("priority").or(priority).and_then(whole),
            replay_of: within("metadata").and_then(original).or_else(|| meta.and_then(original)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_the_bytes_that_were_sent_and_options_come_first() {
        let body = br#"{ "type":"a", "args" : [ 1e400,"\u00e9 \n",{"args":[2]} ] ,"priority":1,
            "options":{"priority":-7,"metadata":{"x":1}}, "meta":{"ojs.replay_of":"j\u0031"} }"#;
        let read = JobDetails::read(body);
        assert_eq!(read.args, Some(&br#"[ 1e400,"\u00e9 \n",{"args":[2]} ]"#[..]));
        assert_eq!((read.priority, read.replay_of.as_deref()), (Some(-7), Some("j1")));
        let read =
            JobDetails::read(br#"{"args":[1],"args":[2],"priority":5,"options":{"metadata":{"ojs.replay_of":"k"}}}"#);
        assert_eq!((read.args, read.priority, read.replay_of.as_deref()), (Some(&b"[2]"[..]), Some(5), Some("k")));
    }

    #[test]
    fn an_answer_shows_the_job_alone_or_in_a_member() {
        for answer in [r#"{"id":"x","args":[1]}"#, r#"{"job":{"id":"x","args":[1]}}"#] {
            assert_eq!(JobDetails::of_answer(answer.as_bytes()).args, Some(&b"[1]"[..]), "{answer}");
        }
        assert_eq!(JobDetails::of_answer(b"stored").args, None);
    }

    #[test]
    fn a_body_that_is_no_job_has_no_details() {
        for body in [&b""[..], b"[]", b"{", b"\xff", br#"{"priority":1.5,"meta":7,"options":[]}"#] {
            assert_eq!(JobDetails::read(body), JobDetails::default(), "{body:?}");
        }
    }
}
