//! Fingerprints of callers and bodies, to compare them by.

use aws_lc_rs::digest as hash;
use http::HeaderName;
use http::header::AUTHORIZATION;

use crate::outcome::Digest;

/// The headers by which a region decides which jobs a caller may see. A search carries those of its caller, and only callers with the same
/// values share its result.
pub(crate) const IDENTIFYING: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-ojs-tenant"), HeaderName::from_static("x-ojs-tenant-id")];

/// A fingerprint of bytes.
pub(crate) fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = hash::Context::new(&hash::SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = Digest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
