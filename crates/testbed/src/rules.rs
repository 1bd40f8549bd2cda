//! The conditions on an accepted job: the rules of both dialects.

use bytes::Bytes;

use super::envelope::{Envelope, Reading};
use super::members::Invalid;

/// The longest type and the longest queue name, in bytes.
const KIND_BYTES_MAX: usize = 255;
const QUEUE_BYTES_MAX: usize = 128;

impl Envelope {
    /// Reads a submitted job and holds it to every rule for new jobs.
    ///
    /// Errors: the first [`Invalid`] found.
    pub(super) fn submitted(source: Bytes, reading: &Reading) -> Result<Self, Invalid> {
        let envelope = Self::parse(source, reading)?;
        check(&envelope, reading.any_id)?;
        Ok(envelope)
    }
}

/// Checks the conditions on the job alone.
///
/// Errors: the first rule that is broken.
pub(super) fn check(envelope: &Envelope, any_id: bool) -> Result<(), Invalid> {
    if !is_kind(&envelope.kind) {
        return Err(Invalid::Member("type", "is made of dot-separated words of a-z, 0-9, _ and -, at most 255 bytes"));
    }
    if !is_queue(&envelope.queue) {
        return Err(Invalid::Member("queue", "is made of a-z, 0-9, - and ., at most 128 bytes"));
    }
    if envelope.id.as_deref().is_some_and(|id| id.is_empty() || !any_id && !is_uuid7(id)) {
        return Err(Invalid::Member("id", "is a UUIDv7 in lower case"));
    }
    if !(-100..=100).contains(&envelope.priority) {
        return Err(Invalid::Member("priority", "is a number from -100 to 100"));
    }
    Ok(())
}

const fn is_alphanumeric(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9')
}

fn is_kind(text: &str) -> bool {
    // The documents leave out the hyphen; servers and the public cases use it.
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| is_alphanumeric(byte) || matches!(byte, b'_' | b'-'))
    };
    text.len() <= KIND_BYTES_MAX && text.split('.').all(is_word)
}

fn is_queue(text: &str) -> bool {
    text.len() <= QUEUE_BYTES_MAX
        && text.bytes().next().is_some_and(is_alphanumeric)
        && text.bytes().all(|byte| is_alphanumeric(byte) || matches!(byte, b'-' | b'.'))
}

fn is_uuid7(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let holds = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        14 => byte == b'7',
        19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
        _ => is_digit(byte),
    };
    text.len() == 36 && text.bytes().enumerate().all(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_types_queues_and_ids_are_taken() {
        for (text, expected) in [
            ("email.send", true),
            ("a", true),
            ("dlq.test.list-first", true),
            ("test.fail_once", true),
            ("", false),
            ("a.", false),
            (".a", false),
            ("a..b", false),
            ("1a", false),
            ("Email.Send", false),
            ("a b", false),
            ("a@b", false),
        ] {
            assert_eq!(is_kind(text), expected, "{text}");
        }
        assert!(is_kind(&"a".repeat(255)) && !is_kind(&"a".repeat(256)));
        for (text, expected) in [
            ("default", true),
            ("0-a.b", true),
            ("", false),
            ("-a", false),
            ("A", false),
            ("a_b", false),
            ("a b", false),
        ] {
            assert_eq!(is_queue(text), expected, "{text}");
        }
        assert!(is_queue(&"a".repeat(128)) && !is_queue(&"a".repeat(129)));
        for (text, expected) in [
            ("019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f", true),
            ("019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F", false),
            ("550e8400-e29b-41d4-a716-446655440000", false),
            ("019461a8-1a2b-7c3d-7e4f-5a6b7c8d9e0f", false),
            ("019461a81a2b7c3d8e4f5a6b7c8d9e0f", false),
            ("", false),
        ] {
            assert_eq!(is_uuid7(text), expected, "{text}");
        }
    }
}
