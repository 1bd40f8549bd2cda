//! The text of a failed handshake for an operator: the side whose certificate failed, the name, and the key of the
//! configuration to look at.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// The cause in words. Where rustls names the cause, its words follow ours.
#[must_use]
pub fn explain(error: &io::Error) -> String {
    let Some(cause) = find(error) else { return format!("the TLS handshake failed: {error}") };
    match what_to_look_at(cause) {
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

fn what_to_look_at(error: &Error) -> Option<&'static str> {
    use AlertDescription as Alert;
    use CertificateError as Certificate;
    Some(match error {
        Error::InvalidCertificate(Certificate::UnknownIssuer) => {
            "the region's server certificate is signed by no authority of tls.ca"
        }
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "the region's server certificate has expired"
        }
        Error::InvalidCertificate(Certificate::NotValidYet | Certificate::NotValidYetContext { .. }) => {
            "the region's server certificate is not valid yet; compare the clocks"
        }
        Error::InvalidCertificate(Certificate::NotValidForName | Certificate::NotValidForNameContext { .. }) => {
            "the region's server certificate is for another name: see the host of url, tls.server_name and tls.uri_san"
        }
        Error::InvalidCertificate(_) => "the region's server certificate is not accepted",
        Error::AlertReceived(Alert::CertificateRequired) => {
            "the region wants a client certificate: set tls.cert and tls.key"
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            "the region holds our client certificate (tls.cert) to be expired"
        }
        Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::CertificateRevoked
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => "the region refuses our client certificate (tls.cert)",
        Error::InvalidMessage(_) => "what answers does not speak TLS: is the port of url one for plain HTTP?",
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
