//! The configuration of a hub: one YAML file, all mistakes of a kind that serde cannot find named by their key.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::access::{Access, Rule};
use super::audit_settings::AuditSettings;
use super::breaker_settings::{BreakerSettings, IncidentSettings};
use super::index_reach::unreachable;
use super::index_settings::IndexSettings;
use super::ledger_settings::LedgerSettings;
use super::limit_settings::{LimitSettings, PoolSettings};
use super::log_settings::LogSettings;
use super::postgres_settings::PostgresSettings;
use super::probing::probing;
use super::tokens::TokenSettings;
use crate::config::{Config, Log};

/// A larger file is a mistake.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The configuration of a hub.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where sidecars and operators reach it over TLS.
    pub listen: SocketAddr,
    /// Liveness, readiness and metrics, in plain HTTP.
    #[serde(default = "admin")]
    pub admin: SocketAddr,
    /// Its certificate, and the authority of its clients.
    pub tls: HubTls,
    /// Where its record is.
    #[serde(default)]
    pub record: RecordSettings,
    /// The rights of clients; the first rule that fits a name of the client's certificate decides.
    pub access: Vec<Rule>,
    /// The fleet limits, of which it grants sidecars their parts.
    #[serde(default)]
    pub limits: Vec<LimitSettings>,
    /// The pools of workers whose jobs it bounds over all sidecars.
    #[serde(default)]
    pub pools: Vec<PoolSettings>,
    /// The index of jobs; none where this hub keeps none.
    pub index: Option<IndexSettings>,
    /// The ledger of jobs; none where this hub keeps none.
    pub ledger: Option<LedgerSettings>,
    /// The breakers of job types.
    #[serde(default)]
    pub breakers: Vec<BreakerSettings>,
    /// The receiver of messages about their incidents; none where the log, the trail and the metrics are enough.
    pub incidents: Option<IncidentSettings>,
    /// The bearer tokens of operators; none where every client needs a certificate.
    pub tokens: Option<TokenSettings>,
    /// The key that signs the audit trail; none where it is chained only.
    pub audit: Option<AuditSettings>,
    /// Logging.
    #[serde(default)]
    pub log: LogSettings,
    /// The regions that it probes for sidecars; none where it probes nothing. This section and the next three are read as those of a sidecar.
    regions: Option<IgnoredAny>,
    health_check: Option<IgnoredAny>,
    load: Option<IgnoredAny>,
    insecure_dev: Option<IgnoredAny>,
    /// The content of these sections, where there are regions.
    #[serde(skip)]
    pub probing: Option<Config>,
    /// The file that all this is from.
    #[serde(skip)]
    pub(super) file: PathBuf,
}

/// The TLS files of a hub.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubTls {
    /// PEM server certificate chain.
    pub cert: PathBuf,
    /// PEM private key of the certificate.
    pub key: PathBuf,
    /// PEM authorities that sign the certificates of clients.
    pub client_ca: PathBuf,
}

/// Where a hub keeps its record; in memory when it names nothing, and then a restart forgets all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordSettings {
    /// A SQLite file for one hub.
    pub path: Option<PathBuf>,
    /// A PostgreSQL database for one or several hubs.
    pub postgres: Option<PostgresSettings>,
}

impl RecordSettings {
    /// Where it is, in short.
    pub(super) fn shown(&self) -> String {
        match (&self.path, &self.postgres) {
            (_, Some(postgres)) => format!("postgres {}", postgres.hosts.join(",")),
            (Some(path), None) => path.display().to_string(),
            (None, None) => "memory".to_owned(),
        }
    }
}

const fn admin() -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9465)
}

/// Why the configuration of a hub cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("the hub's configuration cannot be read: {0}")]
    File(std::io::Error),
    /// The file is too long to be one.
    #[error("the hub's configuration is longer than 1 MiB")]
    Length,
    /// It is no YAML, has an unknown key, lacks a key, or a key has a value of another kind.
    #[error("the hub's configuration: {0}")]
    Shape(String),
    /// The mistakes within it, a line each.
    #[error("the hub's configuration:\n{}", .0.join("\n"))]
    Rules(Vec<String>),
}

