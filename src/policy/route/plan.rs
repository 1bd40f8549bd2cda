//! Which strategy ranks the job's regions, and which regions it may go to at all.
//!
//! Precedence: a region named by the job pins it; else the strategy that the job names; else that of the first matching
//! rule; else the configured default. The rule's regions narrow every job that it matches, and widen none.

use super::grounds::Origin;
use super::strategy::{Home, VariesBy, fallback, rules};
use crate::base::{Needs, RegionId, Strategy};
use crate::config::Ledger;
use crate::policy::error::RouteError;
use crate::policy::index::RegionIndex;
use crate::policy::job::Job;
use crate::policy::refusal::Refusal;
use crate::policy::region_set::RegionSet;
use crate::policy::view::{Rule, TENANT_KEY, Tenant, View};

/// The frame within which candidates are sought.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'v> {
    pub(super) strategy: Strategy,
    pub(super) pinned: bool,
    pub(super) permitted: Permitted<'v>,
    /// Where the strategy sends the job while all is well; `None` when no single region is meant. Going anywhere else is
    /// failing over.
    pub(super) home: Option<RegionIndex>,
    /// The local region, or the home of the job's tenant, which takes the local region's part for the tenant's jobs.
    pub(super) local: RegionIndex,
    /// For `geographic`: the region of the job's hint, while it is usable.
    pub(super) hint: Option<RegionIndex>,
    /// For `geographic`: the region of the job's hint, usable or not.
    pub(super) hinted: Option<RegionIndex>,
    /// Where the strategy came from.
    pub(super) origin: Origin,
    /// The place of the rule that matched.
    pub(super) rule: Option<u16>,
}

/// Where a job may go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Permitted<'v> {
    All,
    /// The regions that a rule, a tenant and the job's own tags permit.
    Set(Sets<'v>),
    /// A pin by the job itself, or by configuration to the local region.
    One(RegionIndex),
    Two(RegionIndex, RegionIndex),
}

/// Sets of regions, of which a region must be in each.
///
/// Shape: a rule's, a tenant's, and one for each tag that a job asks for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sets<'v>([Option<&'v RegionSet>; 2 + TAGS_MAX]);

/// A job asks for no more tags: each is one more set to look into for every region.
const TAGS_MAX: usize = 4;

impl<'v> Sets<'v> {
    pub(super) fn one(set: &'v RegionSet) -> Self {
        let mut sets = Self::default();
        sets.0[0] = Some(set);
        sets
    }

    pub(super) fn contains(&self, region: RegionIndex) -> bool {
        self.0.iter().flatten().all(|set| set.contains(region))
    }
}

impl Permitted<'_> {
    pub(super) fn contains(self, region: RegionIndex) -> bool {
        match self {
            Self::All => true,
            Self::Set(set) => set.contains(region),
            Self::One(only) => only == region,
            Self::Two(a, b) => a == region || b == region,
        }
    }
}

impl<'v> Plan<'v> {
    /// Reads the job's attributes and the rules.
    ///
    /// Errors: those that are the client's fault, see [`RouteError`].
    pub(super) fn of(view: &'v View, job: &Job<'_>) -> Result<Self, RouteError> {
        let matched = first_rule(view, job)?;
        let rule = matched.map(|(_, rule)| rule);
        let place = matched.and_then(|(place, _)| u16::try_from(place).ok());
        let tenant = tenant_of(view, job)?;
        let permitted = permitted(view, job, rule, tenant)?;
        let local = tenant.and_then(|tenant| tenant.home).unwrap_or(view.local);
        if let Some(pin) = job.pin {
            return Ok(Self { origin: Origin::Pin, rule: place, ..pinned_by_job(view, pin, permitted)? });
        }
        let strategy = match job.affinity {
            Some(name) => {
                let strategy = Strategy::parse(name).map_err(|_| RouteError::UnknownStrategy)?;
                if strategy.needs() == Needs::Region {
                    return Err(RouteError::PinWithoutRegion);
                }
                strategy
            }
            None => default_of(view, rule),
        };
        let plan = match strategy.needs() {
            Needs::Region => pinned_by_configuration(permitted, by_rule_regions(rule), local),
            Needs::Table => hinted(view, job, strategy, (permitted, by_rule_regions(rule)), local),
            Needs::Nothing => flexible(view, strategy, permitted.map_or(Permitted::All, Permitted::Set), local),
        };
        let by_rule = rule.is_some_and(|rule| rule.strategy.is_some());
        let origin = match job.affinity {
            Some(_) => Origin::Job,
            None if by_rule => Origin::Rule,
            None => Origin::Default,
        };
        Ok(Self { origin, rule: place, ..plan })
    }
}

