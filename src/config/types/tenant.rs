//! Where the jobs of a tenant may go.

use crate::base::RegionId;

/// The settings of tenants whose name fits a pattern; the first that fits decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Glob over the tenant's name: `*` stands for any run of characters, `?` for one.
    pub pattern: String,
    /// The regions that the tenant's jobs may go to; empty means all. Narrows pins and rules, never widens them. Every id is registered.
    pub regions: Vec<RegionId>,
    /// The region that takes the local region's part for the tenant's jobs; one of `regions`, where those are named.
    pub home: Option<RegionId>,
}
