//! The parts of a run, as the command line asks for them.

use std::fmt::Write as _;
use std::time::Duration;

use super::ids::IDS;
use crate::DuplicateIds;

/// How long a region may go on writing after the end of a connection, as configured for runs with short times, and by
/// default.
const GRACE_SHORT: Duration = Duration::from_millis(500);
const GRACE_USUAL: Duration = Duration::from_secs(2);
/// How far reads lag at most, where they do.
const LAG_SHORT: Duration = Duration::from_secs(1);
const LAG_USUAL: Duration = Duration::from_secs(3);

/// The behaviour of a run's regions for taken ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Regions {
    All(DuplicateIds),
    /// Each another.
    Mixed,
}

/// A run as the command line asks for it.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long clients enqueue. Units: seconds.
    pub seconds: u64,
    /// How many jobs in that time; none for the usual rate.
    pub enqueues: Option<u64>,
    /// How often the sidecar is killed, beside once for each way to break its journal.
    pub kills: u64,
    /// The seed of the plan; none for a new one, which is printed.
    pub seed: Option<u64>,
    /// One of [`REGIONS`].
    pub regions: String,
    /// The longest that a write takes after the end of its call.
    pub late_writes: Option<Duration>,
    /// Whether every region speaks HTTP/2; else one speaks HTTP/1.1 only.
    pub http2: bool,
    /// Whether the sidecar has its default timings; else short ones.
    pub default_timings: bool,
    /// Whether regions lie and lag, clients use ids twice and have credentials, and the process is ended in more ways.
    pub hostile: bool,
}

/// The names of the regions' behaviour for a taken id.
pub const REGIONS: [&str; 4] = ["refuse", "same", "overwrite", "mixed"];

/// The parts of a run besides its length and its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    regions: Regions,
    /// The longest that a write takes after the end of its call, where that is longer than usual.
    pub(super) late: Option<Duration>,
    /// Whether every region speaks HTTP/2; else one speaks HTTP/1.1 only.
    pub(super) http2: bool,
    /// Whether the sidecar has its default timings; else short ones, so that a run of seconds sees every fault to its end.
    pub(super) default_timings: bool,
    /// Whether regions lie and lag, clients use ids twice and have credentials, and the process is ended in more ways.
    pub(super) hostile: bool,
}

impl Plan {
    pub(super) fn of(options: &Options) -> Self {
        Self {
            // The command line takes no other word.
            regions: DuplicateIds::parse(&options.regions).map_or(Regions::Mixed, Regions::All),
            late: options.late_writes,
            http2: options.http2,
            default_timings: options.default_timings,
            hostile: options.hostile,
        }
    }

    /// Each region's behaviour for a taken id.
    pub(super) const fn duplicate_ids(self) -> [DuplicateIds; IDS.len()] {
        match self.regions {
            Regions::All(same) => [same; IDS.len()],
            Regions::Mixed => [DuplicateIds::Refuse, DuplicateIds::Overwrite, DuplicateIds::Same],
        }
    }

    /// The configured longest delay of a late write.
    pub(super) const fn grace(self) -> Duration {
        if self.default_timings { GRACE_USUAL } else { GRACE_SHORT }
    }

    /// How far reads lag at most.
    pub(super) const fn lag(self) -> Duration {
        if self.default_timings { LAG_USUAL } else { LAG_SHORT }
    }

    /// The options for the same plan.
    pub(super) fn words(self) -> String {
        let mut words = match self.regions {
            Regions::All(DuplicateIds::Refuse) => String::new(),
            Regions::All(same) => format!(" --chaos-regions {}", same.as_str()),
            Regions::Mixed => " --chaos-regions mixed".to_owned(),
        };
        if let Some(late) = self.late {
            // Writing to a text cannot fail.
            let _ = write!(words, " --chaos-late-writes {}ms", late.as_millis());
        }
        let flags = [
            (self.http2, " --chaos-http2"),
            (self.default_timings, " --chaos-default-timings"),
            (self.hostile, " --chaos-hostile"),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).for_each(|(_, flag)| words.push_str(flag));
        words
    }
}
