//! How many files the process may have open, and how many of them may be clients'.
//!
//! Every client's call may need a connection to a region, and a call that finds no descriptor for it fails as if the region were
//! down. So clients get half of the descriptors, however many connections they open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For listeners, event queues, files, scrapers and probes, beside the clients and as many connections to regions.
const OWN: u64 = 1_024;

/// Raises the limit of this process on open files to what so many clients need, as far as the system lets it.
///
/// Systems begin with 1024 for the sake of programs that are confused by more, and permit far more to those that ask.
pub fn raise_limit(clients: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(now) = current else { return };
    let needed = u64::try_from(clients).unwrap_or(u64::MAX).saturating_mul(2).saturating_add(OWN);
    let wanted = maximum.map_or(needed, |maximum| needed.min(maximum));
    if wanted > now {
        // Refused, it leaves us with what there is, which bounds the clients.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// So many of these clients may be connected at once, given the limit on open files.
#[must_use]
pub fn room_for(clients: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let half = limit.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX));
    clients.min(half.max(1))
}
