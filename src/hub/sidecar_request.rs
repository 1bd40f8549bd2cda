//! The documents that sidecars send about themselves, read and checked in one place.

use http::StatusCode;

use super::access::Caller;
use super::response::Refusal;
use super::state::Hub;
use crate::fleet::{BodiesRequest, ChangesRequest, FiguresReport, GrantRequest, KeyRequest, Reports};
use crate::switch::DrillReport;

/// A document of a sidecar that has reported its status before.
pub(super) trait SidecarRequest: Sized {
    /// Reads a body.
    ///
    /// Errors: the first member that is not right, and the expected form.
    fn parse(body: &[u8]) -> Result<Self, String>;

    /// The name of the sidecar.
    fn sidecar(&self) -> &str;
}

/// Reads the document of a sidecar.
///
/// Errors: 400 for another document, naming the member; 409 where the sidecar has not reported its status with the certificate of the caller.
pub(super) fn read<T: SidecarRequest>(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<T, Refusal> {
    let request = T::parse(body).map_err(Refusal::bad_request)?;
    if !hub.fleet.borrow().is_of(request.sidecar(), caller) {
        let message =
            "`sidecar`: expected the name of a sidecar whose status came with the same certificate".to_owned();
        return Err(Refusal::new(StatusCode::CONFLICT, "unknown_sidecar", message));
    }
    Ok(request)
}

macro_rules! sidecar_requests {
    ($($type:ty: $expected:literal;)+) => {$(
        impl SidecarRequest for $type {
            fn parse(body: &[u8]) -> Result<Self, String> {
                let request: Self =
                    serde_json::from_slice(body).map_err(|error| format!(concat!("expected ", $expected, ": {}"), error))?;
                request.mistake().map_or(Ok(request), |mistake| Err(mistake.to_owned()))
            }

            fn sidecar(&self) -> &str {
                &self.sidecar
            }
        }
    )+};
}

sidecar_requests! {
    Reports: "the reports of a sidecar";
    FiguresReport: "the figures of a sidecar's pools";
    DrillReport: "the counts of a sidecar in a drill";
    GrantRequest: "a request for grants";
    KeyRequest: "a claim of a key, or its end";
}

impl SidecarRequest for ChangesRequest {
    fn parse(body: &[u8]) -> Result<Self, String> {
        Self::read(body).map_err(|mistake| format!("expected the changes of jobs: {mistake}"))
    }

    fn sidecar(&self) -> &str {
        &self.sidecar
    }
}

impl SidecarRequest for BodiesRequest {
    fn parse(body: &[u8]) -> Result<Self, String> {
        Self::read(body).map_err(|mistake| format!("expected the bytes of jobs: {mistake}"))
    }

    fn sidecar(&self) -> &str {
        &self.sidecar
    }
}
