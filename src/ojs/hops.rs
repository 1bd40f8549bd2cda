//! How many sidecars a call has passed, as `OJS-Federation-Hops` says it.

/// The count in the lines of the header; 0 where there are none.
///
/// Errors: `None` for more than one line, and for a value that is not a plain number of at most three digits: no chain
/// is that long, and a count with two readings would not end a loop.
#[must_use]
pub fn read<'v>(mut lines: impl Iterator<Item = &'v [u8]>) -> Option<u16> {
    let Some(line) = lines.next() else { return Some(0) };
    let is_plain = (1..=3).contains(&line.len()) && line.iter().all(u8::is_ascii_digit);
    if !is_plain || lines.next().is_some() {
        return None;
    }
    Some(line.iter().fold(0, |count, digit| count * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_plain_number_is_a_count_and_nothing_else_is() {
        assert_eq!(read(std::iter::empty()), Some(0));
        for (line, count) in [("0", 0), ("2", 2), ("007", 7), ("999", 999)] {
            assert_eq!(read([line.as_bytes()].into_iter()), Some(count), "{line}");
        }
        for line in ["", " 1", "-1", "+1", "1.0", "1, 2", "0x1", "1000", "two", "\u{661}", "\u{ff}"] {
            assert_eq!(read([line.as_bytes()].into_iter()), None, "{line}");
        }
        assert_eq!(read([&b"1"[..], b"1"].into_iter()), None, "two lines");
    }
}
