//! A signed token, and the claims that it must have to be taken.
//!
//! Spec: RFC 7515, RFC 7519, RFC 8725.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::keys::Keys;
use super::settings::TokenSettings;

/// A longer token cannot be one: half of the longest head of a request. Units: bytes.
pub(super) const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The longest `sub`: it is the author of switches, whose names are no longer. Units: bytes.
const SUBJECT_BYTES_MAX: usize = 128;
/// How far the clocks of issuer and hub may differ. Units: seconds.
const LEEWAY: f64 = 30.0;

/// Why a token is not taken. Says nothing that its holder does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::hub) enum Refused {
    #[error("it is longer than {TOKEN_BYTES_MAX} bytes")]
    Length,
    #[error("expected a signed JWT: three parts in base64url with dots between them")]
    Shape,
    #[error("expected a header of JSON with a text `alg`")]
    Header,
    #[error("`crit`: this hub knows no extensions")]
    Critical,
    #[error("`kid`: no key of the hub has this id, or the key was withdrawn; get a new token")]
    UnknownKey,
    #[error("`kid`: expected the id of the key, because the hub has several")]
    NoKeyId,
    #[error("`alg`: expected {0}, which is the algorithm of the key")]
    Algorithm(&'static str),
    #[error("the signature is not that of the key")]
    Signature,
    #[error("expected claims of JSON")]
    Claims,
    #[error("`exp`: expected the end of the token, in seconds since 1970")]
    NoEnd,
    #[error("`exp`: it has expired; get a new token")]
    Expired,
    #[error("`nbf`: expected the begin of the token, in seconds since 1970")]
    Begin,
    #[error("`nbf`: it is not valid yet")]
    Early,
    #[error("`iss`: it is not of the issuer that this hub trusts")]
    Issuer,
    #[error("`aud`: it is not for this hub")]
    Audience,
    #[error("`sub`: expected the name of the operator, 1 to {SUBJECT_BYTES_MAX} bytes of visible ASCII")]
    Subject,
}

/// The part of a token that names its key. Other members, among them keys and addresses of keys, must not decide anything.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// The claims of a token that is valid now, and its subject.
pub(super) struct Valid {
    pub(super) subject: String,
    pub(super) claims: Map<String, Value>,
}

/// Verifies a token. `unix_s`: the present time in seconds since the Unix epoch.
///
/// Errors: [`Refused`]. The signature is looked at before any claim.
pub(super) fn verified(keys: &Keys, expected: &TokenSettings, token: &str, unix_s: f64) -> Result<Valid, Refused> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Refused::Length);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Refused::Shape)?;
    let (header, claims) = message.split_once('.').ok_or(Refused::Shape)?;
    let [header, claims, signature] = [bytes(header)?, bytes(claims)?, bytes(signature)?];
    let header: Header = serde_json::from_slice(&header).map_err(|_| Refused::Header)?;
    if header.crit.is_some() {
        return Err(Refused::Critical);
    }
    let missing = if header.kid.is_some() { Refused::UnknownKey } else { Refused::NoKeyId };
    let key = keys.key(header.kid.as_deref()).ok_or(missing)?;
    if header.alg != key.algorithm.as_str() {
        return Err(Refused::Algorithm(key.algorithm.as_str()));
    }
    if !key.verifies(message.as_bytes(), &signature) {
        return Err(Refused::Signature);
    }
    let claims: Map<String, Value> = serde_json::from_slice(&claims).map_err(|_| Refused::Claims)?;
    valid(claims, expected, unix_s)
}

fn bytes(part: &str) -> Result<Vec<u8>, Refused> {
    BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| Refused::Shape)
}

fn valid(claims: Map<String, Value>, expected: &TokenSettings, unix_s: f64) -> Result<Valid, Refused> {
    let end = claims.get("exp").and_then(Value::as_f64).ok_or(Refused::NoEnd)?;
    if unix_s >= end + LEEWAY {
        return Err(Refused::Expired);
    }
    if let Some(begin) = claims.get("nbf") {
        let begin = begin.as_f64().ok_or(Refused::Begin)?;
        if unix_s < begin - LEEWAY {
            return Err(Refused::Early);
        }
    }
    if claims.get("iss").and_then(Value::as_str) != Some(&expected.issuer) {
        return Err(Refused::Issuer);
    }
    let is_for_hub = match claims.get("aud") {
        Some(Value::String(one)) => *one == expected.audience,
        Some(Value::Array(all)) => all.iter().any(|it| it.as_str() == Some(&expected.audience)),
        _ => false,
    };
    if !is_for_hub {
        return Err(Refused::Audience);
    }
    let subject = claims.get("sub").and_then(Value::as_str).filter(|it| is_subject(it)).ok_or(Refused::Subject)?;
    Ok(Valid { subject: subject.to_owned(), claims })
}

/// It is shown in terminals and logs, and stands in the audit trail.
fn is_subject(text: &str) -> bool {
    (1..=SUBJECT_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
