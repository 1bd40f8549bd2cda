//! The searches for jobs and their remembered owners, in a new configuration.

use std::sync::Arc;

use crate::config::Config;
use crate::proxy::{Lookups, Shared};
use crate::region::Owners;

/// Those that are under way stay, unless their bound has changed.
pub(super) fn lookups(old: &Shared, config: &Config) -> Arc<Lookups> {
    let searches = config.limits.lookups;
    if searches == old.config.limits.lookups { Arc::clone(&old.lookups) } else { Arc::new(Lookups::new(searches)) }
}

/// The remembered owners stay, unless their bound has changed.
pub(super) fn owners(old: &Shared, config: &Config) -> Arc<Owners> {
    let entries = config.limits.owner_entries;
    if entries == old.config.limits.owner_entries { Arc::clone(&old.owners) } else { Arc::new(Owners::new(entries)) }
}
