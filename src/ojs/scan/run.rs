//! Runs of ordinary bytes inside a string, eight at a time.

/// How many bytes from the start are neither a quote, nor a backslash, nor a control character.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let (words, tail) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let zero_where = |pattern: u8| {
            let crossed = word ^ (ONES * pattern as u64);
            crossed.wrapping_sub(ONES) & !crossed
        };
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        // Borrows disturb only bytes above a true hit, and only the lowest hit is used.
        let hits = (zero_where(b'"') | zero_where(b'\\') | control) & HIGHS;
        if hits != 0 {
            return place * 8 + hits.trailing_zeros() as usize / 8;
        }
    }
    let stop = tail.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    words.len() * 8 + stop.unwrap_or(tail.len())
}
