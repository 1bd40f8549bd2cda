//! The documents that sidecars send about themselves, read and checked in one place.

use http::StatusCode;
use serde::de::DeserializeOwned;

use super::access::Caller;
use super::response::Refusal;
use super::state::Hub;
use crate::fleet::{ChangesRequest, GrantRequest, KeyRequest, Reports};

/// A document of a sidecar that has reported its status before.
pub(super) trait SidecarRequest: DeserializeOwned {
    /// The expected document, for the error.
    const EXPECTED: &'static str;

    /// The name of the sidecar.
    fn sidecar(&self) -> &str;

    /// The first member that is not right, and the expected form.
    fn mistake(&self) -> Option<&'static str>;
}

/// Reads the document of a sidecar.
///
/// Errors: 400 for another document, naming the member; 409 where the sidecar has not reported its status with the certificate of the caller.
pub(super) fn read<T: SidecarRequest>(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<T, Refusal> {
    let request: T = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("expected {}: {error}", T::EXPECTED)))?;
    if let Some(mistake) = request.mistake() {
        return Err(Refusal::bad_request(mistake.to_owned()));
    }
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
            const EXPECTED: &'static str = $expected;

            fn sidecar(&self) -> &str {
                &self.sidecar
            }

            fn mistake(&self) -> Option<&'static str> {
                Self::mistake(self)
            }
        }
    )+};
}

sidecar_requests! {
    Reports: "the reports of a sidecar";
    ChangesRequest: "the changes of jobs";
    GrantRequest: "a request for grants";
    KeyRequest: "a claim of a key, or its end";
}
