//! The callers of the admin listener: scrapers, probes and people at a terminal, and no web page.

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, Method, Response, StatusCode};

use super::response::error;
use crate::config::Listen;
use crate::net::host;
use crate::net::origin::{self, Page, is_preflight};

/// A permitted caller.
pub(super) enum Caller {
    /// No page of another origin.
    Local,
    /// A page of this allowed origin.
    Page(String),
}

impl Caller {
    /// Errors: 421 for a `Host` by which only a web page would call us; 403 for a page of a foreign origin.
    pub(super) fn of(method: &Method, headers: &HeaderMap, listen: &Listen) -> Result<Self, Box<Response<Bytes>>> {
        let host = headers.get(HOST).map(|host| host.as_bytes());
        if !host.is_none_or(|host| host::is_safe(host, &listen.allowed_hosts)) {
            let message = "the `Host` header is neither an address, nor a name without a dot, nor one of `listen.allowed_hosts`; call \
                           the listener by its address, or add the name";
            return Err(Box::new(error(StatusCode::MISDIRECTED_REQUEST, "invalid_request", message)));
        }
        match Page::of(headers, &listen.allowed_origins) {
            Page::Allowed(place) => Ok(listen.allowed_origins.get(place).cloned().map_or(Self::Local, Self::Page)),
            Page::Own => Ok(Self::Local),
            Page::None if !is_preflight(method, headers) => Ok(Self::Local),
            Page::None | Page::Foreign => {
                let message = "a web page of another origin sent this request (`Origin`, `Sec-Fetch-Site`); serve it from one of \
                               `listen.allowed_origins`";
                Err(Box::new(error(StatusCode::FORBIDDEN, "cross_origin", message)))
            }
        }
    }

    /// The answer to its preflight, where this is one.
    pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response<Bytes>> {
        is_preflight(method, headers).then(|| {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::NO_CONTENT;
            origin::permit(headers, response.headers_mut());
            response
        })
    }

    /// Lets it read the answer.
    pub(super) fn shown(&self, mut response: Response<Bytes>) -> Response<Bytes> {
        if let Self::Page(origin) = self {
            origin::show(origin, response.headers_mut());
        }
        response
    }
}
