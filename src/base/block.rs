//! Bytes looked at thirty-two at a time.

pub(crate) use wide::u8x32 as Block;

/// How many bytes are looked at at once.
pub(crate) const BLOCK_BYTES: usize = 32;

/// The place of the first byte that `marks` marks with ones, or how many bytes there are, where it marks none.
#[inline]
pub(crate) fn first_marked(bytes: &[u8], marks: impl Fn(Block) -> Block) -> usize {
    // The wanted byte is usually in the first block.
    match bytes.first_chunk().map(|block| marks(Block::from(*block)).to_bitmask()) {
        None => in_last(bytes, marks),
        Some(0) => BLOCK_BYTES + in_blocks(&bytes[BLOCK_BYTES..], marks),
        Some(marked) => marked.trailing_zeros() as usize,
    }
}

#[inline(never)]
fn in_blocks(bytes: &[u8], marks: impl Fn(Block) -> Block) -> usize {
    let (blocks, tail) = bytes.as_chunks::<BLOCK_BYTES>();
    for (place, block) in blocks.iter().enumerate() {
        let marked = marks(Block::from(*block)).to_bitmask();
        if marked != 0 {
            return place * BLOCK_BYTES + marked.trailing_zeros() as usize;
        }
    }
    bytes.len() - tail.len() + in_last(tail, marks)
}

/// The same of fewer bytes than a block has.
#[inline(never)]
fn in_last(bytes: &[u8], marks: impl Fn(Block) -> Block) -> usize {
    let mut block = [0; BLOCK_BYTES];
    if let Some(room) = block.get_mut(..bytes.len()) {
        room.copy_from_slice(bytes);
    }
    (marks(Block::from(block)).to_bitmask().trailing_zeros() as usize).min(bytes.len())
}

/// The place of the last byte that `marks` marks with ones. It must not mark 0, with which the last block is filled up.
#[inline]
pub(crate) fn last_marked(bytes: &[u8], marks: impl Fn(Block) -> Block) -> Option<usize> {
    let mut rest = bytes;
    while let Some((before, block)) = rest.split_last_chunk::<BLOCK_BYTES>() {
        let marked = marks(Block::from(*block)).to_bitmask();
        if marked != 0 {
            return Some(rest.len() - 1 - marked.leading_zeros() as usize);
        }
        rest = before;
    }
    let mut block = [0; BLOCK_BYTES];
    block.iter_mut().zip(rest).for_each(|(room, byte)| *room = *byte);
    let marked = marks(Block::from(block)).to_bitmask();
    (BLOCK_BYTES - marked.leading_zeros() as usize).checked_sub(1)
}

/// Marks the bytes that are no more than `most`.
#[inline]
pub(crate) fn up_to(block: Block, most: u8) -> Block {
    block.min(Block::splat(most)).simd_eq(block)
}

/// Marks the bytes that are this one.
#[inline]
pub(crate) fn equal(block: Block, byte: u8) -> Block {
    block.simd_eq(Block::splat(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_marked_byte_is_found_wherever_it_stands() {
        for length in [0, 1, 31, 32, 33, 63, 64, 65, 100] {
            let find = |bytes: &[u8]| first_marked(bytes, |block| equal(block, b'x') | up_to(block, 9));
            assert_eq!(find(&vec![10; length]), length);
            for at in 0..length {
                for (byte, is_marked) in [(b'x', true), (0, true), (9, true), (10, false), (0xff, false)] {
                    let mut bytes = vec![b'y'; length];
                    bytes[at..].fill(byte);
                    assert_eq!(find(&bytes), if is_marked { at } else { length }, "{byte} at {at} of {length}");
                }
                let bytes: Vec<u8> = (0..length).map(|it| if it <= at { b'x' } else { b'y' }).collect();
                assert_eq!(last_marked(&bytes, |block| equal(block, b'x')), Some(at), "{at} of {length}");
                assert_eq!(last_marked(&bytes, |block| equal(block, b'z')), None);
            }
        }
    }
}
