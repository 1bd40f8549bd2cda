//! Recognition of a job, its key and its caller: fingerprints of the call.

use aws_lc_rs::hmac;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::base::RegionId;
use crate::journal::ID_BYTES_MAX;
use crate::ojs::header::{IDEMPOTENCY_KEY, REQUEST_ID};
use crate::ojs::{ErrorDocument, content};
use crate::outcome::{Copy, Digest, Identity, ShownTo, Trust};
use crate::proxy::state::{IDENTIFYING, Proxy, Shared, digest};

/// A longer key is refused; a UUID has 36 bytes.
const KEY_BYTES_MAX: usize = 255;

/// The names that a call is recognised by.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Names<'r> {
    /// The id that the client gave its job.
    pub(crate) own_id: Option<&'r str>,
    /// The fingerprint of its key.
    pub(crate) key: Option<Digest>,
}

/// The identity of a call's job. `body` is the client's body, in pieces.
pub(crate) fn identity(proxy: &Proxy, headers: &HeaderMap, names: Names<'_>, body: &[&[u8]]) -> Identity {
    // A minted id is unique; under a client's own id there may be another job.
    let content = names.own_id.and_then(|_| content(&body.concat()));
    let secret = hmac::Key::new(hmac::HMAC_SHA256, &proxy.shared.journal.secret());
    let mut caller = Digest::default();
    caller.copy_from_slice(hmac::sign(&secret, &identifying(headers, &IDENTIFYING)).as_ref());
    let [authorization, tenants @ ..] = &IDENTIFYING;
    let shown_to = match () {
        () if tenants.iter().any(|name| headers.contains_key(name)) => ShownTo::Tenant,
        () if headers.contains_key(authorization) => ShownTo::Credentials,
        () => ShownTo::Everybody,
    };
    let request_id = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    Identity {
        tenant: tenant_of(headers),
        caller,
        shown_to,
        body: digest(body),
        content: content.map(|content| digest(&[&content])),
        key: names.key,
        own_id: names.own_id.filter(|id| id.len() <= ID_BYTES_MAX).map(str::to_owned),
        request_id: request_id.map_or_else(String::new, str::to_owned),
    }
}

/// Whether a region's "no such job" is believed when this caller asks.
pub(crate) fn trust(proxy: &Proxy, identity: &Identity, copy: &Copy, caller: &Digest) -> Trust {
    believed(&proxy.shared, identity, &copy.place.region, Some(caller))
}

fn believed(shared: &Shared, identity: &Identity, region: &RegionId, caller: Option<&Digest>) -> Trust {
    let registry = &shared.registry;
    let index = registry.view().index_of(region.as_str());
    let drops = index.is_some_and(|index| registry.region(index).drops_authorization());
    let is_shown = match identity.shown_to {
        ShownTo::Everybody => true,
        ShownTo::Credentials => drops || caller == Some(&identity.caller),
        ShownTo::Tenant => caller == Some(&identity.caller),
    };
    if is_shown { Trust::Believed } else { Trust::Doubted }
}

/// Whether a region's "no such job" is believed when the sidecar itself asks.
pub(crate) fn trust_of_ourselves(shared: &Shared, identity: &Identity, region: &RegionId) -> Trust {
    believed(shared, identity, region, None)
}

/// The fingerprint of an `Idempotency-Key`.
///
/// Errors: 400 for several keys, and for one that is empty or too long.
pub(crate) fn key_of(proxy: &Proxy, headers: &HeaderMap) -> Result<Option<Digest>, ErrorDocument> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next().filter(|_| proxy.shared.config.idempotency.enabled) else { return Ok(None) };
    if keys.next().is_some() || !(1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Err(ErrorDocument::idempotency_key_invalid());
    }
    Ok(Some(of_tenant(headers, key.as_bytes())))
}

/// The fingerprint of a caller's tenant.
pub(crate) fn tenant_of(headers: &HeaderMap) -> Digest {
    of_tenant(headers, b"")
}

/// The fingerprint of a name within its tenant. Credentials may change while a call is repeated, and the region judges
/// them. Earlier versions wrote the same form into their journals.
pub(crate) fn of_tenant(headers: &HeaderMap, name: &[u8]) -> Digest {
    let [_, tenants @ ..] = &IDENTIFYING;
    let values = |name: &HeaderName| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    let tenants: Vec<Vec<&[u8]>> = tenants.iter().map(values).collect();
    digest(&[name, b"\n", format!("{tenants:?}").as_bytes()])
}

/// The values of these headers, each with its length, so that no two lists look alike.
fn identifying(headers: &HeaderMap, names: &[HeaderName]) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names {
        for value in headers.get_all(name) {
            all.extend_from_slice(&(value.len() as u64).to_be_bytes());
            all.extend_from_slice(value.as_bytes());
        }
        all.push(b'\n');
    }
    all
}