impl Plan<'_> {
    /// The plan of a job that is routed by a strategy without pins and hints and may go anywhere.
    pub(super) fn anywhere(view: &View, strategy: Strategy) -> Self {
        flexible(view, strategy, Permitted::All, view.local)
    }

    /// The one region that the job is meant for, also where that region's state has already sent the plan elsewhere.
    pub(super) fn meant_for(&self) -> Option<RegionIndex> {
        self.hinted.or(self.home)
    }

    /// Why a region is no candidate that is not permitted.
    pub(super) const fn not_permitted(&self) -> Refusal {
        let by_rule = matches!(self.permitted, Permitted::Set(_)) && !self.pinned;
        if by_rule { Refusal::NotPermitted } else { Refusal::PinnedElsewhere }
    }

    /// Whether the position of `round-robin` orders the candidates.
    pub(super) fn varies_by_turn(&self, view: &View) -> bool {
        rules(self.ranks_by(view)).varies_by == VariesBy::Turn
    }

    /// The strategy that chooses the target in effect: without a usable hint `geographic` leaves it to another one.
    pub(super) fn ranks_by(&self, view: &View) -> Strategy {
        if self.strategy.needs() == Needs::Table && self.hint.is_none() { fallback(view) } else { self.strategy }
    }
}

/// The settings of the job's tenant.
///
/// Errors: the job and the head of its call name two, or the job's own can be read in two ways.
pub(super) fn tenant_of<'v>(view: &'v View, job: &Job<'_>) -> Result<Option<&'v Tenant>, RouteError> {
    let tenants = &view.settings.tenants;
    if tenants.is_empty() && job.tenant.is_none() {
        return Ok(None);
    }
    let said = (job.meta)(TENANT_KEY);
    if said.unclear {
        return Err(RouteError::Unclear { field: format!("meta.{TENANT_KEY}") });
    }
    if let (Some(said), Some(tenant)) = (said.text.as_deref(), job.tenant)
        && said != tenant
    {
        return Err(RouteError::TenantsDiffer);
    }
    let name = said.text.as_deref().or(job.tenant);
    Ok(name.and_then(|name| tenants.iter().find(|tenant| tenant.pattern.matches(name))))
}

/// The regions that the rule, the tenant and the job's own tags permit together; `None` for all.
fn permitted<'v>(
    view: &'v View,
    job: &Job<'_>,
    rule: Option<&'v Rule>,
    tenant: Option<&'v Tenant>,
) -> Result<Option<Sets<'v>>, RouteError> {
    let (by_rule, by_tenant) =
        (rule.and_then(|rule| rule.regions.as_ref()), tenant.and_then(|tenant| tenant.regions.as_ref()));
    if by_rule.is_none() && by_tenant.is_none() && job.regions_with.is_none() {
        return Ok(None);
    }
    let mut sets = Sets::default();
    let mut rooms = sets.0.iter_mut();
    for set in [by_rule, by_tenant].into_iter().flatten() {
        if let Some(room) = rooms.next() {
            *room = Some(set);
        }
    }
    if let Some(tags) = job.regions_with {
        for tag in tags.split(',').map(str::trim) {
            let set = view.settings.tags.get(tag).ok_or(RouteError::NoRegionWithTags)?;
            *rooms.next().ok_or(RouteError::NoRegionWithTags)? = Some(set);
        }
        let pin = job.pin.and_then(|pin| view.index_of(pin));
        let is_possible = view.indexes().any(|region| sets.contains(region) && pin.is_none_or(|pin| pin == region));
        if !is_possible {
            return Err(RouteError::NoRegionWithTags);
        }
    }
    Ok(Some(sets))
}

/// Whether a region has all tags of a job's `regions_with`, which are separated by commas.
#[must_use]
pub fn has_tags(view: &View, tags: &str, index: RegionIndex) -> bool {
    tags.split(',').map(str::trim).all(|tag| view.settings.tags.get(tag).is_some_and(|set| set.contains(index)))
}

/// The first rule that matches, with its place.
fn first_rule<'v>(view: &'v View, job: &Job<'_>) -> Result<Option<(usize, &'v Rule)>, RouteError> {
    let settings = &view.settings;
    for (place, rule) in settings.rules.iter().enumerate() {
        if rule.matches(job, settings.rules_restrict)? {
            return Ok(Some((place, rule)));
        }
    }
    Ok(None)
}

/// Whether a job is described for the ledger of the hub, by the first rule that matches it; none where no rule says it.
pub fn ledger_by_rule(view: &View, job: &Job<'_>) -> Option<Ledger> {
    first_rule(view, job).ok().flatten().and_then(|(_, rule)| rule.ledger)
}

