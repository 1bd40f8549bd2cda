//! The files that a configuration names: whether they exist and hold the expected content.

use std::io::Read;
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::problem::Problem;
use super::types::{RegionConfig, RegionTls};
use crate::base::shown_path;

/// Checks a region whose files are each of the right kind: whether they fit together. Takes the region's index.
pub type FitCheck = fn(usize, &RegionConfig) -> Option<Problem>;

/// The longest of these files that is read; a large bundle of trust roots is a quarter of it.
const BYTES_MAX: u64 = 1 << 20;

/// The keys of a region that name files.
pub(super) const FILE_KEYS: [&str; 4] = ["tls.ca", "tls.cert", "tls.key", "bearer_token_file"];

/// The expected content of one file.
struct Expected {
    noun: &'static str,
    holds: fn(&[u8]) -> bool,
}

const CERTIFICATES: Expected = Expected { noun: "PEM certificates", holds: are_certificates };
const PRIVATE_KEY: Expected = Expected { noun: "a PEM private key", holds: is_private_key };
const TOKEN: Expected = Expected { noun: "a bearer token on one line", holds: is_token };

/// The files that a region names, as far as their keys could be read.
pub(super) struct RegionFiles {
    pub(super) place: usize,
    /// Where each of [`FILE_KEYS`] stands: problems that lack their rule.
    pub(super) named: [Problem; 4],
    /// The same for the region.
    pub(super) whole: Problem,
    pub(super) tls: RegionTls,
    pub(super) bearer_token_file: Option<PathBuf>,
    /// The region itself; `None` where one of its keys is wrong.
    pub(super) region: Option<RegionConfig>,
}

/// Every certificate, key and token file that is missing, unreadable or of the wrong content; then, of a region without such
/// a file and without a wrong key, whether the files fit together.
///
/// Never says the content, and the path only where it cannot be a secret that was pasted in its place.
pub(super) fn problems(regions: &[RegionFiles], misfit: FitCheck) -> Vec<Problem> {
    let of_region = |files: &RegionFiles| {
        let mut problems = region_problems(files);
        if let (true, Some(region)) = (problems.is_empty(), &files.region) {
            let found = misfit(files.place, region);
            problems.extend(found.map(|problem| Problem { rule: problem.rule, ..files.whole.clone() }));
        }
        problems
    };
    regions.iter().flat_map(of_region).collect()
}

fn region_problems(region: &RegionFiles) -> Vec<Problem> {
    let files = [
        (region.tls.ca.as_deref(), CERTIFICATES),
        (region.tls.cert.as_deref(), CERTIFICATES),
        (region.tls.key.as_deref(), PRIVATE_KEY),
        (region.bearer_token_file.as_deref(), TOKEN),
    ];
    let problem = |((path, expected), named): ((Option<&Path>, Expected), &Problem)| {
        let path = path?;
        let wrong = wrong_with(path, &expected)?;
        let shown = shown_path(path).map(|path| format!(" ({path})")).unwrap_or_default();
        Some(Problem { rule: format!("{wrong}{shown}, expected {}", expected.noun), ..named.clone() })
    };
    files.into_iter().zip(&region.named).filter_map(problem).collect()
}

fn wrong_with(path: &Path, expected: &Expected) -> Option<&'static str> {
    let content = match content(path) {
        Ok(content) => content,
        Err(error) => {
            return Some(match error.kind() {
                std::io::ErrorKind::NotFound => "file not found",
                std::io::ErrorKind::PermissionDenied => "this user may not read the file",
                std::io::ErrorKind::IsADirectory => "the path is a directory",
                std::io::ErrorKind::FileTooLarge => "the file is longer than 1 MiB",
                _ => "the file cannot be read",
            });
        }
    };
    (!(expected.holds)(&content)).then_some("the file holds something else")
}

fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let length = std::fs::File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut content)?;
    if u64::try_from(length).is_ok_and(|length| length <= BYTES_MAX) {
        return Ok(content);
    }
    Err(std::io::ErrorKind::FileTooLarge.into())
}

fn are_certificates(content: &[u8]) -> bool {
    let mut count = 0;
    CertificateDer::pem_slice_iter(content).inspect(|_| count += 1).all(|certificate| certificate.is_ok()) && count > 0
}

fn is_private_key(content: &[u8]) -> bool {
    PrivateKeyDer::from_pem_slice(content).is_ok()
}

/// One line of visible ASCII; the line's end belongs to the file and not to the token.
fn is_token(content: &[u8]) -> bool {
    let token = content.trim_ascii_end();
    !token.is_empty() && token.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests;
