//! The quotas in force at a sidecar, and the one of a job.

use std::collections::HashMap;
use std::sync::Arc;

use super::purse::Purse;
use super::rule::{ANY, Quota};

/// A quota with the tokens that this sidecar has of it.
#[derive(Debug)]
pub struct LiveQuota {
    /// The quota.
    pub quota: Quota,
    /// Its tokens; they stay while its numbers change.
    pub purse: Arc<Purse>,
}

#[derive(Debug, Default)]
struct ByTenant {
    named: HashMap<String, usize>,
    any: Option<usize>,
}

impl ByTenant {
    fn of(&self, tenant: Option<&str>) -> (Option<usize>, Option<usize>) {
        (tenant.and_then(|tenant| self.named.get(tenant)).copied(), self.any)
    }
}

/// The quotas in force. One quota counts a job: that of its tenant and type, else of its tenant, else of its type, else of all.
#[derive(Debug, Default)]
pub struct QuotaTable {
    all: Vec<Arc<LiveQuota>>,
    by_type: HashMap<String, ByTenant>,
    of_any_type: ByTenant,
}

impl QuotaTable {
    /// Puts quotas in force in place of those of `before`, whose tokens stay. Those that do not count new jobs are left out.
    #[must_use]
    pub fn new(quotas: Vec<Quota>, before: &Self) -> Self {
        let mut table = Self::default();
        for (place, quota) in quotas.into_iter().filter(Quota::has_rate).enumerate() {
            let known = before.all.iter().find(|it| it.quota.key() == quota.key());
            let purse = known.map(|it| Arc::clone(&it.purse)).unwrap_or_default();
            let by_tenant = match quota.job_type.as_str() {
                ANY => &mut table.of_any_type,
                name => table.by_type.entry(name.to_owned()).or_default(),
            };
            match quota.tenant.as_str() {
                ANY => by_tenant.any = Some(place),
                name => drop(by_tenant.named.insert(name.to_owned(), place)),
            }
            table.all.push(Arc::new(LiveQuota { quota, purse }));
        }
        table
    }

    /// The quota that counts a job.
    #[must_use]
    pub fn of(&self, tenant: Option<&str>, job_type: Option<&str>) -> Option<&Arc<LiveQuota>> {
        let (own, of_type) = job_type.and_then(|name| self.by_type.get(name)).map_or((None, None), |it| it.of(tenant));
        let (of_tenant, of_all) = self.of_any_type.of(tenant);
        self.all.get(own.or(of_tenant).or(of_type).or(of_all)?)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LiveQuota>> {
        self.all.iter()
    }
}
