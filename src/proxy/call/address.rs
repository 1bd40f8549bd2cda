//! Calls that name their region: `OJS-Federation-Region: R`, or `?region=R`, for reads and administration.
//!
//! The header lets an operator look at one region, or change something there alone. The job itself decides where it
//! goes, and an acknowledgement goes to the job's owner: a call of these kinds that names a region is refused, because
//! the name would have no effect.

use crate::net::IncomingBody;
use http::uri::PathAndQuery;
use http::{Request, Uri};

use super::exchange::Exchange;
use super::header_flags::HeaderFlags;
use crate::config::ReadResidency;
use crate::ojs::header::FEDERATION_REGION;
use crate::ojs::{ErrorDocument, IdAt, Matched, Operation, Scope};
use crate::proxy::state::Proxy;

const PARAMETER: &str = "region";

/// Takes the region that a call names out of its header and query, and notes it in the exchange.
///
/// Errors: 400 for a region that is not registered, for two that differ, and on calls that take no region.
pub(crate) fn address(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: &mut Request<IncomingBody>,
) -> Result<(), ErrorDocument> {
    let mut names: Vec<String> = Vec::new();
    if exchange.header_flags.has(HeaderFlags::REGION) {
        let values = request.headers().get_all(FEDERATION_REGION);
        names.extend(values.iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()));
        request.headers_mut().remove(FEDERATION_REGION);
    }
    // A path that the table does not know may have such a parameter of its own.
    if exchange.matched.operation != Operation::Unknown {
        names.extend(take_parameter(request.uri_mut()));
    }
    let Some(name) = names.first() else { return Ok(()) };
    if !takes_region(&exchange.matched) {
        return Err(ErrorDocument::not_addressable());
    }
    if names.iter().any(|other| other != name) {
        return Err(ErrorDocument::address_unclear());
    }
    let view = proxy.shared.registry.view();
    exchange.addressed = view.index_of(name);
    if exchange.addressed.is_some() {
        return Ok(());
    }
    Err(ErrorDocument::unknown_address(name, view.regions.iter().map(|region| region.id.as_str())))
}

/// Refuses a call to another region than the local one whose answer cannot be judged by residency: a stream, a tunnel,
/// an unknown operation.
///
/// Errors: 403 `residency`.
pub(crate) fn admit_unjudged(proxy: &Proxy, exchange: &Exchange) -> Result<(), ErrorDocument> {
    let local = proxy.shared.registry.view().local;
    let elsewhere = exchange.addressed.is_some_and(|index| index != local);
    if elsewhere && proxy.shared.config.residency.read != ReadResidency::Allow {
        return Err(ErrorDocument::residency());
    }
    Ok(())
}

/// Whether a call is a read or administration.
fn takes_region(matched: &Matched) -> bool {
    let routed = match matched.scope {
        Scope::Enqueue | Scope::Batch | Scope::Bulk | Scope::Define | Scope::Fetch | Scope::Heartbeat => true,
        Scope::Owner(IdAt::Body) => true,
        Scope::Owner(IdAt::Path) => matched.operation == Operation::JobSettle,
        _ => false,
    };
    !routed && !matched.creates_jobs
}

/// Removes the parameter from the query and returns its values; everything else stays byte for byte.
fn take_parameter(uri: &mut Uri) -> Vec<String> {
    let Some(query) = uri.query().filter(|query| query.contains(PARAMETER)) else { return Vec::new() };
    let value = |pair: &str| pair.strip_prefix(PARAMETER)?.strip_prefix('=').map(str::to_owned);
    let values: Vec<String> = query.split('&').filter_map(value).collect();
    if values.is_empty() {
        return values;
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| value(pair).is_none()).collect();
    let path = uri.path();
    let target = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(target).ok();
    if let Ok(stripped) = Uri::from_parts(parts) {
        *uri = stripped;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_taken_out_of_the_query_and_the_rest_stays_as_it_is() {
        for (target, values, rest) in [
            ("/a?region=eu", &["eu"][..], "/a"),
            ("/a?x=%20&region=eu&y=1", &["eu"], "/a?x=%20&y=1"),
            ("/a?region=eu&region=us", &["eu", "us"], "/a"),
            ("/a?regions=eu&xregion=us", &[], "/a?regions=eu&xregion=us"),
            ("/a", &[], "/a"),
            ("/a?region", &[], "/a?region"),
        ] {
            let mut uri: Uri = target.parse().unwrap();
            assert_eq!(take_parameter(&mut uri), values, "{target}");
            assert_eq!(uri.to_string(), rest);
        }
    }
}
