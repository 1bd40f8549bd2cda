use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::*;

#[test]
fn a_server_carries_dns_names_addresses_and_uris() {
    let identity = Authority::new("ca").server(&["localhost", "127.0.0.1", "::1", "spiffe://demo/region"]);
    let der = CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).unwrap();
    let (_, parsed) = X509Certificate::from_der(&der).unwrap();
    let names = &parsed.subject_alternative_name().unwrap().unwrap().value.general_names;
    assert!(matches!(
        names.as_slice(),
        [
            GeneralName::DNSName("localhost"),
            GeneralName::IPAddress([127, 0, 0, 1]),
            GeneralName::IPAddress([0, .., 1]),
            GeneralName::URI("spiffe://demo/region"),
        ]
    ));
    assert!(parsed.validity().is_valid());
    assert!(parsed.validity().time_to_expiration().unwrap() < std::time::Duration::from_secs(31 * 86_400));
}

#[cfg(unix)]
#[test]
fn a_written_key_is_readable_by_its_owner_only_even_over_an_old_file() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    fs::write(dir.path().join("sidecar.key.pem"), "old").unwrap();
    let identity = authority.client("sidecar");
    let files = identity.write_to(dir.path(), "sidecar").unwrap();
    assert_eq!(fs::read_to_string(&files.key).unwrap(), identity.key_pem);
    assert_eq!(fs::read_to_string(&files.cert).unwrap(), identity.cert_pem);
    assert_eq!(fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);
    let ca = authority.write_ca(dir.path(), "eu").unwrap();
    assert_eq!(fs::read_to_string(ca).unwrap(), authority.ca_pem());
}
