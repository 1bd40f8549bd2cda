//! The bytes of jobs, as a sidecar sends them to its hub, and a hub to the hub of another region.

use super::status::is_name;
use crate::replica::{BODIES_BYTES_MAX, JobBody, read_bodies};

/// The longest request. Units: bytes.
pub const BODIES_REQUEST_BYTES_MAX: usize = BODIES_BYTES_MAX + 256 * 1024;
/// The code of a hub that keeps no bodies.
pub const NO_BODIES: &str = "no_bodies";

/// The bytes of jobs that regions have stored. Shape: the name of the sidecar in the inventory on a line of its own, then a message as
/// [`read_bodies`] has it. A repetition changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodiesRequest {
    /// The name of the sidecar in the inventory.
    pub sidecar: String,
    /// The jobs.
    pub bodies: Vec<JobBody>,
}

impl BodiesRequest {
    /// The body of a request.
    #[must_use]
    pub fn body(sidecar: &str, bodies: &[JobBody]) -> Vec<u8> {
        let mut request = [sidecar.as_bytes(), b"\n"].concat();
        bodies.iter().for_each(|body| body.write(&mut request));
        request
    }

    /// Reads the body of a request.
    ///
    /// Errors: the part that is not right, and the expected form.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let mut parts = body.splitn(2, |byte| *byte == b'\n');
        let sidecar = parts.next().and_then(|name| std::str::from_utf8(name).ok()).filter(|name| is_name(name));
        let sidecar = sidecar.ok_or("the name of the sidecar: expected 1 to 128 bytes of visible ASCII")?;
        let message = parts.next().ok_or("expected the name of the sidecar on a line of its own")?;
        Ok(Self { sidecar: sidecar.to_owned(), bodies: read_bodies(message)? })
    }
}
