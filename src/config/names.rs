//! The spellings of the closed sets, stated once for reading, for the key table and for printing.

use figment::value::Value;

use super::section::Setting;
use super::types::{
    AccessLog, ClientReplicatedFrom, Decide, DuplicateIds, FetchWith, HealthSource, JsonContentType, KeyScope, Ledger,
    LimitWithoutHub, ListReplicas, LoadSource, LogFormat, MetricsDetail, MixedBatch, OnAllUnhealthy, OnHubLoss,
    OnUnknown, QueueControl, ReadResidency, RepeatedIds, Stamp, TenantMode, Topology, UnknownKeys,
};
use super::yaml::quoted;

macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every spelling in a configuration.
            pub(super) const NAMES: &'static [&'static str] = &[$($name),+];

            /// The value of a spelling; `None` for one outside of the set.
            pub(super) fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The spelling in a configuration.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl Setting for $type {
            fn read(value: Option<&Value>) -> Option<Self> {
                Self::parse(value?.as_str()?)
            }

            fn write(&self) -> Option<String> {
                Some(quoted(self.as_str()))
            }
        }
    };
}

names!(Stamp { Always = "always", FederatedOnly = "federated-only", Never = "never" });
names!(Topology { Mesh = "mesh", HubSpoke = "hub-spoke", ActiveActive = "active-active" });
names!(LoadSource { Queue = "queue", Admin = "admin" });
names!(JsonContentType { Auto = "auto", Always = "always", Never = "never" });
names!(ClientReplicatedFrom { Pass = "pass", Reject = "reject" });
names!(UnknownKeys { Pass = "pass", Warn = "warn", Reject = "reject" });
names!(LogFormat { Text = "text", Json = "json" });
names!(AccessLog { Off = "off", Errors = "errors", All = "all" });
names!(MetricsDetail { Basic = "basic", Full = "full" });
names!(HealthSource { Own = "own", Hub = "hub" });
names!(TenantMode { Fill = "fill", Drain = "drain" });
names!(Decide { View = "view", Ask = "ask" });
names!(FetchWith { Always = "always", Heard = "heard" });
names!(Ledger { Off = "off", Metadata = "metadata" });
names!(RepeatedIds { Pass = "pass", Refuse = "refuse" });
names!(KeyScope { Sidecar = "sidecar", Hub = "hub" });
names!(OnHubLoss { Local = "local", Refuse = "refuse" });
names!(MixedBatch { Split = "split", Reject = "reject" });
names!(QueueControl { All = "all", Local = "local" });
names!(OnAllUnhealthy { Refuse = "refuse", TryLastGood = "try_last_good" });
names!(DuplicateIds { Auto = "auto", Refuse = "refuse", Same = "same", Overwrite = "overwrite" });
names!(LimitWithoutHub { Hold = "hold", Local = "local", Refuse = "refuse" });
names!(ListReplicas { Off = "off", Mark = "mark" });
names!(OnUnknown { Fail = "fail", Redirect = "redirect" });
names!(ReadResidency { Allow = "allow", Redact = "redact", Deny = "deny" });
