//! When a cron job fires: five or six fields, the short forms such as `@daily`, and `@every`.
//!
//! A parser of our own: the crates for it bring more code than a neighbour in tests is worth. `L`, `W` and `#`, which the documents
//! only recommend, are not read.

use jiff::SignedDuration;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::members::Invalid;

/// How far ahead a time is looked for: 29 February can be eight years away.
const DAYS_MAX: usize = 366 * 9;

/// Schedules are not looked at more often than this, for any `@every`.
const EVERY_MIN_MS: u64 = 1_000;

const SHORT_FORMS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A cron expression in its time zone.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    rule: Rule,
    zone: TimeZone,
}

#[derive(Debug, Clone)]
enum Rule {
    Fields(Fields),
    /// So many milliseconds after the last time.
    Every(u64),
}

/// The values that each field allows, as bits.
#[derive(Debug, Clone, Copy)]
struct Fields {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether a day of the month or a weekday is enough, which holds when both are restricted.
    either_day: bool,
}

impl Schedule {
    /// Reads an expression and the name of a time zone.
    ///
    /// Errors: [`Invalid::Member`] by the name of the member that cannot be.
    pub(super) fn parse(expression: &str, zone: &str) -> Result<Self, Invalid> {
        let malformed = Invalid::Member("cron", "is an expression of five or six fields, or one such as @hourly");
        let unknown = Invalid::Member("timezone", "is UTC or a name such as Europe/Berlin");
        Ok(Self { rule: rule(expression.trim()).ok_or(malformed)?, zone: time_zone(zone).ok_or(unknown)? })
    }

    /// The first time after a moment, both in milliseconds since the Unix epoch; nothing when there is none for years.
    ///
    /// A local time that the clocks jump over is left out; of one that comes twice, the first counts.
    pub(super) fn next(&self, after_ms: u64) -> Option<u64> {
        let fields = match &self.rule {
            Rule::Every(step_ms) => return after_ms.checked_add(*step_ms),
            Rule::Fields(fields) => fields,
        };
        let after = Timestamp::from_millisecond(i64::try_from(after_ms).ok()?).ok()?;
        let begin = self.zone.to_datetime(after);
        let mut date = begin.date();
        for _ in 0..DAYS_MAX {
            if fields.has(date) {
                let mut instants = fields.times(date, begin).filter_map(|time| self.instant(time));
                if let Some(found) = instants.find(|instant| *instant > after) {
                    return u64::try_from(found.as_millisecond()).ok();
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn instant(&self, time: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(time).ok()
            }
            AmbiguousOffset::Gap { .. } => None,
        }
    }
}

impl Fields {
    fn has(&self, date: Date) -> bool {
        let bit = |bits: u64, value: i8| bits >> value & 1 == 1;
        let day = bit(self.days, date.day());
        let weekday = bit(self.weekdays, date.weekday().to_sunday_zero_offset());
        bit(self.months, date.month()) && if self.either_day { day || weekday } else { day && weekday }
    }

    /// The times of a day in order, without those that are certainly before `begin`.
    fn times(self, date: Date, begin: DateTime) -> impl Iterator<Item = DateTime> {
        let is_first = date == begin.date();
        let hour_min = if is_first { begin.hour() } else { 0 };
        values(self.hours).filter(move |hour| *hour >= hour_min).flat_map(move |hour| {
            let minute_min = if is_first && hour == begin.hour() { begin.minute() } else { 0 };
            values(self.minutes)
                .filter(move |minute| *minute >= minute_min)
                .flat_map(move |minute| values(self.seconds).map(move |second| date.at(hour, minute, second, 0)))
        })
    }
}

fn values(bits: u64) -> impl Iterator<Item = i8> {
    (0..60_i8).filter(move |value| bits >> value & 1 == 1)
}

fn time_zone(name: &str) -> Option<TimeZone> {
    // Offsets and abbreviations say nothing of summer time, so the documents rule them out.
    let is_name = name == "UTC" || name.contains('/') && name.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_name { TimeZone::get(name).ok() } else { None }
}

fn rule(expression: &str) -> Option<Rule> {
    if let Some(duration) = expression.strip_prefix("@every ") {
        let step: SignedDuration = duration.trim().parse().ok()?;
        let step_ms = u64::try_from(step.as_millis()).ok().filter(|step_ms| *step_ms > 0)?;
        return Some(Rule::Every(step_ms.max(EVERY_MIN_MS)));
    }
    let long = SHORT_FORMS.iter().find(|(short, _)| *short == expression).map_or(expression, |(_, long)| *long);
    fields(long).map(Rule::Fields)
}

fn fields(expression: &str) -> Option<Fields> {
    let words: Vec<&str> = expression.split_whitespace().collect();
    let (seconds, words) = match words.as_slice() {
        [seconds, rest @ ..] if rest.len() == 5 => (field(seconds, 0, 59, &[])?, rest),
        words => (1, words),
    };
    let [minutes, hours, days, months, weekdays] = words else { return None };
    let week = field(weekdays, 0, 7, &WEEKDAYS)?;
    Some(Fields {
        seconds,
        minutes: field(minutes, 0, 59, &[])?,
        hours: field(hours, 0, 23, &[])?,
        days: field(days, 1, 31, &[])?,
        months: field(months, 1, 12, &MONTHS)?,
        // Sunday is 0 and 7.
        weekdays: week & 0x7f | week >> 7,
        either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
    })
}

/// Reads one field: a list of values, ranges and steps, as the bits of the values that it allows.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Option<u64> {
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (part, None),
        };
        let (from, to) = match (range, range.split_once('-')) {
            ("*", _) => (low, high),
            (_, Some((from, to))) => (value(from, low, names)?, value(to, low, names)?),
            // With a step, a single value is the begin of a range.
            (single, None) => (value(single, low, names)?, step.map_or(value(single, low, names)?, |_| high)),
        };
        let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
        if from < low || to > high || from > to {
            return None;
        }
        bits = (from..=to).step_by(step).fold(bits, |bits, value| bits | 1 << value);
    }
    Some(bits)
}

fn value(text: &str, first: u32, names: &[&str]) -> Option<u32> {
    match names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        Some(place) => u32::try_from(place).ok()?.checked_add(first),
        None => number(text),
    }
}

fn number(text: &str) -> Option<u32> {
    // `parse` would take a sign.
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
