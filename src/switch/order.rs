//! A request to set a switch or to end one, as the admin listener gets it.

use std::time::Duration;

use super::set::Switch;
use crate::base::text::parse_duration;
use crate::base::{Moment, RegionId, SwitchKind, SwitchSubject};
use crate::ojs::query_text;

/// The longest time to live. An order that must hold for longer is a matter of the configuration.
pub const LASTS_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const LASTS_MIN: Duration = Duration::from_secs(1);
/// A sentence or two, which lists of switches show. Units: bytes.
pub(super) const REASON_BYTES_MAX: usize = 512;
/// Units: bytes.
pub(super) const NAME_BYTES_MAX: usize = 128;
/// The longest name of a queue, a type or a tenant. With it an event of the feed with all switches stays below 1 MiB. Units: bytes.
const SUBJECT_BYTES_MAX: usize = 255;

/// Calls at once above this are no bound. Units: calls.
const CALLS_MAX: u64 = 1_000_000;

/// A request to set or to end a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The kind of the switch; none ends every kind but the throttle.
    pub kind: Option<SwitchKind>,
    /// The subject of the switch.
    pub subject: SwitchSubject,
    /// The most calls at once of each sidecar, where a throttle is set; none for other kinds.
    pub calls: Option<u64>,
    /// How long it lasts; none where it ends.
    pub lasts: Option<Duration>,
    /// Why.
    pub reason: String,
    /// The ticket.
    pub ticket: String,
    /// The operator.
    pub author: String,
    /// Whether the last region that some jobs may go to is taken from them all the same.
    pub force: bool,
}

impl Order {
    /// Reads a query such as `switch=drain&region=eu-west-1&for=30m&reason=TEXT&ticket=OPS-1&author=NAME&force=true`; a pause has `queue`,
    /// `type` or `tenant` instead of `region`, and a throttle has `calls`. `sets`: a switch is set, and not ended.
    ///
    /// Errors: a sentence that names the field and the expected form.
    pub fn read(query: &str, sets: bool) -> Result<Self, String> {
        Fields::read(query)?.checked(sets)
    }

    /// The same for an operator whose name is proven, whatever the query says about the author.
    ///
    /// Errors: as [`Self::read`].
    pub fn read_of(author: &str, query: &str, sets: bool) -> Result<Self, String> {
        Fields { author: Some(author.to_owned()), ..Fields::read(query)? }.checked(sets)
    }

    /// The switch that this order sets; none where it ends one.
    #[must_use]
    pub fn switch(&self, now: Moment, unix_ms: u64) -> Option<Switch> {
        let Self { subject, reason, ticket, author, .. } = self.clone();
        let (kind, lasts) = (self.kind?, self.lasts?);
        let ends_unix_ms = unix_ms.saturating_add(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        let (calls, until, set_unix_ms) = (self.calls, now.after(lasts), unix_ms);
        Some(Switch { kind, subject, calls, until, set_unix_ms, ends_unix_ms, reason, ticket, author })
    }
}

/// The fields as they were written.
#[derive(Default)]
pub(super) struct Fields {
    kind: Option<SwitchKind>,
    subject: Option<SwitchSubject>,
    calls: Option<u64>,
    lasts: Option<Duration>,
    reason: Option<String>,
    ticket: Option<String>,
    author: Option<String>,
    force: bool,
    /// The name of the field of the time to live, where it is not `for`.
    time_key: Option<&'static str>,
}

impl Fields {
    /// No fields yet. `time_key`: the name of the field of the time to live.
    pub(super) fn timed_by(time_key: &'static str) -> Self {
        Self { time_key: Some(time_key), ..Self::default() }
    }

    /// The subject, where a field has named one.
    pub(super) const fn subject(&self) -> Option<&SwitchSubject> {
        self.subject.as_ref()
    }

    pub(super) fn of_kind(self, kind: SwitchKind) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// With the author whose name is proven, where there is one.
    pub(super) fn by(self, author: Option<&str>) -> Self {
        Self { author: author.map(str::to_owned).or(self.author), ..self }
    }

    fn read(query: &str) -> Result<Self, String> {
        let mut fields = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            fields.take(name, query_text(value))?;
        }
        Ok(fields)
    }

