//! The second role of the program, `ojs-sidecar hub`: state that outlives and spans the sidecars. No job passes it, but for
//! the fingerprint of an `Idempotency-Key` where sidecars share them.
//!
//! - [`Settings`] are read from a file of their own.
//! - `access` has the rights of clients, by the names in the client's certificate; `tokens` those of operators by their tokens, and
//!   `credentials` decides between the two.
//! - `record` keeps switches, the audit trail and the inventory in SQLite or PostgreSQL; `audit` chains the rows of the trail, `audit_log` signs it, and `audit_heads` shows the signatures.
//! - `state` has the present switches and sidecars in memory; `feed` carries them to sidecars. `figures` sums those of their pools.
//! - `regions` takes the regions that operators put at the hub for the discovery of sidecars; `registry` has them.
//! - `pools` takes the pools of workers that operators put at the hub for all sidecars; `put_pools` has them.
//! - `quotas` takes the quotas that operators put at the hub, which `put_quotas` has, and grants tokens of them by the ledgers of `quota_desk`; `active_quotas` shows those that bound active jobs.
//! - `limits` divides fleet limits among sidecars, which ask by `grants`.
//! - `keys` has the `Idempotency-Key`s that sidecars share.
//! - `isolations` takes over the isolations of other hubs, which `taken` has; `returning` holds feeds back at the start until these were heard.
//! - `jobs` takes the facts that sidecars report of jobs for the `index`, and `pulling` those of other regions from their hubs.
//! - `events` takes facts from the event streams of the hub's region, too, for the jobs that no sidecar saw.
//! - `bodies` takes the bytes of jobs that sidecars report for the `body_store`, and `pulling_bodies` those of other regions.
//! - `ledger` keeps the history of jobs from the same reports, and shows and signs it; `ledger_desk` has its present state, `ledger_figures` its figures.
//! - `conflicts` reports or cancels the copies of this hub's region that count less than a copy elsewhere.
//! - `promotion` takes over the jobs of a lost region from the replicas that `bodies` keeps.
//! - `replay` cancels jobs and runs them again by the orders of operators, one or many; `replay_desk` has its bounds and figures.
//! - `breakers` stops job types whose jobs fail, and keeps an `incident` of each; `breaker_desk` has the ends of jobs and the open incidents.
//! - `uwer` is the central store of tasks of the legacy orchestration UWER.
//! - `drill` has failover drills; `drill_desk` has the last one, and `drill_order` is its row of the record.
//! - `routing` answers the questions of spokes about jobs by these views.
//! - `views` probes regions for all sidecars, by the sections that `probing` reads.
//! - `serve` has the sockets, `endpoint` the table of paths, `answer` the answers.
//!
//! Plane: control. All of it runs on one thread, and SQLite on another.

mod access;
mod active_quotas;
mod admin;
mod answer;
mod audit;
mod audit_heads;
mod audit_log;
mod audit_settings;
mod bodies;
mod body_settings;
mod body_store;
mod breaker_desk;
mod breaker_settings;
mod breakers;
mod conflict_counts;
mod conflicts;
mod copies;
mod credentials;
mod cursor;
mod drill;
mod drill_desk;
mod drill_order;
mod endpoint;
mod event_counts;
mod event_settings;
mod events;
mod feed;
mod figures;
mod fleet;
mod follow;
mod grants;
mod identity;
mod incident;
mod index;
mod index_reach;
mod index_settings;
mod isolations;
mod jobs;
mod keys;
mod lag;
mod ledger;
mod ledger_desk;
mod ledger_figures;
mod ledger_metrics;
mod ledger_settings;
mod ledger_step;
mod limit_settings;
mod limits;
mod log_settings;
mod name;
mod outcomes;
mod pools;
mod postgres_settings;
mod probing;
mod promotion;
mod pulling;
mod pulling_bodies;
mod put_pools;
mod put_quotas;
mod quota_desk;
mod quota_members;
mod quotas;
mod record;
mod regions;
mod registry;
mod replay;
mod replay_desk;
mod replicas;
mod response;
mod returning;
mod routing;
mod run;
mod serve;
mod settings;
mod sidecar_request;
mod state;
mod switches;
mod taken;
mod target;
mod tokens;
mod twins;
mod uwer;
mod uwer_settings;
mod uwer_store;
mod views;

pub use audit::{AuditRow, ChainError, LEDGER_CLOSED, Verified, verify};
pub use audit_log::AuditKeyError;
pub use audit_settings::AuditSettings;
pub use body_store::BodiesError;
pub use breaker_settings::{BreakerSettings, IncidentSettings, WebhookSettings};
pub use identity::IdentityError;
pub use ledger::{HistoryRow, JobStatus, Outline, day_text, read_day};
pub use ledger_settings::LedgerSettings;
pub use ledger_step::Step;
pub use limit_settings::LimitSettings;
pub use postgres_settings::{PostgresSettings, PostgresTls};
pub use record::{PostgresError, RecordError};
pub use replay::NotedManifest;
pub use run::{Bound, RunError, bind, check, migrate};
pub use serve::{CONNECTIONS_MAX, DESCRIPTORS};
pub use settings::{Settings, SettingsError};
pub use tokens::{KeysError, TokenSettings};
