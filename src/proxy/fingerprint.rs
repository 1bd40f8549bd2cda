//! What callers and bodies are compared by.

use aws_lc_rs::digest as hash;
use http::HeaderName;
use http::header::AUTHORIZATION;

use crate::outcome::Digest;

/// Whose jobs a client may see is decided by these; a search asks on behalf of whoever sent them, and shares its result with
/// nobody else.
pub(super) const IDENTIFYING: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-ojs-tenant"), HeaderName::from_static("x-ojs-tenant-id")];

/// A fingerprint of bytes.
pub(super) fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = hash::Context::new(&hash::SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = Digest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
