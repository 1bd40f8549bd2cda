//! The name of a region.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest region id that is accepted. Spec: federation schema v1, `maxLength`.
const BYTES_MAX: usize = 64;

/// A region's identifier: lower-case letters, digits and dashes, 1 to 64 bytes, compared exactly.
///
/// Spec: federation-spec §4.1.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RegionId(Arc<str>);

/// Why a text is no region id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a region id is 1 to 64 lower-case letters, digits and dashes")]
pub struct RegionIdError;

impl RegionId {
    /// Reads a region id.
    ///
    /// Errors: [`RegionIdError`] when the text is empty, too long or has other characters.
    pub fn parse(text: &str) -> Result<Self, RegionIdError> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if text.is_empty() || text.len() > BYTES_MAX || !text.bytes().all(allowed) {
            return Err(RegionIdError);
        }
        Ok(Self(Arc::from(text)))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RegionId {
    type Error = RegionIdError;

    fn try_from(text: String) -> Result<Self, RegionIdError> {
        Self::parse(&text)
    }
}

impl From<RegionId> for String {
    fn from(id: RegionId) -> Self {
        id.as_str().to_owned()
    }
}

impl std::borrow::Borrow<str> for RegionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for RegionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_lower_case_letters_digits_and_dashes() {
        for good in ["us-east-1", "eu", "1a", &"x".repeat(64)] {
            assert_eq!(RegionId::parse(good).map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "EU-west-1", "eu_west", "eu west", "eü", &"x".repeat(65)] {
            assert_eq!(RegionId::parse(bad), Err(RegionIdError), "{bad:?}");
        }
    }
}