    /// Takes a field.
    ///
    /// Errors: a sentence that names it and the expected form.
    pub(super) fn take(&mut self, name: &str, value: String) -> Result<(), String> {
        let time_key = self.time_key();
        match name {
            "switch" => self.kind = Some(kind(&value)?),
            "region" | "queue" | "type" | "tenant" => {
                if self.subject.is_some() {
                    return Err(format!("`{name}`: a switch is about one subject; name one, once"));
                }
                self.subject = Some(subject(name, value)?);
            }
            "calls" => self.calls = Some(calls(value.parse().ok())?),
            _ if name == time_key => self.lasts = Some(lasts(name, &value)?),
            "reason" => self.reason = Some(value),
            "ticket" => self.ticket = Some(value),
            "author" => self.author = Some(value),
            "force" => {
                self.force = match value.as_str() {
                    "true" => true,
                    "false" => false,
                    _ => return Err("`force`: expected true or false".to_owned()),
                }
            }
            _ => {
                let message = "expected `switch`, `region`, `queue`, `type`, `tenant`, `calls`, `for`, `reason`, `ticket`, `author` and `force` only";
                return Err(message.to_owned());
            }
        }
        Ok(())
    }

    fn time_key(&self) -> &'static str {
        self.time_key.unwrap_or("for")
    }

    /// The order that they are. `sets`: a switch is set, and not ended.
    ///
    /// Errors: a sentence that names the field and the expected form.
    pub(super) fn checked(self, sets: bool) -> Result<Order, String> {
        let time_key = self.time_key();
        let Self { kind, subject, calls, lasts, reason, ticket, author, force, .. } = self;
        if sets && kind.is_none() {
            return Err(format!("`switch`: expected one of {}", kinds()));
        }
        let subject = subject.unwrap_or(SwitchSubject::Sidecar);
        if let Some(mistake) = mistake(kind, &subject) {
            return Err(mistake);
        }
        match (sets, lasts) {
            (true, None) => return Err(format!("`{time_key}`: expected how long it lasts, such as 30m")),
            (false, Some(_)) => return Err(format!("`{time_key}`: a switch ends at once; leave it out")),
            _ => {}
        }
        match (sets && kind == Some(SwitchKind::Throttle), calls) {
            (true, None) => return Err(expected_calls()),
            (false, Some(_)) => return Err("`calls`: only a throttle that is set has it; leave it out".to_owned()),
            _ => {}
        }
        let reason = text("reason", reason, REASON_BYTES_MAX)?;
        let ticket = text("ticket", ticket, NAME_BYTES_MAX)?;
        let author = text("author", author, NAME_BYTES_MAX)?;
        Ok(Order { kind, subject, calls, lasts, reason, ticket, author, force })
    }
}

/// Why an order about something else than a switch was given, and by which operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grounds {
    /// Why.
    pub reason: String,
    /// The ticket.
    pub ticket: String,
    /// The operator.
    pub author: String,
}

impl Grounds {
    /// Reads a query such as `reason=TEXT&ticket=OPS-1&author=NAME`. `author`: the operator whose name is proven, whatever the query says.
    ///
    /// Errors: a sentence that names the field and the expected form.
    pub fn read(author: Option<&str>, query: &str) -> Result<Self, String> {
        let mut fields = Fields::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !matches!(name, "reason" | "ticket" | "author") {
                return Err("expected `reason`, `ticket` and `author` only in the query".to_owned());
            }
            fields.take(name, query_text(value))?;
        }
        let Fields { reason, ticket, author, .. } = fields.by(author);
        Self::of_members(None, [("reason", reason), ("ticket", ticket), ("author", author)])
    }

    /// The reason, the ticket and the author of a request, by the names that they have there. `proven`: the operator whose name is proven,
    /// whatever the request says.
    ///
    /// Errors: a sentence that names the member and the expected form.
    pub fn of_members(proven: Option<&str>, members: [(&str, Option<String>); 3]) -> Result<Self, String> {
        let [(reason, why), (ticket, number), (author, name)] = members;
        let name = proven.map(str::to_owned).or(name);
        Ok(Self {
            reason: text(reason, why, REASON_BYTES_MAX)?,
            ticket: text(ticket, number, NAME_BYTES_MAX)?,
            author: text(author, name, NAME_BYTES_MAX)?,
        })
    }
}

