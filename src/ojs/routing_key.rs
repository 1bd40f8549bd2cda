//! Keys that bind a job to a region or a strategy, where a body holds them.

use std::borrow::Cow;

use super::scan::{ScanError, Scanner};

/// A key that would bind a job to a region or a strategy.
#[derive(Clone, PartialEq, Eq)]
pub struct RoutingKey<'b> {
    /// Which of the two.
    pub kind: RoutingKind,
    /// Its value; `None` when it is no string.
    pub value: Option<Cow<'b, str>>,
    /// Where it stands, in bytes from the start of the body.
    pub offset: usize,
}

impl std::fmt::Debug for RoutingKey<'_> {
    // Meta values belong in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoutingKey").field("kind", &self.kind).field("offset", &self.offset).finish_non_exhaustive()
    }
}

/// Which routing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutingKind {
    /// `ojs.federation.region`: a pin.
    Region,
    /// `ojs.federation.region_affinity`: a strategy.
    Affinity,
    /// `ojs.federation.regions_with`: tags that the region must have.
    Tags,
}

/// Reads the value of a routing key whose place is known; `None` for `null`.
pub(super) fn read_routing_key(
    text: &str,
    kind: RoutingKind,
    offset: usize,
    after: usize,
) -> Result<Option<RoutingKey<'_>>, ScanError> {
    let mut scanner = Scanner::again(text, after, &[]);
    // The colon, whose presence the first pass has checked.
    scanner.next();
    let mut scanner = Scanner::again(text, scanner.at() + 1, &[]);
    let value = match scanner.next() {
        Some(b'n') => return Ok(None),
        Some(b'"') => Some(scanner.string()?.decode()),
        _ => None,
    };
    Ok(Some(RoutingKey { kind, value, offset }))
}
