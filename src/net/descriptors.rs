//! How many files the process may have open, and how many of them may be clients'.
//!
//! Every client's call to a sidecar may need a connection to a region, and without a descriptor for it the call cannot be sent. So
//! descriptors for files that are open before the first client, for probes and for scrapes are reserved first, and clients get half
//! of the rest, however many connections they open. A hub makes no connection for a client: there they get all of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For listeners, event queues, files, scrapers and probes, beside the clients and as many connections to regions.
const OWN: u64 = 1_024;
/// Where the process sees its own descriptors.
const DESCRIPTORS: &str = "/proc/self/fd";
/// Descriptors that are open before the first client, where they cannot be counted: listeners, event queues and files.
const OPEN_AT_START: u64 = 40;
/// Descriptors for scrapes, for clients that are refused for lack of room, and for calls to several regions; less where
/// few are left.
const SET_APART: u64 = 192;

/// The need of a kind of process.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The descriptors that each client may need.
    pub each: u64,
    /// Those that are set apart from the clients' share; less where few are left.
    pub apart: u64,
}

impl Need {
    /// A sidecar needs a client's connection and one to a region.
    pub const SIDECAR: Self = Self { each: 2, apart: SET_APART };
}

/// Raises the process's limit on open files to the need of so many clients, of this need, as far as the kernel lets it.
///
/// Most processes begin with 1024 for the sake of programs that are confused by more, and may have far more if they ask.
pub fn raise_limit(clients: usize, need: Need) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(now) = current else { return };
    let needed = u64::try_from(clients).unwrap_or(u64::MAX).saturating_mul(need.each).saturating_add(OWN);
    let wanted = maximum.map_or(needed, |maximum| needed.min(maximum));
    if wanted > now {
        // Where the kernel refuses, the present limit bounds the clients.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// So many of these clients, of this need, may be connected at once, given the limit on open files and `threads` that are yet to be
/// started.
#[must_use]
pub fn room_for(clients: usize, need: Need, threads: usize) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return clients };
    let open = std::fs::read_dir(DESCRIPTORS).map_or(OPEN_AT_START, |entries| entries.count() as u64);
    // An event queue, its waker, the pair for signals, and the listeners of both families.
    let threads = (threads as u64).saturating_mul(8);
    clients.min(share(limit, open.saturating_add(threads), need))
}

/// The clients' share of so many descriptors, of which some are open already: at least one.
fn share(limit: u64, open: u64, need: Need) -> usize {
    let left = limit.saturating_sub(open);
    let clients = left.saturating_sub(need.apart.min(left / 3)) / need.each;
    usize::try_from(clients).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_have_a_descriptor_for_each_client_and_some_are_set_apart() {
        for (limit, open) in [(60, 30), (256, 40), (1024, 40), (21_024, 60)] {
            let clients = share(limit, open, Need::SIDECAR) as u64;
            assert!(open + 2 * clients + SET_APART.min((limit - open) / 3) <= limit, "{limit}: {clients}");
        }
        let both = |limit, open| share(limit, open, Need::SIDECAR);
        assert_eq!((both(60, 30), both(1024, 40), both(40, 60)), (10, 396, 1));
        let alone = |limit, open| share(limit, open, Need { each: 1, apart: 1_280 });
        assert_eq!((alone(20_000, 60), alone(1024, 40)), (18_660, 656));
    }
}
