//! Routing, its rules, and failover.

use super::super::raw::{RawFailover, RawGeographic, RawRouting, RawRule, RawTarget, RawTenant};
use super::super::sections::{Failover, Journal, Routing};
use super::super::types::Ledger;
use super::super::types::{Geographic, Matcher, Rule, Stamp, Tenant};
use super::collect::{Check, Registered};
use crate::base::{Needs, RegionId, Strategy};

/// Rules are tried one after the other on every job that names no strategy.
const RULES_MAX: usize = 1024;
/// Patterns are tried one after the other on every job of a tenant.
const TENANTS_MAX: usize = 1024;

impl Check {
    pub(super) fn routing(&mut self, mut routing: Routing, raw: RawRouting, registered: &Registered) -> Routing {
        let ignored = "not honoured: failover follows the strategy's own order and failover.prefer_regions";
        self.warn_if(raw.fallback_strategy.is_some(), "routing.fallback_strategy", ignored);
        let geographic = raw.geographic.and_then(|geographic| self.geographic(geographic, registered));
        let has_table = geographic.is_some() || self.origins.is_set("routing.geographic");
        self.needs_table(routing.strategy, has_table, "routing.strategy");
        if raw.rules.len() > RULES_MAX {
            self.refuse("routing.rules", "expected at most 1024 rules");
        }
        self.unreachable_rules(&raw.rules);
        let rules = raw.rules.into_iter().enumerate();
        let rules = rules.filter_map(|(at, rule)| Some((format!("routing.rules[{at}]"), rule?)));
        routing.rules = rules.map(|(path, rule)| self.rule(&path, rule, registered, has_table)).collect();
        routing.geographic = geographic;
        routing
    }

    /// Warnings about probable mistakes.
    pub(super) fn residency_warnings(&mut self, routing: &Routing, tenants: &[Tenant]) {
        let restricts = routing.rules.iter().any(|rule| !rule.regions.is_empty())
            || tenants.iter().any(|tenant| !tenant.regions.is_empty());
        self.warn_if(
            restricts && !self.origins.is_set("residency.read"),
            "residency.read",
            "not set: a look-up by id shows jobs here that rules or tenants keep in other regions; set redact or deny, or allow where that is meant",
        );
        self.warn_if(
            routing.stamp == Stamp::Never,
            "routing.stamp",
            "never: jobs get no ojs.federation.federation_id, so that none can be tracked or distinguished from its copy in another region",
        );
    }

    fn needs_table(&mut self, strategy: Strategy, has_table: bool, path: &str) {
        if strategy.needs() == Needs::Table && !has_table {
            self.refuse(path, &format!("{strategy} needs the table routing.geographic with meta_key and regions"));
        }
    }

    /// A rule without `match` takes every job, so that those behind it are never reached.
    fn unreachable_rules(&mut self, rules: &[Option<RawRule>]) {
        for (at, rule) in (1..).zip(rules).take(rules.len().saturating_sub(1)) {
            let Some(matcher) = rule.as_ref().map(|rule| &rule.matcher) else { continue };
            let any = matcher.job_type.is_none() && matcher.queue.is_none();
            let any = any && matcher.tags.is_empty() && matcher.meta.is_empty();
            let path = format!("routing.rules[{}]", at - 1);
            let all = any && !self.is_wrong_within(&path);
            self.warn_if(all, &path, "it has no match and takes every job: the rules after it are never reached");
        }
    }

    fn rule(&mut self, path: &str, raw: RawRule, registered: &Registered, has_table: bool) -> Rule {
        let strategy = raw.target.strategy.map(|strategy| strategy.0);
        if let Some(strategy) = strategy {
            self.needs_table(strategy, has_table, &format!("{path}.target.strategy"));
        }
        let without = strategy.is_none()
            && raw.target.ledger.is_none()
            && raw.target.region.is_none()
            && raw.target.regions.is_none()
            && raw.target.regions_with.is_empty();
        let idle = without && !self.is_wrong_within(path);
        self.warn_if(idle, path, "the target names neither regions nor a strategy: the rule only ends the search");
        let matcher = raw.matcher;
        let matcher =
            Matcher { job_type: matcher.job_type, queue: matcher.queue, tags: matcher.tags, meta: matcher.meta };
        let ledger = raw.target.ledger.as_deref().and_then(Ledger::parse);
        Rule { matcher, regions: self.targets(path, &raw.target, registered), strategy, ledger }
    }

