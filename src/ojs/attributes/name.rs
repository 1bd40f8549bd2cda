//! The names of the attributes that we know.

use crate::ojs::key::{Likeness, likeness, strip_prefix_folded};

pub(in crate::ojs) const PREFIX: &str = "ojs.federation.";

/// The attributes that we know, in the order of [`Name::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ojs) enum Name {
    Region,
    RegionAffinity,
    FederationId,
    ReplicatedFrom,
    Weights,
    SourceRegion,
    RoutedAt,
    RegionsWith,
}

impl Name {
    pub(super) const ALL: [Self; 8] = [
        Self::Region,
        Self::RegionAffinity,
        Self::FederationId,
        Self::ReplicatedFrom,
        Self::Weights,
        Self::SourceRegion,
        Self::RoutedAt,
        Self::RegionsWith,
    ];

    /// The whole member name.
    pub(in crate::ojs) const fn as_str(self) -> &'static str {
        match self {
            Self::Region => "ojs.federation.region",
            Self::RegionAffinity => "ojs.federation.region_affinity",
            Self::FederationId => "ojs.federation.federation_id",
            Self::ReplicatedFrom => "ojs.federation.replicated_from",
            Self::Weights => "ojs.federation.weights",
            Self::SourceRegion => "ojs.federation.source_region",
            Self::RoutedAt => "ojs.federation.routed_at",
            Self::RegionsWith => "ojs.federation.regions_with",
        }
    }

    /// Whether it binds a job to a region or a way of choosing one.
    pub(super) const fn is_routing(self) -> bool {
        matches!(self, Self::Region | Self::RegionAffinity | Self::Weights | Self::RegionsWith)
    }

    /// Informational keys are passed with any value.
    pub(super) const fn is_opaque(self) -> bool {
        matches!(self, Self::SourceRegion | Self::RoutedAt)
    }

    /// Finds the attribute that a member name means, and whether it is spelled exactly.
    pub(in crate::ojs) fn of(key: &str) -> Option<(Self, bool)> {
        // No other letter folds to this one.
        if !matches!(key.as_bytes(), [b'o' | b'O', ..]) {
            return None;
        }
        let (rest, exact) = strip_prefix_folded(key, PREFIX)?;
        Self::ALL.into_iter().find_map(|name| {
            match likeness(rest, name.as_str().strip_prefix(PREFIX).unwrap_or_default()) {
                Likeness::Exact => Some((name, exact)),
                Likeness::Variant => Some((name, false)),
                Likeness::Different => None,
            }
        })
    }
}
