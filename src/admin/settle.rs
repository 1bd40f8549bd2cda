//! `/outcomes/settle`: an operator rules about a job that no region shows, from this machine only.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::response::{document, error};
use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::journal::{ID_BYTES_MAX, Journal};
use crate::ojs::query_text;
use crate::outcome::background::{Action, next};
use crate::outcome::{Event, Place, Placement, Rules, Ruling, Settlement, State};
use crate::telemetry::{Metrics, event};

/// The methods of the path, as `Allow` has them.
pub(super) const METHODS: &str = "PUT, POST";
/// A sentence or two, which every answer about the job shows. Units: bytes.
const REASON_BYTES_MAX: usize = 512;
/// The most records that an error lists.
const CHOICES_MAX: usize = 16;
/// How long regions may take is nothing that an operator's word depends on.
const RULES: Rules = Rules { grace: std::time::Duration::ZERO, lag: std::time::Duration::ZERO };

/// Outcomes in the hands of operators.
#[derive(Debug, Clone)]
pub struct Settling {
    /// Where they are.
    pub journal: Arc<Journal>,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Whether only this machine reaches the listener.
    pub is_local: bool,
}

/// An operator's ruling.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    id: String,
    region: Option<RegionId>,
    stored: bool,
    reason: String,
}

/// Why nothing was decided: the status, the code and the sentence.
type Refused = (StatusCode, &'static str, String);

impl Settling {
    /// Answers one call.
    pub(super) fn answer(&self, query: Option<&str>) -> Response<Bytes> {
        if !self.is_local {
            let message = "outcomes are settled only where `listen.admin` is a loopback address, so that no other host can settle them";
            return error(StatusCode::FORBIDDEN, "not_local", message);
        }
        let order = Order::read(query.unwrap_or_default());
        match order.map_err(|why| (StatusCode::BAD_REQUEST, "invalid_request", why)).and_then(|it| self.settle(&it)) {
            Ok(settled) => document(&settled),
            Err((status, code, message)) => error(status, code, &message),
        }
    }

    fn settle(&self, order: &Order) -> Result<Value, Refused> {
        let Order { id, region, stored, reason } = order;
        let open = |it: &Placement| it.is_named(id) && !it.undecided(id, region.as_ref()).is_empty();
        let rows = self.journal.placements(CHOICES_MAX, open);
        let places =
            rows.iter().flat_map(|it| it.undecided(id, region.as_ref()).into_iter().map(move |at| (it.number, at)));
        let choices: Vec<(u64, Place)> = places.collect();
        let (number, place) = match choices.as_slice() {
            [] => return Err(self.nothing_open(order)),
            [one] => one.clone(),
            several => return Err(ambiguous(several)),
        };
        let now = self.journal.now();
        // Its region may have answered since, or a repetition of the call may be under way.
        let found =
            self.journal.found(number).filter(|it| it.placement.undecided(id, region.as_ref()).contains(&place));
        let mut found = found.ok_or_else(under_way)?;
        let ruling = Ruling { stored: *stored, reason: reason.clone(), at: now };
        found.placement.apply(Event::Decided(place.clone(), ruling), now, RULES);
        // The background carries out all other actions.
        if let Action::Settle(how @ (Settlement::Stored | Settlement::Absent)) =
            next(&found.placement, now, now, |_| false)
        {
            found.placement.apply(Event::Settled(how), now, RULES);
        }
        if !self.journal.update(&mut found) {
            return Err(under_way());
        }
        event::outcome_decided(&self.metrics, *stored, place.region.as_str(), &place.job_id, reason);
        Ok(json!({
            "id": number.to_string(),
            "region": place.region.as_str(),
            "job_id": Some(place.job_id).filter(|id| !id.is_empty()),
            "decided": { "as": word(*stored), "reason": reason, "at": rfc3339(self.journal.unix_ms(now)) },
            "state": found.placement.state().as_str(),
            "durable": self.journal.is_durable(),
        }))
    }

    /// Why no copy of that name can be decided about.
    fn nothing_open(&self, order: &Order) -> Refused {
        let Order { id, region, .. } = order;
        let named = self.journal.placements(CHOICES_MAX, |it| it.is_named(id));
        let elsewhere = named.iter().flat_map(|it| it.undecided(id, None).into_iter().map(move |at| (it.number, at)));
        let elsewhere: Vec<(u64, Place)> = elsewhere.collect();
        let Some(newest) = named.first() else {
            let message =
                "`id`: no outcome has this number, job id or federation id; `ojs-sidecar outcomes` lists them";
            return (StatusCode::NOT_FOUND, "not_found", message.to_owned());
        };
        match region {
            Some(region) if !elsewhere.is_empty() => {
                let message =
                    format!("`region`: nothing is open about it in {region}, but there is: {}", list(&elsewhere));
                (StatusCode::NOT_FOUND, "not_found", message)
            }
            _ if newest.state() == State::Open => under_way(),
            _ => {
                let message = format!("`id`: nothing is left to decide about it: it is {}", newest.state().as_str());
                (StatusCode::CONFLICT, "settled", message)
            }
        }
    }
}

fn under_way() -> Refused {
    let message = "a call about this job is under way, or its region has answered just now; look again with `ojs-sidecar outcomes`";
    (StatusCode::CONFLICT, "under_way", message.to_owned())
}

fn ambiguous(choices: &[(u64, Place)]) -> Refused {
    let message = format!(
        "`id`: more than one copy goes by it; name its region with `region` (--region), or give its own job id or the number of its \
         row: {}",
        list(choices)
    );
    (StatusCode::CONFLICT, "ambiguous", message)
}

fn list(choices: &[(u64, Place)]) -> String {
    let one = |(number, place): &(u64, Place)| match place.job_id.as_str() {
        "" => format!("row {number} in {}", place.region),
        job_id => format!("row {number} in {}, job {job_id}", place.region),
    };
    let mut shown: Vec<String> = choices.iter().take(CHOICES_MAX).map(one).collect();
    if choices.len() > CHOICES_MAX {
        shown.push("and others".to_owned());
    }
    shown.join("; ")
}

const fn word(stored: bool) -> &'static str {
    if stored { "stored" } else { "absent" }
}