    /// The regions of a rule. Where both spellings are used, only regions in both: a rule narrows and never widens.
    fn targets(&mut self, path: &str, raw: &RawTarget, registered: &Registered) -> Vec<RegionId> {
        let (one, list) = (format!("{path}.target.region"), format!("{path}.target.regions"));
        let region = raw.region.as_deref().and_then(|name| self.named(registered, &one, name));
        let regions = raw.regions.as_deref().map(|names| self.all_named(registered, &list, names));
        if raw.regions.as_ref().is_some_and(Vec::is_empty) {
            self.refuse(&list, "expected at least one region; leave the key out to allow every region");
        }
        let named = match (region, regions) {
            (Some(region), Some(regions)) if !regions.contains(&region) => {
                if !raw.regions.as_ref().is_some_and(Vec::is_empty) {
                    self.refuse(&one, "the region is not among target.regions: no region would be left");
                }
                Vec::new()
            }
            (Some(region), Some(_)) => {
                self.warn(&list, "not needed: target.region narrows the list to one region");
                vec![region]
            }
            (Some(region), None) => vec![region],
            (None, regions) => regions.unwrap_or_default(),
        };
        self.with_tags(&format!("{path}.target.regions_with"), named, &raw.regions_with, registered)
    }

    /// Of these regions, or of all where none is named, those that have all of the tags.
    fn with_tags(
        &mut self,
        path: &str,
        named: Vec<RegionId>,
        tags: &[String],
        registered: &Registered,
    ) -> Vec<RegionId> {
        if tags.is_empty() {
            return named;
        }
        let has_all = |own: &[String]| tags.iter().all(|tag| own.contains(tag));
        let tagged = registered.tags.iter().filter(|(_, own)| has_all(own)).map(|(id, _)| id.clone());
        let left: Vec<RegionId> = tagged.filter(|id| named.is_empty() || named.contains(id)).collect();
        if left.is_empty() && registered.complete {
            self.refuse(path, "expected tags that at least one of the regions has: no region would be left");
        }
        left
    }

    pub(super) fn tenants(&mut self, raw: Vec<Option<RawTenant>>, registered: &Registered) -> Vec<Tenant> {
        if raw.len() > TENANTS_MAX {
            self.refuse("tenants", "expected at most 1024 patterns");
        }
        let tenants = raw.into_iter().enumerate();
        let tenants = tenants.filter_map(|(at, tenant)| Some((format!("tenants[{at}]"), tenant?)));
        tenants.filter_map(|(path, tenant)| self.tenant(&path, tenant, registered)).collect()
    }

    fn tenant(&mut self, path: &str, raw: RawTenant, registered: &Registered) -> Option<Tenant> {
        let list = format!("{path}.regions");
        if raw.pattern.is_none() && !self.is_wrong_within(path) {
            self.refuse(&format!("{path}.match"), "expected a glob over the names of tenants");
        }
        if raw.regions.as_ref().is_some_and(Vec::is_empty) {
            self.refuse(&list, "expected at least one region; leave the key out to allow every region");
        }
        let named = self.all_named(registered, &list, &raw.regions.unwrap_or_default());
        let regions = self.with_tags(&format!("{path}.regions_with"), named, &raw.regions_with, registered);
        let home = format!("{path}.home");
        let region = raw.home.as_deref().and_then(|name| self.named(registered, &home, name));
        if region.as_ref().is_some_and(|region| !regions.is_empty() && !regions.contains(region)) {
            self.refuse(&home, "the region is not among those that the tenant's jobs may go to");
        }
        Some(Tenant { pattern: raw.pattern?, regions, home: region })
    }

    fn geographic(&mut self, raw: RawGeographic, registered: &Registered) -> Option<Geographic> {
        if raw.meta_key.is_none() {
            self.refuse("routing.geographic.meta_key", "expected the meta key that holds the hint");
        }
        if raw.regions.is_empty() {
            self.refuse("routing.geographic.regions", "expected at least one hint with its region");
        }
        let regions = raw.regions.into_iter().filter_map(|(hint, name)| {
            let path = format!("routing.geographic.regions.{hint}");
            Some((hint, self.named(registered, &path, &name)?))
        });
        let regions = regions.collect();
        Some(Geographic { meta_key: raw.meta_key?, regions })
    }

    pub(super) fn failover(&mut self, mut failover: Failover, raw: &RawFailover, registered: &Registered) -> Failover {
        let all = !registered.ids.is_empty()
            && registered.ids.iter().all(|id| raw.exclude_regions.iter().any(|it| it == id.as_str()));
        self.warn_if(
            all && failover.enabled,
            "failover.exclude_regions",
            "all regions are excluded: no job can fail over",
        );
        failover.prefer_regions = self.all_named(registered, "failover.prefer_regions", &raw.prefer_regions);
        failover.exclude_regions = self.all_named(registered, "failover.exclude_regions", &raw.exclude_regions);
        failover
    }
}

impl Check {
    /// The word `off` stands for no file.
    pub(super) fn journal(&mut self, mut journal: Journal) -> Journal {
        journal.path = journal.path.filter(|path| path.as_os_str() != "off");
        if journal.required && journal.path.is_none() && !self.is_wrong_within("journal.path") {
            self.refuse(
                "journal.required",
                "expected false, or a file in journal.path: in memory nothing outlives the process",
            );
        }
        journal
    }
}
