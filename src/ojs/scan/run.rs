//! Runs of ordinary bytes inside a string.

use crate::base::block::{BLOCK_BYTES, Block, equal, first_marked, up_to};

/// How many bytes from the start are neither a quote, nor a backslash, nor a control character.
#[inline]
pub(in crate::ojs) fn plain_run(bytes: &[u8]) -> usize {
    first_marked(bytes, stops)
}

#[inline]
fn stops(block: Block) -> Block {
    // With this bit changed a quote (0x22) comes right behind the control characters, and one comparison finds both.
    up_to(block ^ Block::splat(0x02), 0x20) | equal(block, b'\\')
}

/// How many bytes from the start are neither a quote, nor a backslash, nor a control character, nor beyond ASCII: as far as whole
/// blocks go.
pub(in crate::ojs) fn ascii_run(bytes: &[u8]) -> usize {
    let is_plain = |block: &&[u8; BLOCK_BYTES]| {
        let block = Block::from(**block);
        // Bytes beyond ASCII have the highest bit set, as marked bytes have.
        (stops(block) | block).to_bitmask() == 0
    };
    bytes.as_chunks().0.iter().take_while(is_plain).count() * BLOCK_BYTES
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
