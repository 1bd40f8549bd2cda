//! The text of a failed handshake for an operator: the side whose certificate failed, the name, and the key of the
//! configuration to look at.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// The words for a server, and for the settings that its TLS depends on.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The server, such as `the region`.
    pub server: &'static str,
    /// The authorities that have not signed its certificate, and the way out.
    pub no_authority: &'static str,
    /// The settings of the name that its certificate must have.
    pub name: &'static str,
    /// The setting of our certificate.
    pub cert: &'static str,
    /// The settings of our certificate and its key.
    pub credentials: &'static str,
    /// The setting of its port.
    pub url: &'static str,
}

/// The words for a region, by the keys of its section.
const REGION: Words = Words {
    server: "the region",
    no_authority: "no authority of tls.ca",
    name: "the host of url, tls.server_name and tls.uri_san",
    cert: "tls.cert",
    credentials: "tls.cert and tls.key",
    url: "url",
};

/// The cause in words, where the server is a region. Where rustls names the cause, its words follow ours.
#[must_use]
pub fn explain(error: &io::Error) -> String {
    explain_for(&REGION, error)
}

/// The same for another server.
#[must_use]
pub fn explain_for(words: &Words, error: &io::Error) -> String {
    let Some(cause) = find(error) else { return format!("the TLS handshake failed: {error}") };
    match what_to_look_at(words, cause) {
        Some(words) => format!("{words} ({cause})"),
        None => format!("the TLS handshake failed: {cause}"),
    }
}

/// The error of rustls among the causes.
fn find(error: &io::Error) -> Option<&Error> {
    let mut cause: &(dyn StdError + 'static) = error.get_ref()?;
    loop {
        if let Some(found) = cause.downcast_ref::<Error>() {
            return Some(found);
        }
        // An I/O error within one hides its own cause from `source`.
        cause = match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => inner,
            None => cause.source()?,
        };
    }
}

fn what_to_look_at(words: &Words, error: &Error) -> Option<String> {
    use AlertDescription as Alert;
    use CertificateError as Certificate;
    let Words { server, no_authority, name, cert, credentials, url } = words;
    Some(match error {
        Error::InvalidCertificate(Certificate::UnknownIssuer) => {
            format!("{server}'s server certificate is signed by {no_authority}")
        }
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            format!("{server}'s server certificate has expired")
        }
        Error::InvalidCertificate(Certificate::NotValidYet | Certificate::NotValidYetContext { .. }) => {
            format!("{server}'s server certificate is not valid yet; compare the clocks")
        }
        Error::InvalidCertificate(Certificate::NotValidForName | Certificate::NotValidForNameContext { .. }) => {
            format!("{server}'s server certificate is for another name: see {name}")
        }
        Error::InvalidCertificate(_) => format!("{server}'s server certificate is not accepted"),
        Error::AlertReceived(Alert::CertificateRequired) => {
            format!("{server} wants a client certificate: set {credentials}")
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            format!("{server} holds our client certificate ({cert}) to be expired")
        }
        Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::CertificateRevoked
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => format!("{server} refuses our client certificate ({cert})"),
        Error::InvalidMessage(_) => {
            format!("what answers does not speak TLS: is the port of {url} one for plain HTTP?")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_found_however_deep_and_says_whose_certificate_it_is() {
        let cause = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        for error in [io::Error::other(cause()), io::Error::other(io::Error::other(cause()))] {
            assert!(explain(&error).starts_with("the region's server certificate is signed by no authority of tls.ca"));
        }
        let refused = io::Error::other(Error::AlertReceived(AlertDescription::UnknownCA));
        assert!(explain(&refused).contains("(tls.cert)"), "{}", explain(&refused));
        assert_eq!(explain(&io::Error::other("odd")), "the TLS handshake failed: odd");
    }
}
