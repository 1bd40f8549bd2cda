//! Requests of web pages: those of foreign origins go no further, and the preflights of allowed ones are answered here.

use http::{Request, Response, StatusCode};

use super::exchange::Exchange;
use super::header_flags::HeaderFlags;
use crate::net::IncomingBody;
use crate::net::origin::{Page, is_preflight, permit};
use crate::ojs::ErrorDocument;
use crate::proxy::state::{Proxy, Reply};

/// Whether a request with headers of a browser may be looked at any further.
///
/// Errors: 403 for a page of a foreign origin, and for a preflight of no origin.
pub(crate) fn admit(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: &Request<IncomingBody>,
) -> Result<(), ErrorDocument> {
    match Page::of(request.headers(), &proxy.shared.config.listen.allowed_origins) {
        Page::Allowed(place) => exchange.page = Some(place),
        Page::Own => {}
        Page::None if !is_preflight(request.method(), request.headers()) => {}
        Page::None | Page::Foreign => return Err(ErrorDocument::cross_origin()),
    }
    Ok(())
}

impl Exchange {
    /// The answer to an admitted preflight, which goes to no region; none for any other request.
    #[must_use]
    pub fn preflight(&self, request: &Request<IncomingBody>) -> Option<Response<Reply>> {
        if !self.header_flags.has(HeaderFlags::BROWSER) || !is_preflight(request.method(), request.headers()) {
            return None;
        }
        let mut response = Response::new(Reply::Empty);
        *response.status_mut() = StatusCode::NO_CONTENT;
        permit(request.headers(), response.headers_mut());
        Some(response)
    }
}
