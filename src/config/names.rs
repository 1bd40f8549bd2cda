//! The spellings of the closed sets, stated once for reading, for the key table and for printing.

use serde::de::{Deserialize, Deserializer, Error};

use super::types::{
    AccessLog, ClientReplicatedFrom, DuplicateIds, JsonContentType, LoadSource, LogFormat, MetricsDetail, MixedBatch,
    OnAllUnhealthy, OnUnknown, QueueControl, ReadResidency, Stamp, UnknownKeys,
};

macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every spelling in a configuration.
            pub(super) const NAMES: &'static [&'static str] = &[$($name),+];

            /// The spelling in a configuration.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match String::deserialize(deserializer)?.as_str() {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(D::Error::custom("a name outside the set")),
                }
            }
        }
    };
}

names!(Stamp { Always = "always", FederatedOnly = "federated-only", Never = "never" });
names!(LoadSource { Queue = "queue", Admin = "admin" });
names!(JsonContentType { Auto = "auto", Always = "always", Never = "never" });
names!(ClientReplicatedFrom { Pass = "pass", Reject = "reject" });
names!(UnknownKeys { Pass = "pass", Warn = "warn", Reject = "reject" });
names!(LogFormat { Text = "text", Json = "json" });
names!(AccessLog { Off = "off", Errors = "errors", All = "all" });
names!(MetricsDetail { Basic = "basic", Full = "full" });
names!(MixedBatch { Split = "split", Reject = "reject" });
names!(QueueControl { All = "all", Local = "local" });
names!(OnAllUnhealthy { Refuse = "refuse", TryLastGood = "try_last_good" });
names!(DuplicateIds { Auto = "auto", Refuse = "refuse", Same = "same", Overwrite = "overwrite" });
names!(OnUnknown { Fail = "fail", Redirect = "redirect" });
names!(ReadResidency { Allow = "allow", Redact = "redact", Deny = "deny" });
