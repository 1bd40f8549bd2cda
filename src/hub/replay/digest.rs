//! The digest of a job's arguments, and its comparison with the one that is expected.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use super::super::ledger;
use super::super::record::RecordError;
use super::super::state::Hub;
use super::owner::Owner;

/// Before the digits.
const PREFIX: &str = "sha256:";

/// The digest of arguments, by their bytes as the region shows them: `sha256:HEX`.
pub(super) fn digest_of(args: &str) -> String {
    format!("{PREFIX}{}", HEXLOWER.encode(digest(&SHA256, args.as_bytes()).as_ref()))
}

/// Whether a text has the form of a digest.
pub(super) fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
}

/// Two digests that should be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Differs {
    pub(super) expected: String,
    pub(super) found: String,
}

/// The digest that the ledger expects of a job whose arguments have the digest `found`; none where the ledger has none, and where one of its digests
/// is that. Not asked for where the order has one of its own, or leaves the ledger out: that is the operator's word about the present bytes.
///
/// Errors: [`RecordError`].
pub(super) async fn expected_by_ledger(
    hub: &Hub,
    job_id: &str,
    owner: &Owner,
    found: &str,
) -> Result<Option<String>, RecordError> {
    let known = ledger::payload_digests(hub, job_id, owner.region.as_str()).await?;
    Ok(if known.iter().any(|it| it == found) { None } else { known.into_iter().next() })
}

/// Compares the digest of the present arguments with an expected one, where there is one: of the request, of an earlier try, or of any other
/// record of the job. The only place where a replay is refused for its arguments.
pub(super) fn differs(found: &str, expected: Option<&str>) -> Option<Differs> {
    let expected = expected.filter(|expected| *expected != found)?;
    Some(Differs { expected: expected.to_owned(), found: found.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_bytes_and_differs_from_another_one_only() {
        let empty = "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
        assert_eq!(digest_of("[]"), empty);
        let spaced = digest_of("[ ]");
        assert!(spaced != empty && is_digest(&spaced));
        assert_eq!((differs(empty, None), differs(empty, Some(empty))), (None, None));
        assert_eq!(differs(empty, Some(&spaced)).unwrap(), Differs { expected: spaced, found: empty.to_owned() });
        for text in ["", "sha256:", &empty[7..], &empty.to_uppercase(), "sha256:4f"] {
            assert!(!is_digest(text), "{text}");
        }
    }
}
