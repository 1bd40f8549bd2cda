//! The rights of clients at the hub, by the names in their certificates.

use serde::Deserialize;
use wildmatch::WildMatch;

use crate::base::{RegionId, words};

/// The role of a client of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A sidecar: it reads the feed and reports its own state.
    Sidecar,
    /// The hub of another region: it reads the facts about jobs of this one, and its isolations.
    Hub,
    /// A person or a tool, with the rights of its scopes.
    Operator,
}

words! {
    /// A right of an operator.
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    Scope {
        /// Reads switches and the inventory.
        Read = "read",
        /// Sets and ends switches.
        Operate = "operate",
        /// Reads the audit trail.
        Audit = "audit",
        /// Runs many jobs again. Spec: source-job-orchestrator §3, `orch:backfill`.
        Backfill = "backfill",
        /// Puts quotas.
        Quota = "quota",
    }
}

/// One rule of access.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A glob over the URIs and DNS names of a client's certificate: `*` for any run of characters, `?` for one.
    pub san: String,
    /// The role of such clients.
    pub role: Role,
    /// Only for sidecars of this region; the region of a hub.
    pub region: Option<RegionId>,
    /// The rights of an operator.
    #[serde(default)]
    pub scopes: Vec<Scope>,
}

impl Rule {
    /// The mistakes in it, each beginning with its key.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.san.is_empty() {
            wrong.push("san: expected a URI or DNS name, such as spiffe://example.org/sidecar/*".to_owned());
        }
        match self.role {
            Role::Operator if self.scopes.is_empty() => {
                let all = Scope::ALL.map(Scope::as_str).join(", ");
                wrong.push(format!("scopes: expected at least one of {all} for an operator"));
            }
            Role::Sidecar | Role::Hub if !self.scopes.is_empty() => {
                wrong.push("scopes: only an operator has scopes; leave it out".to_owned());
            }
            _ => {}
        }
        if self.role == Role::Operator && self.region.is_some() {
            wrong.push("region: an operator is of no region; leave it out".to_owned());
        }
        if self.role == Role::Hub && self.region.is_none() {
            wrong.push("region: expected the region of the hub".to_owned());
        }
        wrong
    }
}

/// A client of the hub, as its certificate or its token proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    /// The name in its certificate that a rule fitted, or the one that its token gives it.
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) scopes: Vec<Scope>,
    /// The region of a sidecar, where its rule names one.
    pub(super) region: Option<RegionId>,
    /// The operator of its token; none with a certificate, whose requests name the operator.
    pub(super) author: Option<String>,
}

/// The needed right of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// To be a sidecar.
    Sidecar,
    /// To be the hub of another region.
    Hub,
    /// To be a sidecar, or an operator with the scope to read.
    Reader,
    /// To be an operator with this scope.
    Operator(Scope),
}

impl Caller {
    /// Whether it has the right.
    pub(super) fn may(&self, need: Need) -> bool {
        match need {
            Need::Sidecar => self.role == Role::Sidecar,
            Need::Hub => self.role == Role::Hub,
            Need::Reader => self.may(Need::Sidecar) || self.may(Need::Operator(Scope::Read)),
            Need::Operator(scope) => self.role == Role::Operator && self.scopes.contains(&scope),
        }
    }

    /// The missing right, and the key of the configuration that would give it.
    pub(super) fn lack(&self, need: Need) -> String {
        let why = match (need, &self.author) {
            (Need::Sidecar, Some(_)) => "only the certificate of a sidecar gives it".to_owned(),
            (Need::Hub, _) => "it needs the role hub: see its rule in `access`".to_owned(),
            (Need::Reader, _) => "it needs the role sidecar or the scope read: see its rule in `access`".to_owned(),
            (Need::Sidecar, None) => "it needs the role sidecar: see its rule in `access`".to_owned(),
            (Need::Operator(scope), Some(_)) => {
                format!("it needs the scope {}: see `tokens.scopes` and the claims of the token", scope.as_str())
            }
            (Need::Operator(scope), None) => {
                format!("it needs the scope {}: see the role and the scopes of its rule in `access`", scope.as_str())
            }
        };
        format!("`{}` has no right to this; {why}", self.name)
    }
}

/// The rules of access, in the order of the configuration.
#[derive(Debug, Clone)]
pub struct Access(Vec<(WildMatch, Rule)>);

impl Access {
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        Self(rules.into_iter().map(|rule| (WildMatch::new(&rule.san), rule)).collect())
    }

    /// The client whose certificate has these names: by the first rule that fits one of them; `None` where none does.
    pub(super) fn caller(&self, names: &[String]) -> Option<Caller> {
        self.0.iter().find_map(|(pattern, rule)| {
            let name = names.iter().find(|name| pattern.matches(name))?.clone();
            Some(Caller {
                name,
                role: rule.role,
                scopes: rule.scopes.clone(),
                region: rule.region.clone(),
                author: None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(san: &str, role: Role, scopes: &[Scope]) -> Rule {
        Rule { san: san.to_owned(), role, region: None, scopes: scopes.to_vec() }
    }

    #[test]
    fn the_first_rule_that_fits_a_name_decides_and_no_rule_permits_nothing() {
        let access = Access::new(vec![
            rule("spiffe://x/sidecar/*", Role::Sidecar, &[]),
            rule("ann.x", Role::Operator, &[Scope::Read]),
            rule("*.x", Role::Operator, &[Scope::Read, Scope::Operate, Scope::Audit]),
        ]);
        let of = |name: &str| access.caller(&[name.to_owned()]);
        let needs =
            [Need::Sidecar, Need::Operator(Scope::Read), Need::Operator(Scope::Operate), Need::Operator(Scope::Audit)];
        let may = |name: &str| needs.map(|need| of(name).unwrap().may(need));
        assert_eq!(may("spiffe://x/sidecar/a"), [true, false, false, false]);
        assert_eq!(may("ann.x"), [false, true, false, false]);
        assert_eq!(may("bob.x"), [false, true, true, true]);
        assert_eq!(["", "x", "spiffe://x/sidecars/a", "ann.y"].map(of), [const { None }; 4]);
        assert_eq!(access.caller(&[]), None);
        let both = access.caller(&["zoe.y".to_owned(), "ann.x".to_owned()]).unwrap();
        assert_eq!(both.name, "ann.x");
    }
}
