//! The kinds of values: how text becomes a value, and whether a value is of a kind and within its range.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use figment::value::{Num, Value};

use crate::base::Strategy;
use crate::base::text::{parse_duration, parse_size, print_duration};

/// Units: milliseconds.
pub(super) const SECOND: u64 = 1_000;
/// Units: milliseconds.
pub(super) const HOUR: u64 = 3_600 * SECOND;
/// Units: milliseconds.
pub(super) const DAY: u64 = 24 * HOUR;
/// A consecutive count.
pub(super) const COUNT: Kind = Kind::Integer(1, 1_000_000);
/// A time that some waiting needs.
pub(super) const SOME_TIME: Kind = Kind::Duration(1, DAY);
/// A name: of a region, host, queue or tag.
pub(super) const NAME: Kind = Kind::Text(256);
/// A list of names.
pub(super) const NAMES: Kind = Kind::Texts(256);

/// The kind of value of a key.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Text of 1 to this many bytes.
    Text(usize),
    /// Text, a number or a truth value, kept as it was spelt.
    Scalar,
    /// `true` or `false` and no other spelling.
    Flag,
    /// A whole number in a range.
    Integer(u64, u64),
    /// A number in a range.
    Number(f64, f64),
    /// A duration with a unit, in a range of milliseconds.
    Duration(u64, u64),
    /// A bare number of seconds, as the public federation schema writes durations.
    Seconds,
    /// Bytes, as a number or with `KiB`, `MiB` or `GiB`, in a range.
    Size(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The name of a strategy.
    Strategy,
    /// An address with a port.
    Address,
    /// The path of a file.
    Path,
    /// Permission bits, written in octal.
    Mode,
    /// A list of texts, each of at most this many bytes; in variables and flags separated by commas.
    Texts(usize),
    /// A list of whole numbers in a range.
    Integers(i64, i64),
    /// A table of names to scalars.
    TextMap,
}

impl Kind {
    /// The kind in words, as the end of "expected …".
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Text(bytes_max) => format!("text of 1 to {bytes_max} bytes"),
            Self::Scalar => "text, a number, true or false".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Integer(min, max) if *max == u64::MAX => format!("a whole number from {min}"),
            Self::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Self::Number(min, max) => format!("a number from {min} to {max}"),
            Self::Duration(min, max) => {
                format!("a duration from {} to {} with its unit", printed(*min), printed(*max))
            }
            Self::Seconds => "a number of seconds without unit".to_owned(),
            Self::Size(min, max) => format!("a size from {min} to {max} bytes, such as 65536 or 64KiB"),
            Self::Choice(names) => format!("one of {}", names.join(", ")),
            Self::Strategy => format!("one of {}", Strategy::list()),
            Self::Address => "an address with a port, such as 127.0.0.1:9464 or [::1]:9464".to_owned(),
            Self::Path => "the path of a file".to_owned(),
            Self::Mode => "permission bits in octal from 0000 to 0777".to_owned(),
            Self::Texts(bytes_max) => format!("a list of texts of at most {bytes_max} bytes"),
            Self::Integers(min, max) => format!("a list of whole numbers from {min} to {max}"),
            Self::TextMap => "a table of names and texts".to_owned(),
        }
    }

    /// Whether the spelling in a file is kept instead of YAML's reading of it (`0660`, `1.0`).
    pub(crate) const fn keeps_spelling(self) -> bool {
        matches!(self, Self::Scalar | Self::Mode | Self::TextMap)
    }

    /// Reads a variable, a flag or a default. A value of another kind stays text, for [`Kind::settle`] to refuse with
    /// its origin.
    pub(crate) fn read(self, text: &str) -> Value {
        let read = match self {
            Self::Flag => text.parse::<bool>().ok().map(Value::from),
            Self::Integer(..) => text.parse::<u64>().ok().map(Value::from),
            Self::Number(..) | Self::Seconds => text.parse::<f64>().ok().map(Value::from),
            Self::Texts(_) => Some(Value::from(texts(text))),
            _ => None,
        };
        read.unwrap_or_else(|| Value::from(text))
    }

    /// The value in the form that the raw mirror reads.
    ///
    /// Errors: the rule that the value breaks, without the value.
    pub(crate) fn settle(self, value: Value) -> Result<Value, String> {
        let settled = match self {
            Self::Text(_) | Self::Strategy | Self::Choice(_) | Self::Address | Self::Path | Self::Duration(..) => {
                self.settle_text(value)?
            }
            Self::Scalar | Self::Mode => scalar(value).filter(|value| self.holds_text(value)),
            Self::Flag => Some(value).filter(|value| matches!(value, Value::Bool(..))),
            Self::Integer(min, max) => integer(&value).filter(|n| (min..=max).contains(n)).map(Value::from),
            Self::Number(min, max) => number(&value).filter(|n| (min..=max).contains(n)).map(Value::from),
            Self::Seconds => number(&value).and_then(seconds).map(|lasts| Value::from(print_duration(lasts))),
            Self::Size(min, max) => size(&value).filter(|n| (min..=max).contains(n)).map(Value::from),
            Self::Texts(bytes_max) => {
                value.into_array().filter(|list| list.iter().all(|v| is_text(v, bytes_max))).map(Value::from)
            }
            Self::Integers(min, max) => {
                value.into_array().filter(|list| list.iter().all(|it| is_whole(it, min, max))).map(Value::from)
            }
            Self::TextMap => Some(value).filter(|value| matches!(value, Value::Dict(..))),
        };
        settled.ok_or_else(|| format!("expected {}", self.expected()))
    }

    fn settle_text(self, value: Value) -> Result<Option<Value>, String> {
        if matches!(value, Value::Bool(..) | Value::Num(..)) {
            return Err(match self {
                Self::Text(_) => "expected text: put it in quotes".to_owned(),
                Self::Duration(..) => format!("expected {}, such as 250ms, 10s, 5min or 7d", self.expected()),
                _ => format!("expected {}", self.expected()),
            });
        }
        Ok(Some(value).filter(|value| self.holds_text(value)))
    }

    fn holds_text(self, value: &Value) -> bool {
        let Value::String(_, text) = value else { return false };
        match self {
            Self::Text(bytes_max) => !text.is_empty() && text.len() <= bytes_max,
            Self::Choice(names) => names.contains(&text.as_str()),
            Self::Strategy => Strategy::parse(text).is_ok(),
            Self::Address => text.parse::<SocketAddr>().is_ok(),
            Self::Path => is_path(text),
            Self::Duration(min, max) => parse_duration(text)
                .is_ok_and(|lasts| (Duration::from_millis(min)..=Duration::from_millis(max)).contains(&lasts)),
            Self::Mode => mode(text).is_some(),
            _ => true,
        }
    }
}