fn subject(key: &str, name: String) -> Result<SwitchSubject, String> {
    if key == "region" {
        return RegionId::parse(&name).map(SwitchSubject::Region).map_err(|error| format!("`region`: {error}"));
    }
    let name = text(key, Some(name), SUBJECT_BYTES_MAX)?;
    Ok(match key {
        "queue" => SwitchSubject::Queue(name),
        "type" => SwitchSubject::Type(name),
        _ => SwitchSubject::Tenant(name),
    })
}

/// Why a switch of this kind, or of every kind where there is none, cannot be about this subject.
fn mistake(kind: Option<SwitchKind>, subject: &SwitchSubject) -> Option<String> {
    let Some(kind) = kind else {
        let is_missing = *subject == SwitchSubject::Sidecar;
        return is_missing.then(|| "`region`: expected the id of a region, or `switch` or another subject".to_owned());
    };
    if kind.takes(subject) {
        return None;
    }
    let key = subject.member().map_or("region", |(key, _)| key);
    Some(match kind {
        SwitchKind::Maintenance => format!("`{key}`: maintenance is about no part of the sidecar; leave it out"),
        SwitchKind::Pause => {
            "`queue`: expected `queue`, `type` or `tenant`, with the exact name of what is paused".to_owned()
        }
        SwitchKind::Forbid | SwitchKind::Drain | SwitchKind::Evacuate | SwitchKind::Isolate | SwitchKind::Throttle => {
            format!("`region`: expected the id of a region, to {} it", kind.as_str())
        }
    })
}

fn kinds() -> String {
    SwitchKind::ALL.map(SwitchKind::as_str).join(", ")
}

fn kind(word: &str) -> Result<SwitchKind, String> {
    let found = SwitchKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    found.ok_or_else(|| format!("`switch`: expected one of {}", kinds()))
}

fn expected_calls() -> String {
    format!("`calls`: expected the most calls at once of each sidecar, 1 to {CALLS_MAX}")
}

fn calls(number: Option<u64>) -> Result<u64, String> {
    number.filter(|number| (1..=CALLS_MAX).contains(number)).ok_or_else(expected_calls)
}

fn lasts(field: &str, text: &str) -> Result<Duration, String> {
    let lasts = parse_duration(text).map_err(|error| format!("`{field}`: {error}"))?;
    if (LASTS_MIN..=LASTS_MAX).contains(&lasts) { Ok(lasts) } else { Err(format!("`{field}`: expected 1s to 7d")) }
}

