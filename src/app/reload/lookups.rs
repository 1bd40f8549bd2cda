//! The searches for jobs, in a new configuration.

use std::sync::Arc;

use crate::config::Config;
use crate::proxy::{Lookups, Shared};

/// Those that are under way stay, unless their bound has changed.
pub(super) fn lookups(old: &Shared, config: &Config) -> Arc<Lookups> {
    let searches = config.limits.lookups;
    if searches == old.config.limits.lookups { Arc::clone(&old.lookups) } else { Arc::new(Lookups::new(searches)) }
}
