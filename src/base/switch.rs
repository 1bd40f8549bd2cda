//! The kinds of switches, and their subjects.

use serde::{Deserialize, Serialize};

use super::region_id::RegionId;
use super::words::words;

words! {
    /// The kind of a switch that an operator sets.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    SwitchKind {
        /// No job fails over into the region.
        Forbid = "forbid",
        /// No flexible job goes to the region; jobs that are pinned to it do.
        Drain = "drain",
        /// No job goes to the region, pinned ones included.
        Evacuate = "evacuate",
        /// No job goes to the region, pinned ones included, and no worker gets a job from it.
        Isolate = "isolate",
        /// No worker gets a job; everything else goes on.
        Maintenance = "maintenance",
        /// No worker gets a job of the queue; or no new job of the type or the tenant is accepted.
        Pause = "pause",
        /// Each sidecar makes at most so many calls at once to the region.
        Throttle = "throttle",
    }
}

impl SwitchKind {
    /// Whether a switch of this kind can be about this subject.
    #[must_use]
    pub const fn takes(self, subject: &SwitchSubject) -> bool {
        match self {
            Self::Forbid | Self::Drain | Self::Evacuate | Self::Isolate | Self::Throttle => {
                matches!(subject, SwitchSubject::Region(_))
            }
            Self::Maintenance => matches!(subject, SwitchSubject::Sidecar),
            Self::Pause => {
                matches!(subject, SwitchSubject::Queue(_) | SwitchSubject::Type(_) | SwitchSubject::Tenant(_))
            }
        }
    }

    /// Whether a switch of this kind can be in force beside one of another kind for the same subject.
    #[must_use]
    pub const fn is_beside(self, other: Self) -> bool {
        matches!(self, Self::Throttle) != matches!(other, Self::Throttle)
    }

    /// Whether it keeps all jobs from a region, pinned ones included.
    #[must_use]
    pub const fn refuses_pinned(self) -> bool {
        matches!(self, Self::Evacuate | Self::Isolate)
    }

    /// Grows with the jobs that it keeps from a region: of two switches for one region the stricter one is in force.
    #[must_use]
    pub const fn strictness(self) -> u8 {
        match self {
            Self::Maintenance | Self::Pause | Self::Throttle => 0,
            Self::Forbid => 1,
            Self::Drain => 2,
            Self::Evacuate => 3,
            Self::Isolate => 4,
        }
    }
}

/// The subject of a switch. Shape: JSON with one of the members `region`, `queue`, `type` and `tenant`, or with none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Members", into = "Members")]
pub enum SwitchSubject {
    /// The sidecar as a whole.
    Sidecar,
    /// A region.
    Region(RegionId),
    /// The queue of this exact name.
    Queue(String),
    /// The job type of this exact name.
    Type(String),
    /// The tenant of this exact name.
    Tenant(String),
}

impl SwitchSubject {
    /// The region, where it is one.
    #[must_use]
    pub const fn region(&self) -> Option<&RegionId> {
        if let Self::Region(region) = self { Some(region) } else { None }
    }

    /// Its member in JSON and in queries, and its name; none for the sidecar as a whole.
    #[must_use]
    pub fn member(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Sidecar => None,
            Self::Region(region) => Some(("region", region.as_str())),
            Self::Queue(name) => Some(("queue", name)),
            Self::Type(name) => Some(("type", name)),
            Self::Tenant(name) => Some(("tenant", name)),
        }
    }
}

impl std::fmt::Display for SwitchSubject {
    /// Such as `eu-west-1` or `queue email`; empty for the sidecar as a whole.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.member() {
            None => Ok(()),
            Some(("region", name)) => f.write_str(name),
            Some((key, name)) => write!(f, "{key} {name}"),
        }
    }
}

/// The members of a subject in JSON.
#[derive(Default, Serialize, Deserialize)]
struct Members {
    // Always written: programs of before there were other subjects expect it.
    #[serde(default)]
    region: Option<RegionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    job_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

impl From<SwitchSubject> for Members {
    fn from(subject: SwitchSubject) -> Self {
        let mut members = Self::default();
        match subject {
            SwitchSubject::Sidecar => {}
            SwitchSubject::Region(region) => members.region = Some(region),
            SwitchSubject::Queue(name) => members.queue = Some(name),
            SwitchSubject::Type(name) => members.job_type = Some(name),
            SwitchSubject::Tenant(name) => members.tenant = Some(name),
        }
        members
    }
}

impl TryFrom<Members> for SwitchSubject {
    type Error = &'static str;

    fn try_from(members: Members) -> Result<Self, Self::Error> {
        let Members { region, queue, job_type, tenant } = members;
        let (region, queue) = (region.map(Self::Region), queue.map(Self::Queue));
        let mut named = [region, queue, job_type.map(Self::Type), tenant.map(Self::Tenant)].into_iter().flatten();
        let subject = named.next().unwrap_or(Self::Sidecar);
        if named.next().is_some() {
            return Err("expected at most one of `region`, `queue`, `type` and `tenant`");
        }
        Ok(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_one_member_and_two_are_refused() {
        let read = |text: &str| serde_json::from_str::<SwitchSubject>(text);
        for (text, shown) in [
            (r#"{"region":null}"#, ""),
            (r#"{"region":"a"}"#, "a"),
            (r#"{"region":null,"queue":"email"}"#, "queue email"),
            (r#"{"region":null,"type":"mail.send"}"#, "type mail.send"),
            (r#"{"region":null,"tenant":"acme"}"#, "tenant acme"),
        ] {
            let subject = read(text).unwrap();
            assert_eq!(
                (subject.to_string().as_str(), serde_json::to_string(&subject).unwrap().as_str()),
                (shown, text)
            );
        }
        assert_eq!(read("{}").unwrap(), SwitchSubject::Sidecar);
        assert!(read(r#"{"region":"a","queue":"email"}"#).is_err());
    }
}