impl Settings {
    /// Reads a file. Relative paths in it are resolved against it.
    ///
    /// Errors: [`SettingsError`].
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        let length = std::fs::metadata(path).map_err(SettingsError::File)?.len();
        if length > FILE_BYTES_MAX {
            return Err(SettingsError::Length);
        }
        let mut settings = Self::parse(&std::fs::read_to_string(path).map_err(SettingsError::File)?, path)?;
        path.clone_into(&mut settings.file);
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let HubTls { cert, key, client_ca } = &mut settings.tls;
        let RecordSettings { path, postgres } = &mut settings.record;
        let of_postgres = postgres.iter_mut().flat_map(PostgresSettings::paths);
        let keys = settings.tokens.as_mut().map(|tokens| &mut tokens.jwks_file);
        let keys = keys.into_iter().chain(settings.audit.as_mut().map(|audit| &mut audit.key));
        let of_index = settings.index.iter_mut().flat_map(IndexSettings::paths);
        let of_index = of_index.chain(settings.incidents.iter_mut().flat_map(IncidentSettings::paths));
        for path in [cert, key, client_ca].into_iter().chain(path).chain(of_postgres).chain(keys).chain(of_index) {
            *path = folder.join(&*path);
        }
        Ok(settings)
    }

    /// Reads the text of the file at `path`.
    ///
    /// Errors: [`SettingsError`].
    fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let mut settings: Self = serde_saphyr::from_str(text).map_err(|error| shape_error(text, &error.to_string()))?;
        let mut wrong: Vec<String> = Vec::new();
        if settings.access.is_empty() {
            wrong.push("access: expected at least one rule, else no client can use the hub".to_owned());
        }
        for (place, rule) in settings.access.iter().enumerate() {
            wrong.extend(rule.mistakes().into_iter().map(|mistake| format!("access[{place}].{mistake}")));
        }
        let tokens = settings.tokens.iter().flat_map(TokenSettings::mistakes);
        wrong.extend(tokens.map(|mistake| format!("tokens.{mistake}")));
        wrong.extend(
            settings.audit.iter().filter_map(AuditSettings::mistakes).map(|mistake| format!("audit.{mistake}")),
        );
        if settings.record.path.is_some() && settings.record.postgres.is_some() {
            wrong.push("record.path: expected either a file or `record.postgres`; leave one of them out".to_owned());
        }
        let postgres = settings.record.postgres.iter().flat_map(PostgresSettings::mistakes);
        wrong.extend(postgres.map(|mistake| format!("record.postgres.{mistake}")));
        let is_durable = settings.record.path.is_some() || settings.record.postgres.is_some();
        wrong.extend(LimitSettings::mistakes(&settings.limits, is_durable));
        wrong.extend(PoolSettings::mistakes(&settings.pools, is_durable));
        if settings.audit.is_some() && !is_durable {
            wrong.push(
                "audit: a hub without `record.path` or `record.postgres` begins its trail anew at each restart: set one of them"
                    .to_owned(),
            );
        }
        let of_index = settings.index.iter().flat_map(IndexSettings::mistakes);
        if settings.index.is_some() && !is_durable {
            wrong.push(
                "index: a hub without `record.path` or `record.postgres` forgets it at a restart: set one of them"
                    .to_owned(),
            );
        }
        wrong.extend(of_index.map(|mistake| format!("index.{mistake}")));
        let of_ledger = settings.ledger.iter().filter_map(LedgerSettings::mistake);
        wrong.extend(of_ledger.map(|mistake| format!("ledger.{mistake}")));
        if settings.ledger.is_some() && settings.index.is_none() {
            wrong.push(
                "ledger: expected `index`, too, because both are made of the same reports: set `index.region`"
                    .to_owned(),
            );
        }
        wrong.extend(BreakerSettings::mistakes(&settings.breakers, settings.ledger.is_some()));
        let of_incidents = settings.incidents.iter().filter_map(IncidentSettings::mistake);
        wrong.extend(of_incidents.map(|mistake| format!("incidents.{mistake}")));
        wrong.extend(settings.log.mistakes().into_iter().map(|mistake| format!("log.{mistake}")));
        let sections =
            [("health_check", settings.health_check), ("load", settings.load), ("insecure_dev", settings.insecure_dev)];
        if settings.regions.is_some() {
            settings.probing = probing(text, path).map_err(|mistakes| wrong.extend(mistakes)).ok();
        } else if let Some((section, _)) = sections.iter().find(|(_, section)| section.is_some()) {
            wrong.push(format!("{section}: without `regions` a hub probes nothing: list them, or remove this"));
        }
        wrong.extend(settings.index.iter().flat_map(|index| unreachable(index, settings.probing.as_ref())));
        if wrong.is_empty() { Ok(settings) } else { Err(SettingsError::Rules(wrong)) }
    }

    /// The rules of access.
    #[must_use]
    pub fn access(&self) -> Access {
        Access::new(self.access.clone())
    }

    /// The log, as a sidecar's configuration has it.
    #[must_use]
    pub fn log(&self) -> Log {
        self.log.log()
    }
}