/// The same of a job that this rule has matched. `rule`: its place, as in [`super::Grounds::rule`].
pub fn ledger_of_rule(view: &View, rule: Option<u16>) -> Option<Ledger> {
    view.settings.rules.get(usize::from(rule?))?.ledger
}

fn default_of(view: &View, rule: Option<&Rule>) -> Strategy {
    rule.and_then(|rule| rule.strategy).unwrap_or(view.settings.strategy)
}

fn pinned_by_job<'v>(view: &'v View, pin: &str, permitted: Option<Sets<'_>>) -> Result<Plan<'v>, RouteError> {
    let Some(region) = view.index_of(pin) else {
        return Err(RouteError::UnknownRegion { region: RegionId::parse(pin).ok() });
    };
    if let Some(set) = permitted.filter(|set| !set.contains(region)) {
        return Err(RouteError::PinNotPermitted {
            region: view.region(region).id.clone(),
            permitted: view.indexes().filter(|&it| set.contains(it)).map(|it| view.region(it).id.clone()).collect(),
        });
    }
    Ok(pin_to(Permitted::One(region), view.local))
}

/// `geo-pin` by rule or default: to the regions of the rule, else to the local one. A tenant and the job's own tags narrow that, and choose
/// only where the local region is none of theirs.
fn pinned_by_configuration(permitted: Option<Sets<'_>>, by_rule: bool, local: RegionIndex) -> Plan<'_> {
    let to = match permitted {
        Some(set) if by_rule || !set.contains(local) => Permitted::Set(set),
        _ => Permitted::One(local),
    };
    pin_to(to, local)
}

/// Whether a rule names the regions itself.
fn by_rule_regions(rule: Option<&Rule>) -> bool {
    rule.is_some_and(|rule| rule.regions.is_some())
}

const fn pin_to(permitted: Permitted<'_>, local: RegionIndex) -> Plan<'_> {
    Plan {
        strategy: Strategy::PIN,
        pinned: true,
        permitted,
        local,
        home: None,
        hint: None,
        hinted: None,
        origin: Origin::Default,
        rule: None,
    }
}

/// The hinted region while it is usable; else as if the job had named the default strategy.
///
/// `permitted` comes with whether a rule names its regions.
fn hinted<'v>(
    view: &'v View,
    job: &Job<'_>,
    strategy: Strategy,
    (permitted, by_rule): (Option<Sets<'v>>, bool),
    local: RegionIndex,
) -> Plan<'v> {
    let free = permitted.map_or(Permitted::All, Permitted::Set);
    let table = view.settings.geographic.as_ref();
    let hinted = table.and_then(|table| table.regions.get(&*(job.meta)(&table.meta_key).text?).copied());
    let hinted = hinted.filter(|&region| free.contains(region));
    let hint = hinted.filter(|&region| view.region(region).unusable(|| false).is_none());
    let plan = Plan { hint, hinted, home: hint, ..flexible(view, strategy, free, local) };
    match (view.settings.strategy.needs(), hint) {
        // Without a hint the default decides, and a default of geo-pin means the local region or nowhere: failing over from
        // the hinted region must not lead further than that.
        (Needs::Region, None) => Plan { hinted, ..pinned_by_configuration(permitted, by_rule, local) },
        (Needs::Region, Some(hint)) if !by_rule => {
            let both = permitted.is_none_or(|set| set.contains(local));
            Plan { permitted: if both { Permitted::Two(hint, local) } else { Permitted::One(hint) }, ..plan }
        }
        (_, None) => Plan { home: home_of(view, fallback(view), free, local), ..plan },
        (_, Some(_)) => plan,
    }
}

fn flexible<'v>(view: &View, strategy: Strategy, permitted: Permitted<'v>, local: RegionIndex) -> Plan<'v> {
    let home = home_of(view, strategy, permitted, local);
    let (origin, rule) = (Origin::Default, None);
    Plan { strategy, pinned: false, permitted, home, local, hint: None, hinted: None, origin, rule }
}

fn home_of(view: &View, strategy: Strategy, permitted: Permitted<'_>, local: RegionIndex) -> Option<RegionIndex> {
    match rules(strategy).home {
        Home::Local => Some(local).filter(|&local| permitted.contains(local)),
        Home::First if matches!(permitted, Permitted::All) => view.settings.first,
        Home::First => view
            .indexes()
            .filter(|&region| permitted.contains(region))
            .min_by_key(|&region| (view.settings.preference(region), region)),
        Home::Unset => None,
    }
}
