//! Runs of ordinary bytes inside a string, eight at a time, and in long strings thirty-two.

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// How many bytes from the start are neither a quote, nor a backslash, nor a control character.
pub(in crate::ojs) fn plain_run(bytes: &[u8]) -> usize {
    let mut run = 0;
    // Names and most values end in one of the first words.
    while let Some(word) = bytes.get(run..).and_then(<[u8]>::first_chunk) {
        if let Some(stop) = stop_in(*word) {
            return run + stop;
        }
        run += 8;
        if run == 32 {
            return long_run(bytes, run);
        }
    }
    run + tail_run(bytes.get(run..).unwrap_or_default())
}

/// How long the string is that begins here, if it is a short one without escapes.
#[inline]
pub(super) fn short_string(bytes: &[u8]) -> Option<usize> {
    let word: &[u8; 8] = bytes.first_chunk()?;
    stop_in(*word).filter(|stop| word.get(*stop) == Some(&b'"'))
}

/// The place of the first byte of a word that ends a run.
#[inline]
const fn stop_in(word: [u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(word);
    // With this bit changed a quote (0x22) comes right behind the control characters, and one comparison finds both.
    let low = word ^ (ONES * 0x02);
    let backslash = word ^ (ONES * b'\\' as u64);
    // Borrows disturb only bytes above a true hit, and only the lowest hit is used.
    let hits = (low.wrapping_sub(ONES * 0x21) & !low) | (backslash.wrapping_sub(ONES) & !backslash);
    match hits & HIGHS {
        0 => None,
        hits => Some(hits.trailing_zeros() as usize / 8),
    }
}

/// How many bytes from the start are neither a quote, nor a backslash, nor a control character, nor beyond ASCII: as far as whole
/// blocks go.
pub(in crate::ojs) fn ascii_run(bytes: &[u8]) -> usize {
    // As numbers with a sign, those beyond ASCII come before the control characters.
    let stops = |block: &[u8; 32]| {
        let stop = |byte: &u8| u8::from((byte ^ 0x02).cast_signed() < 0x21) | u8::from(*byte == b'\\');
        block.iter().fold(0, |stops, byte| stops | stop(byte))
    };
    bytes.as_chunks::<32>().0.iter().take_while(|block| stops(block) == 0).count() * 32
}

/// The run goes on behind `from`.
#[inline(never)]
fn long_run(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    // Without a branch for each byte, so that the compiler compares sixteen at once.
    let stops = |block: &[u8; 32]| {
        block.iter().fold(0, |stops, byte| stops | u8::from((byte ^ 0x02) < 0x21) | u8::from(*byte == b'\\'))
    };
    let blocks = rest.as_chunks::<32>().0.iter().take_while(|block| stops(block) == 0).count();
    let (words, tail) = rest.get(blocks * 32..).unwrap_or_default().as_chunks::<8>();
    let mut run = from + blocks * 32;
    for word in words {
        if let Some(stop) = stop_in(*word) {
            return run + stop;
        }
        run += 8;
    }
    run + tail_run(tail)
}

fn tail_run(tail: &[u8]) -> usize {
    let stop = tail.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    stop.unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_first_stop_wherever_it_stands() {
        for length in [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 200] {
            assert_eq!(plain_run(&vec![b'x'; length]), length);
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![byte; length];
                    bytes[..at].fill(b'~');
                    let stops = byte < 0x20 || matches!(byte, b'"' | b'\\');
                    let run = if stops { at } else { length };
                    assert_eq!(plain_run(&bytes), run, "{byte:#x} at {at} of {length}");
                    let ascii = if run == length && !byte.is_ascii() { at } else { run };
                    assert_eq!(ascii_run(&bytes), ascii / 32 * 32, "{byte:#x} at {at} of {length}");
                }
            }
        }
    }
}
