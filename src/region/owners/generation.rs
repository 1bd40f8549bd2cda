//! Jobs that were learned one after the other, in little more memory than their regions take.
//!
//! A table never grows: it has rows for as many jobs as it was made for. A job has two rows that it may lie in, and lies in the emptier
//! one, so that rows fill evenly, and nearly all of a table is in use before the first job finds no place.

/// Places in a row. Of 5 bytes each, so many fit into the 64 that a processor fetches at once.
const PLACES: usize = 12;
/// So many places of each row are in use, as a rule, when the first job finds none.
const FILLED: usize = 10;
/// No job lies here.
const EMPTY: u32 = 0;
/// Any odd number with random-looking bits: the second bucket is chosen by a product with it.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A job's key: a hash of its id, whose lower half distinguishes jobs of the same buckets. With a million jobs, one
/// question in twenty million finds the entry of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Row {
    tags: [u32; PLACES],
    numbers: [u8; PLACES],
}

/// Jobs, and of each the number of its region.
#[derive(Debug)]
pub(super) struct Generation {
    rows: Box<[Row]>,
    room: usize,
    count: usize,
}

/// The table has no place for this job: the next generation begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Key {
    pub(super) const fn of(hash: u64) -> Self {
        Self(hash)
    }

    /// Which of so many shards, by the bits that matter least for the row.
    pub(super) const fn shard(self, count: usize) -> usize {
        ((self.0 >> 32) % count as u64) as usize
    }

    const fn tag(self) -> u32 {
        let [a, b, c, d, ..] = self.0.to_le_bytes();
        match u32::from_le_bytes([a, b, c, d]) {
            EMPTY => 1,
            tag => tag,
        }
    }

    /// The places of its two rows among so many; they may be one.
    const fn rows(self, count: usize) -> [usize; 2] {
        [
            (((self.0 >> 32) * count as u64) >> 32) as usize,
            (((self.0.wrapping_mul(SPREAD) >> 32) * count as u64) >> 32) as usize,
        ]
    }
}

impl Row {
    const NONE: Self = Self { tags: [EMPTY; PLACES], numbers: [0; PLACES] };

    fn place(&self, tag: u32) -> Option<usize> {
        self.tags.iter().position(|known| *known == tag)
    }

    fn used(&self) -> usize {
        self.tags.iter().filter(|tag| **tag != EMPTY).count()
    }
}

impl Generation {
    /// A table of so many jobs, none of which is there yet.
    pub(super) fn new(room: usize) -> Self {
        Self { rows: vec![Row::NONE; room.div_ceil(FILLED).max(1)].into(), room, count: 0 }
    }

    /// The region's number that was last entered for this job.
    pub(super) fn get(&self, key: Key) -> Option<u8> {
        let tag = key.tag();
        let [first, second] = key.rows(self.rows.len()).map(|row| &self.rows[row]);
        let (row, place) =
            first.place(tag).map(|place| (first, place)).or_else(|| Some((second, second.place(tag)?)))?;
        Some(row.numbers[place])
    }

    /// Enters a job, or another region for it.
    pub(super) fn enter(&mut self, key: Key, number: u8) -> Result<(), Full> {
        let tag = key.tag();
        let [first, second] = key.rows(self.rows.len());
        for row in [first, second] {
            if let Some(place) = self.rows[row].place(tag) {
                self.rows[row].numbers[place] = number;
                return Ok(());
            }
        }
        let row = if self.rows[first].used() <= self.rows[second].used() { first } else { second };
        let place = self.rows[row].place(EMPTY).filter(|_| self.count < self.room).ok_or(Full)?;
        self.rows[row].tags[place] = tag;
        self.rows[row].numbers[place] = number;
        self.count += 1;
        Ok(())
    }

    pub(super) fn remove(&mut self, key: Key) {
        let tag = key.tag();
        for row in key.rows(self.rows.len()) {
            if let Some(place) = self.rows[row].place(tag) {
                self.rows[row].tags[place] = EMPTY;
                self.count -= 1;
            }
        }
    }

    /// How many jobs are there.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// How many jobs it was made for.
    pub(super) const fn room(&self) -> usize {
        self.room
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    /// Keys as a good hash makes them.
    fn keys() -> impl Iterator<Item = Key> {
        let seed = foldhash::fast::FixedState::with_seed(1);
        (0_u64..).map(move |number| Key::of(seed.hash_one(number)))
    }

    fn number(key: Key) -> u8 {
        key.tag().to_le_bytes()[0]
    }

    /// Fills a table: the jobs that have found a place.
    fn fill(table: &mut Generation) -> Vec<Key> {
        keys().take_while(|key| table.enter(*key, number(*key)) != Err(Full)).collect()
    }

    #[test]
    fn a_table_of_any_size_takes_nearly_all_that_it_was_made_for_and_no_more() {
        for room in [1, 7, 10, 100, 1_000, 10_000, 100_000] {
            let mut table = Generation::new(room);
            let entered = fill(&mut table);
            assert_eq!(entered.len(), table.len());
            assert!((room - room / 10..=room).contains(&entered.len()), "{} of {room}", entered.len());
            assert!(entered.iter().all(|key| table.get(*key) == Some(number(*key))), "{room}");
            let others = keys().skip(room + 1).take(10_000);
            assert_eq!(others.filter(|key| table.get(*key).is_some()).count(), 0, "{room}");
        }
    }

    #[test]
    fn a_full_table_needs_six_and_a_half_bytes_a_job() {
        assert_eq!((size_of::<Row>(), align_of::<Row>()), (64, 64), "a line of the cache");
        let mut table = Generation::new(10_000);
        let jobs = fill(&mut table).len();
        assert!(size_of_val(&*table.rows) * 2 <= jobs * 13, "{jobs} jobs");
    }

    #[test]
    fn a_job_has_one_region_the_last_and_its_place_is_free_when_it_is_removed() {
        let mut table = Generation::new(1_000);
        let entered = fill(&mut table);
        for key in &entered {
            assert_eq!(table.enter(*key, 0), Ok(()), "one that is there needs no place");
        }
        assert_eq!(table.len(), entered.len());
        for key in &entered {
            assert_eq!(table.get(*key), Some(0));
            table.remove(*key);
            table.remove(*key);
            assert_eq!(table.get(*key), None);
        }
        assert_eq!(table.len(), 0);
        assert_eq!(fill(&mut table), entered);
    }
}
