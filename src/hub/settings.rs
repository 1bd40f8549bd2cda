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
use super::uwer_settings::UwerSettings;
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
    /// The central store of UWER; none where this hub is none.
    pub uwer: Option<UwerSettings>,
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
        let of_index = of_index.chain(settings.uwer.iter_mut().map(|uwer| &mut uwer.key_file));
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
        wrong.extend(settings.uwer.iter().flat_map(|uwer| uwer.mistakes(is_durable)));
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
mod tests;
