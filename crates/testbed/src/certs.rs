//! Throw-away certificates: a certificate authority that exists in memory as long as the process.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

use ojs_handles::Clock;

const DAY_MS: i64 = 86_400_000;

/// The days for which a certificate is valid: enough for a forgotten demo, too few for production.
const LIFETIME_DAYS: i64 = 30;

/// One certificate authority.
pub struct Authority {
    name: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM texts.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, without its authority's.
    pub cert_pem: String,
    /// The private key (PKCS #8).
    pub key_pem: String,
}

/// Where an [`Identity`] was written.
#[derive(Debug, Clone)]
pub struct IdentityFiles {
    /// The certificate.
    pub cert: PathBuf,
    /// The private key, readable by its owner only.
    pub key: PathBuf,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a new authority with a key of its own.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a fresh key signs a certificate of fixed shape")]
    pub fn new(name: &str) -> Self {
        let mut params = params(name, &[], -1, LIFETIME_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, fresh_key()).expect("a fresh key signs its own certificate");
        Self { name: name.to_owned(), issuer }
    }

    /// The authority's certificate, which the other side has to trust.
    #[must_use]
    pub fn ca_pem(&self) -> String {
        self.issuer.pem()
    }

    /// An identity for a server that is reached by any of `names`: DNS names, IP addresses, `spiffe://` URIs.
    ///
    /// A name that is not ASCII is a mistake in the caller's constant, and panics.
    #[must_use]
    pub fn server(&self, names: &[&str]) -> Identity {
        let common = names.first().copied().unwrap_or("server");
        self.issue(params(common, names, -1, LIFETIME_DAYS), ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// An identity for a server whose validity ended yesterday.
    #[must_use]
    pub fn expired_server(&self, names: &[&str]) -> Identity {
        let common = names.first().copied().unwrap_or("server");
        self.issue(params(common, names, -LIFETIME_DAYS, -1), ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// An identity for a server that is valid for so long from now, in whole seconds.
    #[must_use]
    pub fn brief_server(&self, names: &[&str], valid: Duration) -> Identity {
        let common = names.first().copied().unwrap_or("server");
        self.issue(brief(params(common, names, -1, 0), valid), ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// An identity for a client that is valid for so long from now, in whole seconds.
    #[must_use]
    pub fn brief_client(&self, name: &str, valid: Duration) -> Identity {
        self.issue(brief(params(name, &[], -1, 0), valid), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// An identity for a client; a `spiffe://` name becomes its URI, any other its common name.
    #[must_use]
    pub fn client(&self, name: &str) -> Identity {
        let names: &[&str] = if is_uri(name) { &[name] } else { &[] };
        self.issue(params(name, names, -1, LIFETIME_DAYS), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Writes the authority's certificate to `dir/<stem>.ca.pem` and says where.
    ///
    /// Errors: the file system's.
    pub fn write_ca(&self, dir: &Path, stem: &str) -> io::Result<PathBuf> {
        let path = dir.join(format!("{stem}.ca.pem"));
        fs::write(&path, self.ca_pem())?;
        Ok(path)
    }

    #[expect(clippy::expect_used, reason = "a fresh key and a checked set of names")]
    fn issue(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Identity {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = fresh_key();
        let cert = params.signed_by(&key, &self.issuer).expect("an authority signs what it has made itself");
        Identity { cert_pem: cert.pem(), key_pem: key.serialize_pem() }
    }
}

impl Identity {
    /// Writes `dir/<stem>.cert.pem` and `dir/<stem>.key.pem`, the key with mode 0600, replacing existing files.
    ///
    /// Errors: the file system's.
    pub fn write_to(&self, dir: &Path, stem: &str) -> io::Result<IdentityFiles> {
        let files =
            IdentityFiles { cert: dir.join(format!("{stem}.cert.pem")), key: dir.join(format!("{stem}.key.pem")) };
        fs::write(&files.cert, &self.cert_pem)?;
        write_secret(&files.key, &self.key_pem)?;
        Ok(files)
    }
}

fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    // An old file would keep its mode, which may be a wider one.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[expect(clippy::expect_used, reason = "fails only where the machine has no randomness")]
fn fresh_key() -> KeyPair {
    KeyPair::generate().expect("the machine gives random numbers")
}

/// The common part of every certificate; the validity is given in days from today.
fn params(common_name: &str, names: &[&str], from_day: i64, to_day: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = names.iter().map(|name| alt_name(name)).collect();
    let now = i64::try_from(Clock::system().unix_ms()).unwrap_or(0);
    let midnight = |day: i64| {
        let time = jiff::Timestamp::from_millisecond(now + day * DAY_MS).unwrap_or_default();
        let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
        rcgen::date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = midnight(from_day);
    params.not_after = midnight(to_day);
    params
}

/// The same, valid for so long from now.
fn brief(mut params: CertificateParams, valid: Duration) -> CertificateParams {
    let now = i64::try_from(Clock::system().unix_ms()).unwrap_or(0);
    let of_today = Duration::from_secs(u64::try_from(now % DAY_MS / 1000).unwrap_or(0));
    params.not_after += of_today + valid;
    params
}

#[expect(clippy::expect_used, reason = "documented: names are ASCII constants of the caller")]
fn alt_name(name: &str) -> SanType {
    if let Ok(address) = name.parse() {
        return SanType::IpAddress(address);
    }
    let text = name.try_into().expect("a server's name is ASCII");
    if is_uri(name) { SanType::URI(text) } else { SanType::DnsName(text) }
}

fn is_uri(name: &str) -> bool {
    name.contains("://")
}

#[cfg(test)]
mod tests;
