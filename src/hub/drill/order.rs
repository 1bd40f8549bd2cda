//! The order of a drill, as an operator sends it.

use std::time::Duration;

use super::super::access::Caller;
use super::super::response::Refusal;
use crate::base::text::parse_duration;
use crate::base::{RegionId, Share};
use crate::ojs::query_text;
use crate::switch::{DRILL_LASTS_MAX, Order};

/// The bound on failures where an order has none.
const ABORT_FAILURES: &str = "1%";
/// The switch whose order has the fields of a drill: the region, the time, the grounds.
const ALIKE: &str = "switch=drain";
/// The bounds of `abort_latency`.
const LATENCIES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(60));

/// An order for a drill.
pub(super) struct DrillOrder {
    pub(super) region: RegionId,
    pub(super) share: Share,
    pub(super) lasts: Duration,
    pub(super) abort_failures: Share,
    pub(super) abort_latency: Option<Duration>,
    pub(super) is_dry_run: bool,
    pub(super) reason: String,
    pub(super) ticket: String,
    pub(super) author: String,
}

impl DrillOrder {
    /// Reads a query such as `region=us-east-1&share=5%25&for=10m&abort_failures=1%25&abort_latency=200ms&dry_run=true&reason=TEXT&ticket=TEXT&author=NAME`.
    ///
    /// Errors: 400 with the field and the expected form.
    pub(super) fn read(caller: &Caller, query: &str) -> Result<Self, Refusal> {
        let (mut share, mut abort_failures, mut abort_latency, mut is_dry_run) = (None, None, None, false);
        let mut rest = vec![ALIKE];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let wrong = |expected: &str| Refusal::bad_request(format!("`{name}`: {expected}"));
            let value = query_text(value);
            match name {
                "share" => {
                    let read = Share::parse(&value).map_err(wrong)?;
                    if read == Share::NONE {
                        return Err(wrong("expected a share above 0%, such as 5%"));
                    }
                    share = Some(read);
                }
                "abort_failures" => abort_failures = Some(Share::parse(&value).map_err(wrong)?),
                "abort_latency" => {
                    let read = parse_duration(&value).map_err(wrong)?;
                    let is_one = (LATENCIES.0..=LATENCIES.1).contains(&read);
                    abort_latency = Some(Some(read).filter(|_| is_one).ok_or_else(|| wrong("expected 1ms to 60s"))?);
                }
                "dry_run" => is_dry_run = value.parse().map_err(|_| wrong("expected true or false"))?,
                "switch" | "calls" | "force" | "queue" | "type" | "tenant" => {
                    return Err(wrong(
                        "no such parameter; expected `region`, `share`, `for`, `abort_failures`, `abort_latency`, `dry_run`, `reason`, `ticket` and `author`",
                    ));
                }
                _ => rest.push(pair),
            }
        }
        let missing = |text: &str| Refusal::bad_request(text.to_owned());
        let share = share
            .ok_or_else(|| missing("`share`: expected the share of flexible jobs that goes elsewhere, such as 5%"))?;
        if !rest.iter().any(|pair| pair.starts_with("region=")) {
            return Err(missing("`region`: expected the region whose loss is tried"));
        }
        let order = match &caller.author {
            Some(author) => Order::read_of(author, &rest.join("&"), true),
            None => Order::read(&rest.join("&"), true),
        };
        let Order { subject, lasts, reason, ticket, author, .. } = order.map_err(Refusal::bad_request)?;
        let region = subject.region().cloned().ok_or_else(|| missing("`region`: expected the id of a region"))?;
        let lasts = lasts.filter(|lasts| *lasts <= DRILL_LASTS_MAX);
        let lasts = lasts.ok_or_else(|| missing("`for`: expected at most 1d; order a further drill behind that"))?;
        let abort_failures = match abort_failures {
            Some(bound) => bound,
            None => Share::parse(ABORT_FAILURES).map_err(missing)?,
        };
        Ok(Self { region, share, lasts, abort_failures, abort_latency, is_dry_run, reason, ticket, author })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::access::Role;

    const WHOLE: &str = "region=us&share=5%25&for=10m&reason=r&ticket=T-1&author=ann";

    fn read(query: &str) -> Result<DrillOrder, String> {
        let caller =
            Caller { name: "c".to_owned(), role: Role::Operator, scopes: Vec::new(), region: None, author: None };
        DrillOrder::read(&caller, query).map_err(|refusal| format!("{refusal:?}"))
    }

    #[test]
    fn an_order_has_bounds_of_its_own_or_the_usual_ones() {
        let order = read(WHOLE).unwrap();
        assert_eq!(
            (order.share.to_string(), order.lasts, order.ticket.as_str()),
            ("5%".to_owned(), Duration::from_secs(600), "T-1")
        );
        assert_eq!(
            (order.abort_failures.to_string(), order.abort_latency, order.is_dry_run),
            ("1%".to_owned(), None, false)
        );
        let more = read(&format!("{WHOLE}&abort_failures=2.5&abort_latency=200ms&dry_run=true")).unwrap();
        assert_eq!(
            (more.abort_failures.to_string(), more.abort_latency, more.is_dry_run),
            ("2.5%".to_owned(), Some(Duration::from_millis(200)), true)
        );
    }

    #[test]
    fn every_error_names_its_field() {
        for (from, to, field) in [
            ("share=5%25", "share=0", "`share`"),
            ("share=5%25", "share=150%25", "`share`"),
            ("share=5%25&", "", "`share`"),
            ("region=us&", "", "`region`"),
            ("region=us", "region=a%20b", "`region`"),
            ("region=us", "region=us&queue=q", "`queue`"),
            ("for=10m&", "", "`for`"),
            ("for=10m", "for=2d", "`for`"),
            ("for=10m", "for=10m&abort_failures=x", "`abort_failures`"),
            ("for=10m", "for=10m&abort_latency=0ms", "`abort_latency`"),
            ("for=10m", "for=10m&dry_run=maybe", "`dry_run`"),
            ("&ticket=T-1", "", "`ticket`"),
            ("reason=r", "reason=", "`reason`"),
        ] {
            let error = read(&WHOLE.replace(from, to)).err().unwrap_or_default();
            assert!(error.contains(field), "{to}: {error}");
        }
    }
}
