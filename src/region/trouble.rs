//! Why a region's last probe failed, or why requests opened its breaker, with the thing to look at.

use std::net::SocketAddr;

use http::StatusCode;

use super::ask_error::{AskError, HEALTH_PATH};
use crate::config::RegionUrl;
use crate::net::dial::DialError;
use crate::net::pool::NotSent;
use crate::net::tls;
use crate::ojs::answer;
use crate::policy::Cause;

/// Of a longer text the beginning; a line of a log is read by people. Units: letters.
const LETTERS_MAX: usize = 300;
/// Of a region's own word. Units: letters.
const WORD_MAX: usize = 40;

/// Addresses of a name that are shown.
const ADDRESSES_MAX: usize = 3;

/// A request that failed at a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestFailure {
    /// A closed word, such as `connect`.
    pub reason: &'static str,
    /// The HTTP status, where there was an answer.
    pub status: Option<u16>,
}

/// Why a region's last probe failed, or why requests opened its breaker.
///
/// Shape: the texts are of one line each and bounded; nothing of them is a secret, a path on this machine or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// A closed word, such as `tls`.
    pub reason: &'static str,
    /// The event: the certificate, the name or the status.
    pub message: String,
    /// The HTTP status, where there was an answer.
    pub status: Option<u16>,
    /// The address asked: the host and port of its URL, and the addresses of the name.
    pub address: String,
    /// When, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// Whether requests failed, and no probe.
    pub(super) by_requests: bool,
}

impl Trouble {
    /// The reason of a failed probe; `reason` is its closed word. `place` is its URL, and the addresses of the name.
    pub(super) fn of(
        place: (&RegionUrl, &[SocketAddr]),
        asked: &Result<(StatusCode, bytes::Bytes), AskError>,
        reason: &'static str,
        accepted: &[String],
        unix_ms: u64,
    ) -> Self {
        let path = format!("{}{HEALTH_PATH}", place.0.base_path);
        let message = match asked {
            Ok((StatusCode::OK, body)) => match answer::health(body).status {
                Some(word) => {
                    let word: String = word.chars().take(WORD_MAX).collect();
                    format!(
                        "GET {path} answered the status {word:?}; health_check.accepted_status has {}",
                        accepted.join(", ")
                    )
                }
                None => format!("GET {path} answered 200 without a status: what answers there may be no OJS server"),
            },
            Ok((status, _)) => format!("GET {path} answered {}", status.as_u16()),
            Err(AskError::NotSent(NotSent::Dial(DialError::Tls(error)))) => tls::explain(error),
            Err(error) => error.to_string(),
        };
        let status = asked.as_ref().ok().map(|(status, _)| status.as_u16());
        Self {
            reason,
            message: one_line(&message),
            status,
            address: address(place.0, place.1),
            unix_ms,
            by_requests: false,
        }
    }

    /// The reason of a failed probe of a hub, whose words are bounded here.
    pub(super) fn of_hub(
        (url, addresses): (&RegionUrl, &[SocketAddr]),
        message: &str,
        status: Option<u16>,
        unix_ms: u64,
    ) -> Self {
        let message = one_line(&format!("the hub's probe failed: {message}"));
        let address = address(url, addresses);
        Self { reason: "hub_probe", message, status, address, unix_ms, by_requests: false }
    }

    /// Why requests opened the breaker; `last` is the one that failed last.
    pub(super) fn of_requests(
        url: &RegionUrl,
        addresses: &[SocketAddr],
        cause: Cause,
        last: RequestFailure,
        unix_ms: u64,
    ) -> Self {
        let many = match cause {
            Cause::FailureRatio => "too large a share of requests failed",
            _ => "requests failed one after the other",
        };
        let RequestFailure { reason, status } = last;
        let message = match status {
            Some(status) => format!("{many} while probes did not; the last one was answered {status}"),
            None => format!("{many} while probes did not; the last one got no answer: {reason}"),
        };
        Self { reason, message, status, address: address(url, addresses), unix_ms, by_requests: true }
    }
}

/// The text without control characters, and not longer than a line may be.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for letter in text.chars().take(LETTERS_MAX) {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// The address asked, for people: host and port of its URL, and the addresses of the name.
fn address(url: &RegionUrl, addresses: &[SocketAddr]) -> String {
    let named = if url.host.contains(':') {
        format!("[{}]:{}", url.host, url.port)
    } else {
        format!("{}:{}", url.host, url.port)
    };
    let known: Vec<String> = addresses.iter().take(ADDRESSES_MAX).map(ToString::to_string).collect();
    if known.is_empty() || known == [named.as_str()] { named } else { format!("{named} ({})", known.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_server_stays_one_bounded_line() {
        assert_eq!(one_line("a\r\nb\u{1b}[31m"), "a\\r\\nb\\u{1b}[31m");
        assert!(one_line(&"x".repeat(10_000)).len() <= LETTERS_MAX);
    }
}
