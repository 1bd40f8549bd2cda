//! The collected results of the check.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Problem;
use super::super::files::RegionFiles;
use super::super::walk::Origins;
use crate::base::RegionId;

/// Collects problems; a key that is wrong already is not reported twice.
pub(super) struct Check {
    pub(super) origins: Origins,
    pub(super) problems: BTreeMap<String, Problem>,
    pub(super) regions: Vec<RegionFiles>,
    pub(super) warnings: Vec<Problem>,
}

/// The region ids that other keys may name.
pub(super) struct Registered {
    pub(super) ids: BTreeSet<RegionId>,
    /// The tags of each, in the operator's order.
    pub(super) tags: Vec<(RegionId, Vec<String>)>,
    /// False when the id of a region is wrong, so that a name may be missing for that reason.
    pub(super) complete: bool,
}

impl Check {
    pub(super) fn refuse(&mut self, path: &str, rule: &str) {
        let problem = self.origins.problem(path, rule);
        self.problems.entry(path.to_owned()).or_insert(problem);
    }

    pub(super) fn warn(&mut self, path: &str, rule: &str) {
        self.warnings.push(self.origins.problem(path, rule));
    }

    pub(super) fn warn_if(&mut self, unwise: bool, path: &str, rule: &str) {
        if unwise {
            self.warn(path, rule);
        }
    }

    /// Whether a key within the section is wrong. A key that could not be read has been taken out of its section, and is not to
    /// be warned of as missing.
    pub(super) fn is_wrong_within(&self, section: &str) -> bool {
        let within =
            |path: &String| path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.problems.keys().any(within)
    }

    /// The registered region that `path` names.
    pub(super) fn named(&mut self, registered: &Registered, path: &str, name: &str) -> Option<RegionId> {
        let id = RegionId::parse(name).ok().filter(|id| registered.ids.contains(id));
        if id.is_none() && registered.complete {
            self.refuse(path, "expected the id of a region listed under regions");
        }
        id
    }

    pub(super) fn all_named(&mut self, registered: &Registered, path: &str, names: &[String]) -> Vec<RegionId> {
        let names = names.iter().enumerate();
        names.filter_map(|(at, name)| self.named(registered, &format!("{path}[{at}]"), name)).collect()
    }
}
