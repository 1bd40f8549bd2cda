//! The members of a job that a hub keeps, and the bytes of its arguments, of which its ledger keeps a digest.

use std::borrow::Cow;

use super::again::REPLAY_OF;
use super::attributes::Name;
use super::envelope::DEFAULT_QUEUE;
use super::member::{as_text, member, members_of};

/// The member of meta that names a job's tenant.
pub const TENANT_KEY: &str = "tenant_id";

/// Members of a job as it was sent. Of a member that is repeated the last one counts, as for the servers. Of a job that [`super::Envelope`] has
/// accepted, the type, the queue, the tenant and the origin are those of its envelope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobDetails<'b> {
    /// The type, where it is a string.
    pub job_type: Option<Cow<'b, str>>,
    /// `options.queue`, else `queue`; none of a job that names none, see [`Self::queue_name`].
    queue: Option<Cow<'b, str>>,
    /// The tenant, by `options.metadata`, else by `meta`.
    pub tenant: Option<Cow<'b, str>>,
    /// The region that it was replicated from, by the same two.
    pub replicated_from: Option<Cow<'b, str>>,
    /// The bytes of `args`, as they stand.
    pub args: Option<&'b [u8]>,
    /// `options.priority`, else `priority`.
    pub priority: Option<i64>,
    /// The job that it repeats, by its meta.
    pub replay_of: Option<Cow<'b, str>>,
}

impl<'b> JobDetails<'b> {
    /// Reads a body that is one job; all is none of another one.
    #[must_use]
    pub fn read(body: &'b [u8]) -> Self {
        let [args, priority, options, meta, job_type, queue] =
            members_of(body, ["args", "priority", "options", "meta", "type", "queue"]);
        let within = options.map(|options| members_of(options, ["priority", "metadata", "queue"]));
        let [own_priority, metadata, own_queue] = within.unwrap_or([None; 3]);
        let named = |queue: Option<&'b [u8]>| queue.and_then(as_text).filter(|queue| !queue.is_empty());
        let texts = |place: Option<&'b [u8]>| {
            let names = [REPLAY_OF, TENANT_KEY, Name::ReplicatedFrom.as_str()];
            place.map_or([const { None }; 3], |place| members_of(place, names).map(|value| value.and_then(as_text)))
        };
        let ([replay_of, tenant, from], [outer_replay_of, outer_tenant, outer_from]) = (texts(metadata), texts(meta));
        Self {
            job_type: job_type.and_then(as_text),
            queue: named(own_queue).or_else(|| named(queue)),
            tenant: tenant.or(outer_tenant),
            replicated_from: from.or(outer_from),
            args,
            priority: own_priority.or(priority).and_then(whole),
            replay_of: replay_of.or(outer_replay_of),
        }
    }

    /// The queue, which is `default` where the job names none.
    #[must_use]
    pub fn queue_name(&self) -> &str {
        self.queue.as_deref().unwrap_or(DEFAULT_QUEUE)
    }
}

/// The bytes of the arguments in the answer of a region, which has the job as its member `job`, or is it.
#[must_use]
pub fn args_of_answer(answer: &[u8]) -> Option<&[u8]> {
    member(member(answer, "job").unwrap_or(answer), "args")
}

/// A whole number; another one is none, as for the ledger.
fn whole(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ojs::{Abridged, Additions, Envelope, stamp};

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
            assert_eq!(args_of_answer(answer.as_bytes()), Some(&b"[1]"[..]), "{answer}");
        }
        assert_eq!(args_of_answer(b"stored"), None);
    }

    #[test]
    fn a_body_that_is_no_job_has_no_details() {
        for body in [&b""[..], b"[]", b"{", b"\xff", br#"{"priority":1.5,"meta":7,"options":[]}"#] {
            assert_eq!(JobDetails::read(body), JobDetails::default(), "{body:?}");
        }
    }

    #[test]
    fn a_stamped_job_is_read_as_the_envelope_of_the_body_before_the_stamp() {
        let (federated, tenant) = ("ojs.federation.replicated_from", TENANT_KEY);
        let additions = Additions {
            id: Some("minted"),
            federation_id: Some("F"),
            source_region: Some("eu"),
            routed_at: Some("1970-01-31T00:00:00.005Z"),
            shard: None,
            due: None,
        };
        for body in [
            r#"{"type":"a","args":[]}"#.to_owned(),
            r#"{"type":7,"queue":"","options":null,"meta":null,"args":[]}"#.to_owned(),
            r#"{"type":null,"queue":"q","options":{"queue":""},"args":[]}"#.to_owned(),
            r#"{"\u0074ype":"\u0061","queue":"q","options":{"queue":"r\n"},"args":[]}"#.to_owned(),
            r#"{"queue":3,"options":{"queue":null,"metadata":{}},"type":"a"}"#.to_owned(),
            format!(r#"{{"type":"a","meta":{{"{tenant}":"x","{tenant}":"y","{federated}":"us"}}}}"#),
            format!(r#"{{"type":"a","meta":{{"{tenant}":"x","{tenant}":7}}}}"#),
            format!(r#"{{"meta":{{"{tenant}":"x"}},"options":{{"metadata":{{"{tenant}":"y","{federated}":"us"}}}}}}"#),
            format!(r#"{{"meta":{{"{tenant}":"x"}},"options":{{"metadata":{{"{tenant}":null}}}}}}"#),
            format!(r#"{{"meta":{{"{tenant}":""}},"options":{{"metadata":{{"{federated}":null}}}}}}"#),
        ] {
            let text = Bytes::from(body.clone());
            let envelope = Envelope::read(&text, 16).unwrap();
            let sent = stamp(&envelope, Abridged::whole(&text), &additions).body.concat();
            assert_ne!(sent, body.as_bytes());
            let read = JobDetails::read(&sent);
            assert_eq!(
                (read.job_type.as_deref(), read.queue_name()),
                (envelope.job_type(), envelope.queue()),
                "{body}"
            );
            assert_eq!(read.tenant, envelope.meta_text(TENANT_KEY).text, "{body}");
            assert_eq!(read.replicated_from, envelope.attributes().replicated_from, "{body}");
        }
    }
}
