//! The tracking id of a job as a header of its answer.

use bytes::Bytes;
use http::HeaderValue;

use crate::ojs::UUID7_LETTERS;

/// A client's own tracking id that is longer stays in the job and is left out of the answer's head, which clients bound.
const FEDERATION_ID_BYTES_MAX: usize = 256;

/// A client's tracking id as a header, unless it is one that a client might refuse to read: the job would count as failed there.
pub(super) fn shown(id: &str) -> Option<HeaderValue> {
    let readable = id.len() <= FEDERATION_ID_BYTES_MAX && id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    HeaderValue::try_from(id).ok().filter(|_| readable)
}

/// A minted id as a header, whose copies share its bytes.
pub(super) fn minted(id: &str) -> Option<HeaderValue> {
    let letters = *id.as_bytes().as_array::<UUID7_LETTERS>()?;
    HeaderValue::from_maybe_shared(Bytes::from_owner(letters)).ok()
}
