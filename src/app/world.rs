//! The program's surroundings.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::Clock;
use crate::config::{Loaded, Problems};
use crate::net::resolve::{Resolve, SystemResolver};
use crate::telemetry::LogHandle;

/// The program's surroundings, so that tests can steer them.
#[derive(Clone)]
pub struct World {
    /// Time for probes, cooldowns, polls and ages.
    pub clock: Clock,
    /// Names to addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Where the configuration came from, so that it can be loaded again; none: only identities are looked at again.
    pub source: Option<Source>,
}

impl Default for World {
    fn default() -> Self {
        Self { clock: Clock::system(), resolver: Arc::new(SystemResolver), source: None }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

/// Loads the configuration anew from where it came from.
pub type LoadAgain = Arc<dyn Fn() -> Result<Loaded, Problems> + Send + Sync>;

/// Where a configuration came from.
#[derive(Clone)]
pub struct Source {
    /// Loads it again.
    pub load: LoadAgain,
    /// Its files, to be watched.
    pub files: Vec<PathBuf>,
    /// Where a new level goes, where this process logs.
    pub log: Option<LogHandle>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("files", &self.files).finish_non_exhaustive()
    }
}