/// The key and the place of a mistake, without the lines of the file that the parser quotes: a secret pasted in place of a path must not be
/// shown.
fn shape_error(text: &str, error: &str) -> SettingsError {
    let first = error.lines().next().unwrap_or(error).trim_start_matches("error: ");
    SettingsError::Shape(match key_before(text, first) {
        Some(key) => format!("{key}: {first}"),
        None => first.to_owned(),
    })
}

/// The key whose value begins at the place that an error names as `line L column C`.
fn key_before<'t>(text: &'t str, error: &str) -> Option<&'t str> {
    let number = |name: &str| {
        let digits = error.split_once(name)?.1.split(|char: char| !char.is_ascii_digit()).next()?;
        digits.parse::<usize>().ok()?.checked_sub(1)
    };
    let before = text.lines().nth(number("line ")?)?.get(..number("column ")?)?;
    let key = before.trim_end_matches([' ', '"', '[', '{', '\'']).strip_suffix(':')?;
    let start = key.rfind(|char: char| !char.is_ascii_lowercase() && char != '_').map_or(0, |at| at + 1);
    key.get(start..)
}

#[cfg(test)]
mod tests {
    use super::super::limit_settings::Ttl;
    use super::*;

    const RIGHT: &str = "
listen: 0.0.0.0:8443
tls: { cert: hub.pem, key: hub.key, client_ca: clients.pem }
access:
  - { san: \"spiffe://example.org/sidecar/*\", role: sidecar }
  - { san: ann.example.org, role: operator, scopes: [read, operate] }
";

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        Settings::parse(text, Path::new("conf/hub.yaml"))
    }

    #[test]
    fn an_index_needs_a_record_that_lasts() {
        let index = "index: { region: us }\n";
        let wrong = parse(&format!("{RIGHT}{index}")).unwrap_err().to_string();
        assert!(wrong.contains("\nindex: a hub without `record.path`"), "{wrong}");
        assert!(parse(&format!("{RIGHT}{index}record: {{ path: hub.db }}\n")).is_ok());
    }

    #[test]
    fn copies_are_cancelled_only_by_a_hub_that_reaches_its_region_and_hears_all_others() {
        let with = |region: &str, regions: &str| {
            parse(&format!(
                "{RIGHT}record: {{ path: hub.db }}\nindex: {{ region: {region}, conflicts: cancel }}\n{regions}"
            ))
        };
        let regions = "regions: [{ id: a, url: \"https://a.example.com\", tls: { ca: a.pem } }]\n";
        let two = "regions: [{ id: a, url: \"https://a.example.com\", tls: { ca: a.pem } }, { id: b, url: \"https://b.example.com\", tls: { ca: b.pem } }]\n";
        assert!(with("a", regions).is_ok());
        for (region, regions, words) in [
            ("a", "", "cancel needs `regions` with a"),
            ("c", regions, "cancel needs `regions` with c"),
            ("a", two, "cancel needs the hub of each of the `regions` in `index.from`"),
        ] {
            let error = with(region, regions).unwrap_err().to_string();
            assert!(error.contains(&format!("\nindex.conflicts: {words}")), "{error}");
        }
        let from = "a, from: [{ region: b, urls: [\"https://h:1\"], tls: { ca: a, cert: b, key: c } }]";
        assert!(with(from, two).is_ok());
    }

    #[test]
    fn the_regions_are_read_as_those_of_a_sidecar_and_their_mistakes_name_key_and_line() {
        let regions = "regions: [{ id: a, url: \"https://a.example.com\", tls: { ca: a.pem } }]\nhealth_check: { interval: 3s }\n";
        let probing = parse(&format!("{RIGHT}{regions}")).unwrap().probing.unwrap();
        assert_eq!(probing.regions[0].tls.ca.as_deref(), Some(Path::new("conf/a.pem")));
        assert_eq!((probing.health_check.interval.as_secs(), probing.health_check.timeout.as_secs()), (3, 5));
        assert_eq!(parse(RIGHT).unwrap().probing, None);
        for (from, to, words) in [
            ("interval: 3s", "interval: soon", "health_check.interval (conf/hub.yaml:8)"),
            ("interval: 3s", "intervall: 3s", "did you mean interval?"),
            ("interval: 3s", "source: hub", "health_check.source: expected own"),
            ("id: a, ", "", "regions[0].id"),
            ("https:", "http:", "regions[0].url"),
            ("[{ id: a", "[{ id: 7, is: x", "regions[0].is"),
            ("regions: [", "regio: [", "regio"),
        ] {
            let error = parse(&format!("{RIGHT}{}", regions.replace(from, to))).unwrap_err().to_string();
            assert!(error.contains(words), "{to}: {error}");
        }
        let alone = parse(&format!("{RIGHT}health_check: {{ interval: 3s }}\n")).unwrap_err().to_string();
        assert!(alone.contains("health_check: without `regions`"), "{alone}");
    }

