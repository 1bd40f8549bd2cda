//! The credentials of a request: the certificate of its connection, or a bearer token of an operator.

use std::rc::Rc;

use http::{HeaderMap, StatusCode, header};
use rustls_pki_types::CertificateDer;

use super::access::{Caller, Role};
use super::identity::names;
use super::response::Refusal;
use super::state::Hub;

/// The proof of a client's identity that its connection has.
#[derive(Debug)]
pub(super) enum Certificate {
    /// It has none, which only a hub with `tokens` lets pass.
    Absent,
    /// No rule of `access` fits it.
    Unknown,
    /// That of this caller.
    Of(Rc<Caller>),
}

impl Certificate {
    /// The proof of this certificate by the rules of the hub.
    pub(super) fn new(hub: &Hub, leaf: Option<&CertificateDer<'_>>) -> Self {
        let Some(leaf) = leaf else { return Self::Absent };
        hub.access.caller(&names(leaf)).map_or(Self::Unknown, |caller| Self::Of(Rc::new(caller)))
    }
}

/// The caller of a request: that of its token where it has one, else that of its certificate. The two are never added up, so that a row of the
/// audit trail has one proven name.
///
/// Errors: 401 without valid credentials, 403 for an unknown certificate, 400 for credentials that do not go together.
pub(super) fn caller(hub: &Hub, certificate: &Certificate, headers: &HeaderMap) -> Result<Rc<Caller>, Refusal> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(credentials) = given.next() else {
        return match certificate {
            Certificate::Of(caller) => Ok(Rc::clone(caller)),
            Certificate::Unknown => {
                let message = "no rule of `access` fits a name of the client certificate".to_owned();
                Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", message))
            }
            Certificate::Absent => Err(Refusal::unauthorized(
                "expected a client certificate, or a token in `Authorization: Bearer TOKEN`".to_owned(),
            )),
        };
    };
    if let Certificate::Of(caller) = certificate
        && caller.role != Role::Operator
    {
        let message =
            format!("`authorization`: `{}` is no operator by its certificate; send no token with it", caller.name);
        return Err(Refusal::bad_request(message));
    }
    let Some(tokens) = &hub.tokens else {
        let message =
            "`authorization`: this hub takes no tokens, see `tokens` in its configuration; leave the header out";
        return Err(Refusal::bad_request(message.to_owned()));
    };
    let refused = |why: &str| Refusal::unauthorized(format!("the token is refused: {why}"));
    let token = credentials.to_str().ok().and_then(bearer).filter(|_| given.next().is_none());
    let token = token.ok_or_else(|| refused("expected one header `Authorization: Bearer TOKEN`"))?;
    tokens.caller(token, hub.clock.unix_ms()).map(Rc::new).map_err(|error| {
        tracing::debug!(%error, "a token was refused");
        refused(&error.to_string())
    })
}

/// The token of a header; its scheme is read in any case.
fn bearer(credentials: &str) -> Option<&str> {
    let (scheme, token) = credentials.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}
