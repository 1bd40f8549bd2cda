//! The form of each value, the same in XML, JSON and the schema file.

use data_encoding::BASE64;

use super::flaw::Field;
use super::task::Priority;

/// The digits of a SHA-256 in hex.
const KEY_DIGITS: usize = 64;
/// The longest name of a service. Units: bytes.
const ORIGIN_BYTES_MAX: usize = 128;
/// The digits behind the point of a multiplier.
const FRACTION_DIGITS_MAX: usize = 6;

impl Field {
    /// The form of the value: a sentence for the sender.
    #[must_use]
    pub const fn expected(self) -> &'static str {
        match self {
            Self::WorkflowId => "expected a UUID of version 4, such as 1b4e28ba-2fa1-4ad2-883f-0016d3cca427",
            Self::IdempotencyKey => "expected a SHA-256 as 64 hexadecimal digits",
            Self::Priority => "expected HIGH, NORMAL or LOW",
            Self::OriginService => {
                "expected 1 to 128 letters, digits, `.`, `_` or `-`, beginning with a letter or digit"
            }
            Self::MaxRetries => "expected a whole number from 0 to 999, without a sign or leading zeros",
            Self::BackoffMultiplier => {
                "expected a decimal number from 1 to 100 with at most 6 digits behind the point, such as 1.5"
            }
            Self::TimeoutMs => "expected a whole number of milliseconds from 1 to 99999999, without leading zeros",
            Self::Payload => "expected base64 with padding, of the alphabet A-Z a-z 0-9 + /",
        }
    }

    /// Whether the text is a value of the field. The text has no white space around it, a payload none at all.
    pub(super) fn fits(self, text: &str) -> bool {
        let bytes = text.as_bytes();
        match self {
            Self::WorkflowId => is_uuid4(bytes),
            Self::IdempotencyKey => bytes.len() == KEY_DIGITS && bytes.iter().all(u8::is_ascii_hexdigit),
            Self::Priority => Priority::of(text).is_some(),
            Self::OriginService => is_service(bytes),
            Self::MaxRetries => text == "0" || is_number(bytes, 3),
            Self::BackoffMultiplier => is_multiplier(text),
            Self::TimeoutMs => is_number(bytes, 8),
            // The decoder takes several texts behind each other for one: padding is permitted at the end alone.
            Self::Payload => BASE64.decode(bytes).is_ok() && !text.trim_end_matches('=').contains('='),
        }
    }
}

/// `8-4-4-4-12` hexadecimal digits, of version 4 and the variant of RFC 9562.
fn is_uuid4(bytes: &[u8]) -> bool {
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            14 => *byte == b'4',
            19 => matches!(byte.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'),
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_service(bytes: &[u8]) -> bool {
    let [first, rest @ ..] = bytes else { return false };
    bytes.len() <= ORIGIN_BYTES_MAX
        && first.is_ascii_alphanumeric()
        && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// A whole number above 0, without a sign or leading zeros.
fn is_number(bytes: &[u8], digits_max: usize) -> bool {
    let [b'1'..=b'9', rest @ ..] = bytes else { return false };
    rest.len() < digits_max && rest.iter().all(u8::is_ascii_digit)
}

fn is_multiplier(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_fraction =
        (1..=FRACTION_DIGITS_MAX).contains(&fraction.len()) && fraction.bytes().all(|it| it.is_ascii_digit());
    let is_whole = is_number(whole.as_bytes(), 2) || whole == "100" && fraction.bytes().all(|it| it == b'0');
    is_whole && is_fraction
}