/// Permission bits from their octal spelling, with or without the prefix `0o`.
pub(crate) fn mode(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    u32::from_str_radix(digits, 8).ok().filter(|&bits| octal && bits <= 0o777)
}

fn printed(millis: u64) -> String {
    print_duration(Duration::from_millis(millis))
}

fn texts(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|text| !text.is_empty()).collect()
}

fn is_text(value: &Value, bytes_max: usize) -> bool {
    value.as_str().is_some_and(|text| text.len() <= bytes_max)
}

fn is_whole(value: &Value, min: i64, max: i64) -> bool {
    let Value::Num(_, num) = value else { return false };
    let whole = num.to_i128().or_else(|| num.to_u128().and_then(|number| i128::try_from(number).ok()));
    whole.is_some_and(|whole| (i128::from(min)..=i128::from(max)).contains(&whole))
}

/// A pasted key or certificate is no path, and must not travel on as one: paths are shown.
fn is_path(text: &str) -> bool {
    const BYTES_MAX: usize = 4096;
    !text.is_empty()
        && text.len() <= BYTES_MAX
        && !text.chars().any(char::is_control)
        && Path::new(text).file_name().is_some()
}

fn scalar(value: Value) -> Option<Value> {
    match value {
        Value::String(..) => Some(value),
        Value::Bool(_, truth) => Some(Value::from(truth.to_string())),
        Value::Num(_, num) => {
            num.to_u128().map(|n| n.to_string()).or(num.to_f64().map(|n| n.to_string())).map(Value::from)
        }
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "configured numbers are far below 2^53")]
fn number(value: &Value) -> Option<f64> {
    let Value::Num(_, num) = value else { return None };
    let number = num.to_f64().or_else(|| num.to_i128().map(|n| n as f64)).or_else(|| num.to_u128().map(|n| n as f64));
    number.filter(|number| number.is_finite())
}

/// A whole number; `2.0` is one, as JSON Schema has it.
fn integer(value: &Value) -> Option<u64> {
    let Value::Num(_, num) = value else { return None };
    match num {
        Num::F32(_) | Num::F64(_) => {
            num.to_f64().filter(|n| n.fract() == 0.0).and_then(|n| format!("{n:.0}").parse().ok())
        }
        _ => num.to_u128().and_then(|n| u64::try_from(n).ok()),
    }
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

fn size(value: &Value) -> Option<u64> {
    let Value::String(_, text) = value else { return integer(value) };
    parse_size(text)
}
