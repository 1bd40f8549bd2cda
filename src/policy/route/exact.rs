//! A double that keeps each of its bits on its way through JSON.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A double. Its shortest decimal form is written, and read by the parser of the standard library: that of `serde_json` may be off by one bit, and
/// two regions would change places. A value that is not finite is written as 0, which routing takes it for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exact(pub f64);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(if self.0.is_finite() { self.0 } else { 0.0 })
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let number = raw.get().parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(Self).ok_or_else(|| serde::de::Error::custom("expected a number"))
    }
}