    #[test]
    fn tokens_are_read_and_their_mistakes_name_their_keys() {
        let tokens = "tokens: { jwks_file: k.json, issuer: \"https://sso\", audience: hub, scopes: { admins: [read, operate] } }\n";
        let read = parse(&format!("{RIGHT}{tokens}")).unwrap().tokens.unwrap();
        assert_eq!((read.scope_claim.as_str(), read.scopes["admins"].len()), ("scope", 2));
        assert_eq!(parse(RIGHT).unwrap().tokens, None);
        for (from, to, key) in [
            ("jwks_file: k.json, ", "", "jwks_file"),
            ("issuer: \"https://sso\", ", "", "issuer"),
            ("audience: hub, ", "", "audience"),
            ("https://sso", "https://sso#a", "tokens.issuer"),
            ("https://sso", "", "tokens.issuer"),
            ("audience: hub", "audience: \"a b\"", "tokens.audience"),
            ("scopes:", "scope_claim: \"\", scopes:", "tokens.scope_claim"),
            ("[read, operate]", "[]", "tokens.scopes"),
            ("{ admins: [read, operate] }", "{}", "tokens.scopes"),
            ("admins", "\"\"", "tokens.scopes"),
            ("[read, operate]", "[sidecar]", "admins"),
            ("issuer:", "issuers:", "issuers"),
        ] {
            let error = parse(&format!("{RIGHT}{}", tokens.replace(from, to))).unwrap_err().to_string();
            assert!(error.contains(key), "{to}: {error}");
        }
    }

    #[test]
    fn a_short_file_is_enough() {
        let settings = parse(RIGHT).unwrap();
        assert_eq!((settings.admin.port(), settings.record.path.is_none(), settings.access.len()), (9465, true, 2));
    }

    #[test]
    fn limits_need_a_record_that_outlives_the_hub_and_their_mistakes_name_their_key() {
        let with = |limits: &str, record: &str| parse(&format!("{RIGHT}{record}limits: [{limits}]\n"));
        let (right, record) = ("{ region: a, calls: 7 }", "record: { path: hub.db }\n");
        assert_eq!(with(right, record).unwrap().limits[0].ttl, Ttl::default());
        for (limits, record, words) in [
            (right, "", "limits: a hub without `record.path`"),
            ("{ region: a, calls: 0 }", record, "limits[0].calls"),
            ("{ region: a, calls: 7, ttl: 1s }", record, "limits[0].ttl"),
            ("{ region: a, calls: 7 }, { region: a, calls: 8 }", record, "limits[1].region"),
            ("{ region: a, calls: 7, ttl: soon }", record, "expected a duration"),
        ] {
            let error = with(limits, record).unwrap_err().to_string();
            assert!(error.contains(words), "{limits}: {error}");
        }
    }

    #[test]
    fn every_mistake_names_its_key() {
        for (from, to, key) in [
            ("listen: 0.0.0.0:8443", "listen: here", "listen"),
            ("key: hub.key, ", "", "key"),
            ("client_ca:", "clients:", "clients"),
            ("role: sidecar", "role: guest", "role"),
            ("scopes: [read, operate]", "scopes: [all]", "scopes"),
            ("scopes: [read, operate]", "scopes: []", "access[1].scopes"),
            ("ann.example.org", "\"\"", "access[1].san"),
            ("role: sidecar }", "role: sidecar, scopes: [read] }", "access[0].scopes"),
            ("role: operator,", "role: operator, region: a,", "access[1].region"),
        ] {
            let error = parse(&RIGHT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(key), "{to}: {error}");
        }
        let error = parse(&format!("{RIGHT}log: {{ level: loud, format: xml }}\n")).unwrap_err().to_string();
        assert!(error.contains("log.level") && error.contains("log.format"), "{error}");
    }
}
