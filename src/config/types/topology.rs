//! The coordination of the regions of a federation.

/// The topology of a federation. Spec: federation-spec §2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Every sidecar watches every region and routes by itself.
    Mesh,
    /// The hub of one region watches the others; a spoke routes to other regions only while it hears its hub.
    HubSpoke,
    /// As a mesh, and every job is stamped, so that its copies are recognised.
    ActiveActive,
}
