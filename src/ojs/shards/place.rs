//! Where the jobs of a queue lie: the shard of a tenant, and the band of a priority.

use std::collections::BTreeMap;

use super::bounds::{BANDS_MAX, MARK, SHARDS_MAX};

/// A shard in a band of priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The band, 0 for the highest priorities.
    pub band: u8,
    /// The shard within the band.
    pub shard: u8,
}

impl Place {
    /// Reads the suffix of a shard's name, and gives back the text behind it.
    pub(super) fn read(text: &str) -> Option<(Self, &str)> {
        let rest = text.strip_prefix(MARK)?;
        let (band, rest) = match rest.strip_prefix('p') {
            None => (0, rest),
            Some(rest) => {
                let band = rest.bytes().next().filter(|band| (b'1'..b'0' + BANDS_MAX as u8).contains(band))? - b'0';
                (band, rest.get(1..)?.strip_prefix('-')?)
            }
        };
        let rest = rest.strip_prefix('t')?;
        let (digits, rest) = rest.split_at_checked(2)?;
        let shard = digits.parse::<u8>().ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
        (usize::from(shard) < SHARDS_MAX).then_some((Self { band, shard }, rest))
    }

    fn suffix(self) -> String {
        match self.band {
            0 => format!("{MARK}t{:02}", self.shard),
            band => format!("{MARK}p{band}-t{:02}", self.shard),
        }
    }
}

/// A queue with shards.
#[derive(Debug)]
pub struct ShardedQueue {
    name: String,
    shards: u8,
    /// The least priority of each band but the last one, descending.
    bands: Vec<i64>,
    /// The shards of the tenants that have one by name.
    named: BTreeMap<String, u8>,
    /// The shards of all other tenants.
    open: Vec<u8>,
    weights: Vec<u32>,
    /// By band, then by shard.
    suffixes: Vec<String>,
    /// The names of the shards as they stand in a list: quoted, with a comma behind. As the suffixes.
    listed: Vec<String>,
    takes_jobs: bool,
}

impl ShardedQueue {
    /// A queue. `shards`: how many, 1 to [`SHARDS_MAX`]; `bands`: the least priority of each band but the last one, descending; `weights`: by tenant,
    /// from 1 up; `takes_jobs`: whether new jobs go into shards.
    ///
    /// Tenants with a weight have shards of their own as far as there are so many, by their names' order.
    #[must_use]
    pub fn new(
        name: &str,
        shards: u8,
        bands: &[i64],
        weights: &BTreeMap<String, u32>,
        default_weight: u32,
        takes_jobs: bool,
    ) -> Self {
        let shards = shards.clamp(1, SHARDS_MAX as u8);
        let mut free: Vec<u8> = (0..shards).collect();
        let mut of_shards = vec![0_u32; usize::from(shards)];
        let mut named = BTreeMap::new();
        for (tenant, weight) in weights {
            // With more of them than shards, some share one.
            let shard = best(hash(name, tenant), &free).or_else(|| best(hash(name, tenant), &all(shards)));
            let shard = shard.unwrap_or_default();
            free.retain(|other| *other != shard);
            of_shards[usize::from(shard)] = of_shards[usize::from(shard)].saturating_add(*weight);
            named.insert(tenant.clone(), shard);
        }
        let open = if free.is_empty() { all(shards) } else { free };
        let weights = of_shards.into_iter().map(|weight| if weight == 0 { default_weight } else { weight }).collect();
        let places = (0..=bands.len()).flat_map(|band| (0..shards).map(move |shard| (band, shard)));
        let suffixes: Vec<_> = places.map(|(band, shard)| Place { band: band as u8, shard }.suffix()).collect();
        let listed = suffixes.iter().map(|suffix| format!("\"{name}{suffix}\",")).collect();
        let (name, bands) = (name.to_owned(), bands.to_vec());
        Self { name, shards, bands, named, open, weights, suffixes, listed, takes_jobs }
    }

    /// Its own name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many shards each band has.
    #[must_use]
    pub fn shards(&self) -> usize {
        usize::from(self.shards)
    }

    /// How many bands there are, at least one.
    #[must_use]
    pub fn bands(&self) -> usize {
        self.bands.len() + 1
    }

    /// The weight of each shard.
    #[must_use]
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// Whether new jobs go into shards; else they are only emptied.
    #[must_use]
    pub const fn takes_jobs(&self) -> bool {
        self.takes_jobs
    }

    /// Whether a job's place depends on its priority.
    #[must_use]
    pub fn has_bands(&self) -> bool {
        !self.bands.is_empty()
    }

    /// The place of a tenant's jobs of a priority.
    #[must_use]
    pub fn place(&self, tenant: &str, priority: i64) -> Place {
        let band = self.bands.iter().position(|least| priority >= *least).unwrap_or(self.bands.len());
        let shard = self.named.get(tenant).copied().or_else(|| best(hash(&self.name, tenant), &self.open));
        Place { band: band as u8, shard: shard.unwrap_or_default() }
    }

    /// The suffix of the name of a place; none for a place that there is not.
    #[must_use]
    pub fn suffix(&self, place: Place) -> Option<&str> {
        self.suffixes_of(place.band.into()).get(usize::from(place.shard)).map(String::as_str)
    }

    /// The suffixes of a band; none for a band that there is not.
    fn suffixes_of(&self, band: usize) -> &[String] {
        debug_assert!(band < self.bands(), "a queue has as many bands as its places");
        self.suffixes.chunks(self.shards()).nth(band).unwrap_or_default()
    }

    /// Writes the names of the shards of a band in this order, each with a comma behind it. `quoted`: the queue's own name, as the list has it, which their
    /// names begin with.
    pub fn list(&self, band: usize, order: &[usize], quoted: &str, to: &mut String) {
        debug_assert!(band < self.bands() && order.iter().all(|shard| *shard < self.shards()), "no shard is left out");
        let open = quoted.strip_suffix('"').unwrap_or(quoted);
        if open.strip_prefix('"') == Some(&self.name) {
            let names = self.listed.chunks(self.shards()).nth(band).unwrap_or_default();
            order.iter().filter_map(|shard| names.get(*shard)).for_each(|name| to.push_str(name));
            return;
        }
        for suffix in order.iter().filter_map(|shard| self.suffixes_of(band).get(*shard)) {
            to.extend([open, suffix, "\","]);
        }
    }

    /// The suffixes of all names of the queue: that of its own, which is empty, and those of its shards, band by band.
    pub fn suffixes(&self) -> impl Iterator<Item = &str> {
        std::iter::once("").chain(self.suffixes.iter().map(String::as_str))
    }

    /// All names of the queue, its own first.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.suffixes().map(|suffix| format!("{}{suffix}", self.name))
    }
}

fn all(shards: u8) -> Vec<u8> {
    (0..shards).collect()
}

/// The shard with the highest score for a tenant, and of two with the same one the first.
fn best(hash: u64, among: &[u8]) -> Option<u8> {
    let score = |shard: u8| mixed(hash ^ (u64::from(shard) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    among.iter().copied().reduce(|best, shard| if score(shard) > score(best) { shard } else { best })
}

/// FNV-1a of 64 bits over the queue's name, a zero byte and the tenant.
fn hash(queue: &str, tenant: &str) -> u64 {
    let bytes = queue.bytes().chain([0]).chain(tenant.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The finaliser of MurmurHash3.
const fn mixed(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
