//! The answer of a source to the loop of the discovery.

use crate::config::RegionSource;
use crate::region::discovery::Look;

/// A look at a source, or why it named no region.
pub(super) type Looked = (RegionSource, Result<Look, String>);
