//! The callers of the admin listener: scrapers, probes and people at a terminal, and no web page.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, Method, Response, StatusCode};

use super::response::error;
use crate::config::Listen;
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
        if !host.is_none_or(|host| is_safe_host(host, &listen.allowed_hosts)) {
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

/// Whether no stranger can make this name lead here: DNS rebinding needs a public name, which has a dot. Probes and scrapers call by
/// address, or by the name of a service.
fn is_safe_host(host: &[u8], allowed: &[String]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if rest.is_empty() || rest.starts_with(':') => address,
        Some(_) => return false,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_local = || name.to_ascii_lowercase().ends_with(".localhost");
    name.parse::<IpAddr>().is_ok()
        || !name.contains(['.', ':'])
        || is_local()
        || allowed.iter().any(|it| it.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_without_a_dot_are_answered_and_public_names_are_not() {
        let allowed = vec!["ojs.internal".to_owned()];
        for host in
            ["127.0.0.1:9464", "10.1.2.3:9464", "[fe80::1]:9464", "[::1]", "localhost:9464", "sidecar:9464", "x"]
        {
            assert!(is_safe_host(host.as_bytes(), &allowed), "{host}");
        }
        for host in ["OJS.internal:9464", "a.localhost", "localhost."] {
            assert!(is_safe_host(host.as_bytes(), &allowed), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.nip.io:9464",
            "[::1]x",
            "[evil.example]",
            "ojs.internal.evil.example",
            "\u{e9}.",
        ] {
            assert_eq!(is_safe_host(host.as_bytes(), &allowed), host.starts_with('\u{e9}'), "{host}");
        }
    }
}
