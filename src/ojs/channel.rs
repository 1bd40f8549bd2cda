//! `GET /ojs/v1/events/stream?channel=…`, which SDKs call and no server has, as the stream that servers have.
//!
//! Spec: ojs-protocol 2.11.

use super::operation::{Operation, identify};
use super::path::{decode_once, path_segment};

/// The subject of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// The events of a job.
    Job(String),
    /// The events of a queue.
    Queue(String),
}

impl Channel {
    /// Reads the query of the call: exactly one `channel`, of a form that servers have a stream for.
    #[must_use]
    pub fn of(query: Option<&str>) -> Option<Self> {
        let mut values = query?.split('&').filter_map(|pair| pair.strip_prefix("channel="));
        let channel = values.next().filter(|_| values.next().is_none()).and_then(query_value)?;
        let channel = match channel.split_once(':')? {
            ("job", id) => Self::Job(id.to_owned()),
            ("queue", name) => Self::Queue(name.to_owned()),
            _ => return None,
        };
        channel.is_one_segment().then_some(channel)
    }

    /// Whether the query of the call names a channel, in any form.
    #[must_use]
    pub fn is_named(query: Option<&str>) -> bool {
        let names =
            query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
        names.into_iter().any(|name| query_value(name).as_deref() == Some("channel"))
    }

    /// The path of the stream that servers have.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Job(id) => format!("/ojs/v1/jobs/{}/events", path_segment(id)),
            Self::Queue(name) => format!("/ojs/v1/queues/{}/events", path_segment(name)),
        }
    }

    /// The path with the other parameters of the call.
    #[must_use]
    pub fn target(&self, query: Option<&str>) -> String {
        let others = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let others: Vec<&str> = others.filter(|pair| !pair.starts_with("channel=")).collect();
        if others.is_empty() { self.path() } else { format!("{}?{}", self.path(), others.join("&")) }
    }

    /// Whether a server reads the name in the path as we do: one with a slash, for instance, would lead elsewhere.
    fn is_one_segment(&self) -> bool {
        let (name, wanted) = match self {
            Self::Job(id) => (id, Operation::JobEvents),
            Self::Queue(name) => (name, Operation::QueueEvents),
        };
        let path = self.path();
        let matched = identify(&http::Method::GET, &path);
        !name.is_empty() && matched.operation == wanted && matched.named_in(&path) == *name
    }
}

/// A value of a query, decoded; `None` when it is no UTF-8.
#[must_use]
pub fn query_value(value: &str) -> Option<String> {
    String::from_utf8(decode_once(value.replace('+', " ").as_bytes())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_that_of_a_job_or_of_a_queue_however_it_is_encoded() {
        let job = |id: &str| Some(Channel::Job(id.to_owned()));
        let queue = |name: &str| Some(Channel::Queue(name.to_owned()));
        for (query, expected) in [
            ("channel=job:a-1", job("a-1")),
            ("channel=job%3Aa-1&x=1", job("a-1")),
            ("x=1&channel=%6a%6F%62%3a%61-1", job("a-1")),
            ("channel=queue:mail.high", queue("mail.high")),
            ("channel=queue%3Amail", queue("mail")),
            ("channel=job:wf:1", job("wf:1")),
            ("channel=queue:two+words", queue("two words")),
            ("channel=all", None),
            ("channel=Job:a", None),
            ("channel=worker:a", None),
            ("channel=job:", None),
            ("channel=", None),
            ("channel", None),
            ("channels=job:a", None),
            ("channel=job:a&channel=job:b", None),
            ("channel=job:a%2Fb", None),
            ("channel=job:a/../b", None),
            ("channel=job:..", None),
            ("channel=queue:.", None),
            ("channel=job:a%2541", None),
            ("channel=job:a%5Cb", None),
            ("channel=job:%ff", None),
            ("channel=job:a;b", None),
        ] {
            assert_eq!(Channel::of(Some(query)), expected, "{query}");
        }
        assert_eq!(Channel::of(None), None);
    }

    #[test]
    fn a_channel_is_named_in_whatever_form_it_stands() {
        for (query, expected) in [
            (Some("channel=job:a"), true),
            (Some("x=1&channel"), true),
            (Some("channel="), true),
            (Some("ch%61nnel=job:a"), true),
            (Some("channels=job:a&queue=mail"), false),
            (Some("types=job.completed"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(Channel::is_named(query), expected, "{query:?}");
        }
    }

    #[test]
    fn the_target_is_the_stream_of_servers_and_keeps_what_else_was_asked_for() {
        for (query, target) in [
            ("channel=job%3Aa", "/ojs/v1/jobs/a/events"),
            ("x=%2F&channel=queue:two+words&types=a,b", "/ojs/v1/queues/two%20words/events?x=%2F&types=a,b"),
            ("channel=job:wf:1&", "/ojs/v1/jobs/wf%3A1/events"),
        ] {
            assert_eq!(Channel::of(Some(query)).unwrap().target(Some(query)), target, "{query}");
        }
    }
}