/// Whether a text can be shown in terminals and logs.
pub(super) fn is_text(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// A text that is shown in terminals and logs.
fn text(field: &str, text: Option<String>, bytes_max: usize) -> Result<String, String> {
    let text = text.map(|text| text.trim().to_owned());
    let fits = |text: &String| is_text(text, bytes_max);
    let expected = || format!("`{field}`: expected a text of 1 to {bytes_max} bytes without control characters");
    text.filter(fits).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: &str = "reason=storm%20ahead&ticket=OPS-1&author=ann";

    #[test]
    fn an_order_names_its_switch_its_time_and_its_reasons() {
        let order = Order::read(&format!("switch=drain&region=eu-west-1&for=30m&{WHO}&force=true"), true).unwrap();
        assert_eq!((order.kind, order.reason.as_str(), order.force), (Some(SwitchKind::Drain), "storm ahead", true));
        let switch = order.switch(Moment(1_000), 7_000).unwrap();
        let lasts = 30 * 60 * 1_000;
        assert_eq!((switch.until, switch.set_unix_ms), (Moment(1_000 + lasts), 7_000));
        assert_eq!(switch.ends_unix_ms, 7_000 + lasts);
        let longest = Order::read(&format!("switch=drain&region=a&for=7d&{WHO}"), true).unwrap();
        assert_eq!(longest.lasts, Some(LASTS_MAX));
        let order = Order::read(&format!("switch=maintenance&for=1h&{WHO}"), true).unwrap();
        assert_eq!((order.subject, order.kind), (SwitchSubject::Sidecar, Some(SwitchKind::Maintenance)));
        let order = Order::read(&format!("switch=pause&type=mail.send%20v2&for=1h&{WHO}"), true).unwrap();
        assert_eq!(order.switch(Moment(1), 1).unwrap().name(), "pause type mail.send v2");
        let order = Order::read(&format!("switch=throttle&region=a&calls=20&for=1h&{WHO}"), true).unwrap();
        assert_eq!(order.switch(Moment(1), 1).unwrap().name(), "throttle a to 20 calls");
        let order = Order::read(&format!("tenant=acme&{WHO}"), false).unwrap();
        assert_eq!(order.subject, SwitchSubject::Tenant("acme".to_owned()));
        let order = Order::read(&format!("region=eu-west-1&{WHO}"), false).unwrap();
        assert_eq!((order.kind, order.switch(Moment(1), 1)), (None, None));
        for query in [format!("region=a&{WHO}"), "region=a&reason=r&ticket=t".to_owned()] {
            assert_eq!(Order::read_of("eve", &query, false).unwrap().author, "eve");
        }
    }

    #[test]
    fn an_order_about_no_switch_has_its_grounds_and_nothing_else() {
        let grounds = Grounds::read(None, WHO).unwrap();
        assert_eq!((grounds.reason.as_str(), grounds.author.as_str()), ("storm ahead", "ann"));
        assert_eq!(Grounds::read(Some("eve"), WHO).unwrap().author, "eve");
        for (query, field) in
            [("ticket=t&author=a", "`reason`"), ("reason=r&author=a", "`ticket`"), ("reason=r&ticket=t", "`author`")]
        {
            assert!(Grounds::read(None, query).unwrap_err().contains(field), "{query}");
        }
        assert!(Grounds::read(None, &format!("{WHO}&region=a")).unwrap_err().contains("only"));
    }

    #[test]
    fn every_error_names_its_field() {
        for (query, sets, field) in [
            (format!("region=a&for=1m&{WHO}"), true, "`switch`"),
            (format!("switch=stop&region=a&for=1m&{WHO}"), true, "`switch`"),
            (format!("switch=drain&for=1m&{WHO}"), true, "`region`"),
            (format!("switch=drain&region=a%20b&for=1m&{WHO}"), true, "`region`"),
            (format!("switch=maintenance&region=a&for=1m&{WHO}"), true, "`region`"),
            (format!("switch=maintenance&queue=a&for=1m&{WHO}"), true, "`queue`"),
            (format!("switch=drain&queue=a&for=1m&{WHO}"), true, "`region`"),
            (format!("switch=pause&for=1m&{WHO}"), true, "`queue`"),
            (format!("switch=pause&region=a&for=1m&{WHO}"), true, "`queue`"),
            (format!("switch=pause&queue=&for=1m&{WHO}"), true, "`queue`"),
            (format!("switch=pause&type=a&tenant=b&for=1m&{WHO}"), true, "`tenant`"),
            (format!("switch=pause&tenant={}&for=1m&{WHO}", "a".repeat(256)), true, "`tenant`"),
            (format!("switch=drain&region=a&{WHO}"), true, "`for`"),
            (format!("switch=drain&region=a&for=8d&{WHO}"), true, "`for`"),
            (format!("switch=drain&region=a&for=0s&{WHO}"), true, "`for`"),
            (format!("switch=drain&region=a&for=soon&{WHO}"), true, "`for`"),
            (format!("region=a&for=1m&{WHO}"), false, "`for`"),
            (format!("switch=throttle&region=a&for=1m&{WHO}"), true, "`calls`"),
            (format!("switch=throttle&region=a&calls=0&for=1m&{WHO}"), true, "`calls`"),
            (format!("switch=throttle&region=a&calls=few&for=1m&{WHO}"), true, "`calls`"),
            (format!("switch=throttle&queue=a&calls=1&for=1m&{WHO}"), true, "`region`"),
            (format!("switch=drain&region=a&calls=1&for=1m&{WHO}"), true, "`calls`"),
            (format!("switch=throttle&region=a&calls=1&{WHO}"), false, "`calls`"),
            (WHO.to_owned(), false, "`region`"),
            ("switch=drain&region=a&for=1m&ticket=t&author=a".to_owned(), true, "`reason`"),
            ("switch=drain&region=a&for=1m&reason=r&author=a".to_owned(), true, "`ticket`"),
            ("switch=drain&region=a&for=1m&reason=r&ticket=t&author=%0A".to_owned(), true, "`author`"),
            (format!("switch=drain&region=a&for=1m&{WHO}&force=1"), true, "`force`"),
            (format!("switch=drain&region=a&for=1m&{WHO}&more=1"), true, "only"),
        ] {
            let why = Order::read(&query, sets).unwrap_err();
            assert!(why.contains(field), "{query}: {why}");
        }
    }
}