impl Order {
    /// Of a query such as `id=ID&as=absent&reason=TEXT&region=REGION`.
    ///
    /// Errors: the field, and the expectation.
    fn read(query: &str) -> Result<Self, String> {
        let (mut id, mut region, mut stored, mut reason) = (None, None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = query_text(value);
            match name {
                "id" => id = Some(value).filter(|id| (1..=ID_BYTES_MAX).contains(&id.len())),
                "region" => {
                    region = Some(RegionId::parse(&value).map_err(|error| format!("`region`: {error}"))?);
                }
                "as" => stored = ["absent", "stored"].iter().position(|word| *word == value).map(|at| at == 1),
                "reason" => reason = Some(value.trim().to_owned()).filter(|it| is_reason(it)),
                _ => return Err("expected `id`, `as`, `reason` and `region` only".to_owned()),
            }
        }
        let id = id.ok_or_else(|| {
            format!("`id`: expected a row's number, a job id or a federation id, of 1 to {ID_BYTES_MAX} bytes")
        })?;
        let stored = stored.ok_or("`as`: expected absent or stored")?;
        let reason = reason.ok_or_else(|| {
            format!("`reason`: expected a text of 1 to {REASON_BYTES_MAX} bytes without control characters")
        })?;
        Ok(Self { id, region, stored, reason })
    }
}

/// It is shown in terminals and logs.
fn is_reason(text: &str) -> bool {
    (1..=REASON_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_a_job_a_decision_and_a_reason_and_errors_name_the_field() {
        let order = Order::read("id=a%2Fb&as=stored&reason=seen%20in%20the%20database&region=eu-west-1").unwrap();
        assert_eq!((order.id.as_str(), order.stored, order.reason.as_str()), ("a/b", true, "seen in the database"));
        assert_eq!(order.region.map(|it| it.to_string()).as_deref(), Some("eu-west-1"));
        assert!(!Order::read("id=1&as=absent&reason=x").unwrap().stored);
        let long = format!("id=1&as=absent&reason={}", "x".repeat(REASON_BYTES_MAX + 1));
        for (query, field) in [
            ("", "`id`"),
            ("id=&as=absent&reason=x", "`id`"),
            ("id=1&reason=x", "`as`"),
            ("id=1&as=lost&reason=x", "`as`"),
            ("id=1&as=absent", "`reason`"),
            ("id=1&as=absent&reason=%20", "`reason`"),
            ("id=1&as=absent&reason=a%0Ab", "`reason`"),
            (long.as_str(), "`reason`"),
            ("id=1&as=absent&reason=x&region=a b", "`region`"),
            ("id=1&as=absent&reason=x&force=1", "only"),
        ] {
            let why = Order::read(query).unwrap_err();
            assert!(why.contains(field), "{query}: {why}");
        }
    }
}
