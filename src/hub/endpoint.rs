//! The paths of a hub, and the right that each needs.

use http::Method;

use super::access::{Need, Scope};
use super::put_quotas::QUOTAS_BYTES_MAX;
use super::replay_desk::REPLAY_BYTES_MAX;
use crate::config::PUT_POOL_BYTES_MAX;
use crate::fleet::{
    BODIES_REQUEST_BYTES_MAX, CHANGES_BYTES_MAX, FIGURES_BYTES_MAX, GRANTS_BYTES_MAX, KEY_BYTES_MAX, LETTER_BYTES_MAX,
    REPORTS_BYTES_MAX, STATUS_BYTES_MAX, TASK_BYTES_MAX,
};
use crate::policy::QUESTION_BYTES_MAX;
use crate::region::discovery::PUT_REGION_BYTES_MAX;
use crate::switch::{DrillReport, ThrottleRequest};

/// Before the tracking id of a job in a path.
pub(super) const JOBS: &str = "/v1/federation/jobs/";
/// Before the id of a job of the ledger in a path. Spec: source-job-orchestrator §4.
pub(super) const LEDGER_JOBS: &str = "/api/jobs/";
/// Before the name of a tenant in a path.
pub(super) const TENANTS: &str = "/api/ledger/tenants/";
/// Before the name of a promotion in a path.
pub(super) const PROMOTIONS: &str = "/v1/hub/promotions/";
/// Before the name of a failover drill in a path.
pub(super) const DRILLS: &str = "/v1/hub/drills/";
/// Before the id of a region in a path. Spec: RFC-0001 §3.
pub(super) const REGIONS: &str = "/v1/federation/regions/";
/// Before the name of a pool of workers in a path. Spec: fair-scheduling 10.1.
pub(super) const POOLS: &str = "/ojs/v1/admin/pools/";

/// Before the name of a replay in a path.
pub(super) const REPLAYS: &str = "/api/replays/";
/// Behind the name of a replay: its manifest.
pub(super) const MANIFEST: &str = "/manifest";

/// Before the name of an incident in a path.
pub(super) const INCIDENTS: &str = "/api/incidents/";

/// Before the name of a dead letter in a path.
pub(super) const LETTERS: &str = "/v1/hub/uwer/letters/";

/// An endpoint of a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// `GET /v1/hub/feed`: events for one sidecar.
    Feed,
    /// `PUT /v1/hub/status`: the state of one sidecar.
    Status,
    /// `POST /v1/hub/reports`: outcomes of one sidecar.
    Reports,
    /// `POST /v1/hub/grants`: parts of fleet limits for one sidecar.
    Grants,
    /// `GET /v1/hub/limits`: fleet limits and their holders.
    Limits,
    /// `PUT /v1/hub/figures`: the figures of one sidecar's pools.
    TakeFigures,
    /// `GET /v1/hub/figures`: their sums.
    Figures,
    /// `POST /v1/hub/keys/claim`: a key for one call of one sidecar.
    ClaimKey,
    /// `POST /v1/hub/keys/settle`: its end.
    SettleKey,
    /// `POST /v1/hub/uwer/claim`: a task of UWER for one call of one sidecar.
    ClaimTask,
    /// `POST /v1/hub/uwer/settle`: the end of its claim.
    SettleTask,
    /// `GET /v1/hub/uwer/tasks`: the tasks of a workflow, or the task of a job.
    UwerTasks,
    /// `POST /v1/hub/uwer/letters`: a document that was refused.
    KeepLetter,
    /// `GET /v1/hub/uwer/letters`: those that there are.
    Letters,
    /// `GET /v1/hub/uwer/letters/{id}`: one of them.
    Letter,
    /// `DELETE /v1/hub/uwer/letters/{id}`.
    DropLetter,
    /// `GET /v1/hub/outcomes`: those of all.
    Outcomes,
    /// `GET /v1/hub/sidecars`: the inventory.
    Sidecars,
    /// `GET /v1/hub/switches`.
    Switches,
    /// `PUT /v1/hub/switches`.
    SetSwitch,
    /// `DELETE /v1/hub/switches`.
    EndSwitch,
    /// `POST /api/limits/throttle`: the same in the words of an orchestrator.
    Throttle,
    /// `POST /v1/hub/changes`: facts about jobs, of one sidecar.
    Changes,
    /// `POST /v1/hub/bodies`: the bytes of jobs, of one sidecar.
    TakeBodies,
    /// `GET /v1/hub/bodies`: the bytes of jobs, for the hub of another region.
    ShowBodies,
    /// `GET /v1/hub/index`: facts about jobs, for the hub of another region.
    Index,
    /// `GET /v1/hub/copies`: the present state of one job in this region, for the hub of another region.
    Copy,
    /// `GET /v1/federation/jobs/{federation_id}`, or with `?job_id=`: the record of a job; with `?region=`, the jobs of one region.
    Job,
    /// `POST /v1/hub/promotions`: an order to take over the jobs of a lost region.
    Promote,
    /// `GET /v1/hub/promotions`: all of them.
    Promotions,
    /// `GET /v1/hub/promotions/{id}`: one with its jobs.
    Promotion,
    /// `DELETE /v1/hub/promotions/{id}`: its end.
    StopPromotion,
    /// `POST /v1/hub/drills`: an order for a failover drill.
    OrderDrill,
    /// `GET /v1/hub/drills`: all of them.
    Drills,
    /// `GET /v1/hub/drills/{id}`: the report of one.
    Drill,
    /// `DELETE /v1/hub/drills/{id}`: its end.
    StopDrill,
    /// `PUT /v1/hub/drill`: the counts of one sidecar.
    TakeDrill,
    /// `POST /v1/federation/route`: where a job would go by this hub's view of the regions.
    Route,
    /// `GET /v1/federation/regions`: those that operators have put here.
    Regions,
    /// `PUT /v1/federation/regions/{id}`.
    PutRegion,
    /// `DELETE /v1/federation/regions/{id}`.
    DeleteRegion,
    /// `GET /ojs/v1/admin/pools`: the pools of workers that operators have put here.
    Pools,
    /// `GET /ojs/v1/admin/pools/{name}`.
    Pool,
    /// `PUT /ojs/v1/admin/pools/{name}`.
    PutPool,
    /// `DELETE /ojs/v1/admin/pools/{name}`.
    DeletePool,
    /// `GET /api/jobs`: the jobs of the ledger.
    LedgerJobs,
    /// `GET /api/jobs/{id}`: one of them with its history.
    LedgerJob,
    /// `GET /api/ledger/days`: how many records each day has.
    LedgerDays,
    /// `GET /api/ledger/history`: the records of a day.
    LedgerHistory,
    /// `GET /api/ledger/heads`: a signed head over the records of a day.
    LedgerHead,
    /// `GET /api/dashboard/metrics`: the figures of the ledger.
    Dashboard,
    /// `GET /api/dashboard/feed`: the same as server-sent events.
    DashboardFeed,
    /// `DELETE /api/ledger/tenants/{tenant}`: erases a tenant from the ledger.
    ForgetTenant,
    /// `POST /api/jobs/{id}/cancel`: an order to cancel a job in its region.
    CancelJob,
    /// `POST /api/jobs/{id}/replay`: an order to run a job again in its region.
    ReplayJob,
    /// `POST /api/replays`: the same for many jobs.
    OrderReplay,
    /// `GET /api/replays`: all of them.
    Replays,
    /// `GET /api/replays/{id}`: one with its jobs.
    Replay,
    /// `GET /api/replays/{id}/manifest`: the proof of one.
    ReplayManifest,
    /// `DELETE /api/replays/{id}`: its end.
    StopReplay,
    /// `GET /api/quotas`: the quotas that operators have put here, with their use.
    Quotas,
    /// `PUT /api/quotas`: the whole set of them.
    PutQuotas,
    /// `GET /v1/hub/audit`.
    Audit,
    /// `GET /v1/hub/audit/head`: a signed head of the audit trail.
    AuditHead,
    /// `GET /api/incidents`: the incidents of breakers of job types.
    Incidents,
    /// `GET /api/incidents/ID`: one of them.
    Incident,
    /// `POST /api/incidents/ID/close`: closes one, and its breaker.
    CloseIncident,
}

/// The methods of a path where another one was asked for; none where the path does not exist.
pub(super) type NoEndpoint = Option<&'static str>;

/// Whether a path is `/api/replays/{id}/manifest`; a replay may have the name `manifest`.
fn is_manifest(path: &str) -> bool {
    path.strip_prefix(REPLAYS).is_some_and(|rest| rest.strip_suffix(MANIFEST).is_some_and(|id| !id.is_empty()))
}

impl Endpoint {
    /// The endpoint of a request.
    ///
    /// Errors: [`NoEndpoint`].
    pub(super) fn of(method: &Method, path: &str) -> Result<Self, NoEndpoint> {
        let methods: &[(Method, Self)] = match path {
            "/v1/hub/feed" => &[(Method::GET, Self::Feed)],
            "/v1/hub/status" => &[(Method::PUT, Self::Status)],
            "/v1/hub/reports" => &[(Method::POST, Self::Reports)],
            "/v1/hub/grants" => &[(Method::POST, Self::Grants)],
            "/v1/hub/limits" => &[(Method::GET, Self::Limits)],
            "/v1/hub/figures" => &[(Method::GET, Self::Figures), (Method::PUT, Self::TakeFigures)],
            "/v1/hub/keys/claim" => &[(Method::POST, Self::ClaimKey)],
            "/v1/hub/keys/settle" => &[(Method::POST, Self::SettleKey)],
            "/v1/hub/uwer/claim" => &[(Method::POST, Self::ClaimTask)],
            "/v1/hub/uwer/settle" => &[(Method::POST, Self::SettleTask)],
            "/v1/hub/uwer/tasks" => &[(Method::GET, Self::UwerTasks)],
            "/v1/hub/uwer/letters" => &[(Method::GET, Self::Letters), (Method::POST, Self::KeepLetter)],
            _ if path.starts_with(LETTERS) => &[(Method::GET, Self::Letter), (Method::DELETE, Self::DropLetter)],
            "/v1/hub/outcomes" => &[(Method::GET, Self::Outcomes)],
            "/v1/hub/sidecars" => &[(Method::GET, Self::Sidecars)],
            "/v1/hub/switches" => {
                &[(Method::GET, Self::Switches), (Method::PUT, Self::SetSwitch), (Method::DELETE, Self::EndSwitch)]
            }
            "/v1/hub/changes" => &[(Method::POST, Self::Changes)],
            "/v1/hub/bodies" => &[(Method::POST, Self::TakeBodies), (Method::GET, Self::ShowBodies)],
            "/v1/hub/index" => &[(Method::GET, Self::Index)],
            "/v1/hub/copies" => &[(Method::GET, Self::Copy)],
            "/v1/federation/route" => &[(Method::POST, Self::Route)],
            "/v1/federation/regions" => &[(Method::GET, Self::Regions)],
            _ if path.starts_with(REGIONS) => &[(Method::PUT, Self::PutRegion), (Method::DELETE, Self::DeleteRegion)],
            "/ojs/v1/admin/pools" => &[(Method::GET, Self::Pools)],
            _ if path.starts_with(POOLS) => {
                &[(Method::GET, Self::Pool), (Method::PUT, Self::PutPool), (Method::DELETE, Self::DeletePool)]
            }
            "/v1/federation/jobs" => &[(Method::GET, Self::Job)],
            _ if path.starts_with(JOBS) => &[(Method::GET, Self::Job)],
            "/v1/hub/promotions" => &[(Method::GET, Self::Promotions), (Method::POST, Self::Promote)],
            _ if path.starts_with(PROMOTIONS) => {
                &[(Method::GET, Self::Promotion), (Method::DELETE, Self::StopPromotion)]
            }
            "/v1/hub/drill" => &[(Method::PUT, Self::TakeDrill)],
            "/v1/hub/drills" => &[(Method::GET, Self::Drills), (Method::POST, Self::OrderDrill)],
            _ if path.starts_with(DRILLS) => &[(Method::GET, Self::Drill), (Method::DELETE, Self::StopDrill)],
            _ if path.starts_with("/api/") => Self::of_orchestrator(path),
            "/v1/hub/audit" => &[(Method::GET, Self::Audit)],
            "/v1/hub/audit/head" => &[(Method::GET, Self::AuditHead)],
            _ => &[],
        };
        if methods.is_empty() {
            return Err(None);
        }
        let found = methods.iter().find(|(of, _)| of == method).map(|&(_, endpoint)| endpoint);
        found.ok_or(Some(match path {
            "/v1/hub/status" | "/v1/hub/drill" => "PUT",
            "/v1/hub/reports" | "/v1/hub/grants" | "/v1/hub/keys/claim" | "/v1/hub/keys/settle" => "POST",
            "/v1/hub/uwer/claim" | "/v1/hub/uwer/settle" => "POST",
            "/v1/hub/changes" | "/v1/federation/route" => "POST",
            _ if path.starts_with("/api/") => Self::methods_of_orchestrator(path),
            "/v1/hub/bodies" | "/v1/hub/uwer/letters" => "GET, POST",
            "/v1/hub/figures" => "GET, PUT",
            "/v1/hub/switches" => "GET, PUT, DELETE",
            "/v1/hub/promotions" | "/v1/hub/drills" => "GET, POST",
            _ if [PROMOTIONS, DRILLS, LETTERS].iter().any(|of| path.starts_with(of)) => "GET, DELETE",
            _ if path.starts_with(REGIONS) => "PUT, DELETE",
            _ if path.starts_with(POOLS) => "GET, PUT, DELETE",
            _ => "GET",
        }))
    }

    /// The endpoints of a path in the words of an orchestrator. Spec: source-job-orchestrator §4.
    fn of_orchestrator(path: &str) -> &'static [(Method, Self)] {
        match path {
            "/api/limits/throttle" => &[(Method::POST, Self::Throttle)],
            "/api/quotas" => &[(Method::GET, Self::Quotas), (Method::PUT, Self::PutQuotas)],
            "/api/replays" => &[(Method::GET, Self::Replays), (Method::POST, Self::OrderReplay)],
            _ if is_manifest(path) => &[(Method::GET, Self::ReplayManifest)],
            _ if path.starts_with(REPLAYS) => &[(Method::GET, Self::Replay), (Method::DELETE, Self::StopReplay)],
            "/api/jobs" => &[(Method::GET, Self::LedgerJobs)],
            "/api/incidents" => &[(Method::GET, Self::Incidents)],
            _ if path.starts_with(INCIDENTS) && path.ends_with("/close") => &[(Method::POST, Self::CloseIncident)],
            _ if path.starts_with(INCIDENTS) => &[(Method::GET, Self::Incident)],
            "/api/dashboard/metrics" => &[(Method::GET, Self::Dashboard)],
            "/api/dashboard/feed" => &[(Method::GET, Self::DashboardFeed)],
            "/api/ledger/days" => &[(Method::GET, Self::LedgerDays)],
            "/api/ledger/history" => &[(Method::GET, Self::LedgerHistory)],
            "/api/ledger/heads" => &[(Method::GET, Self::LedgerHead)],
            _ if path.starts_with(TENANTS) => &[(Method::DELETE, Self::ForgetTenant)],
            _ => match path.strip_prefix(LEDGER_JOBS).map(|rest| rest.split_once('/')) {
                Some(None) => &[(Method::GET, Self::LedgerJob)],
                Some(Some((_, "cancel"))) => &[(Method::POST, Self::CancelJob)],
                Some(Some((_, "replay"))) => &[(Method::POST, Self::ReplayJob)],
                _ => &[],
            },
        }
    }

    fn methods_of_orchestrator(path: &str) -> &'static str {
        match path {
            "/api/quotas" => "GET, PUT",
            "/api/replays" => "GET, POST",
            _ if is_manifest(path) => "GET",
            _ if path.starts_with(REPLAYS) => "GET, DELETE",
            _ if path.starts_with(TENANTS) => "DELETE",
            "/api/limits/throttle" => "POST",
            _ if ["/cancel", "/replay", "/close"].iter().any(|end| path.ends_with(end)) => "POST",
            _ => "GET",
        }
    }

    /// The longest body that a request may have. Units: bytes.
    pub(super) const fn body_bytes_max(self) -> usize {
        match self {
            Self::Status => STATUS_BYTES_MAX,
            Self::Reports => REPORTS_BYTES_MAX,
            Self::Grants => GRANTS_BYTES_MAX,
            Self::TakeFigures => FIGURES_BYTES_MAX,
            Self::ClaimKey | Self::SettleKey => KEY_BYTES_MAX,
            Self::ClaimTask | Self::SettleTask => TASK_BYTES_MAX,
            Self::KeepLetter => LETTER_BYTES_MAX,
            Self::Changes => CHANGES_BYTES_MAX,
            Self::TakeBodies => BODIES_REQUEST_BYTES_MAX,
            Self::Route => QUESTION_BYTES_MAX,
            Self::Throttle | Self::CancelJob | Self::ReplayJob | Self::CloseIncident => ThrottleRequest::BYTES_MAX,
            Self::OrderReplay => REPLAY_BYTES_MAX,
            Self::TakeDrill => DrillReport::BYTES_MAX,
            Self::PutRegion => PUT_REGION_BYTES_MAX,
            Self::PutPool => PUT_POOL_BYTES_MAX,
            Self::PutQuotas => QUOTAS_BYTES_MAX,
            _ => 0,
        }
    }

    /// The right that a client needs.
    pub(super) const fn need(self) -> Need {
        match self {
            Self::Feed
            | Self::Status
            | Self::Reports
            | Self::Grants
            | Self::TakeFigures
            | Self::TakeDrill
            | Self::ClaimKey
            | Self::SettleKey
            | Self::ClaimTask
            | Self::SettleTask
            | Self::KeepLetter
            | Self::Changes
            | Self::TakeBodies => Need::Sidecar,
            Self::Index | Self::ShowBodies | Self::Copy => Need::Hub,
            Self::Job
            | Self::Route
            | Self::Regions
            | Self::Pools
            | Self::Pool
            | Self::Figures
            | Self::Quotas
            | Self::UwerTasks => Need::Reader,
            Self::Sidecars
            | Self::Switches
            | Self::Outcomes
            | Self::Limits
            | Self::Promotions
            | Self::Promotion
            | Self::Drills
            | Self::Drill
            | Self::LedgerJobs
            | Self::LedgerJob
            | Self::Dashboard
            | Self::DashboardFeed
            | Self::Replays
            | Self::Replay
            | Self::Incidents
            | Self::Incident
            | Self::Letters => Need::Operator(Scope::Read),
            Self::SetSwitch
            | Self::EndSwitch
            | Self::Throttle
            | Self::Promote
            | Self::StopPromotion
            | Self::OrderDrill
            | Self::StopDrill
            | Self::PutRegion
            | Self::DeleteRegion
            | Self::PutPool
            | Self::DeletePool
            | Self::ForgetTenant
            | Self::CancelJob
            | Self::ReplayJob
            | Self::Letter
            | Self::DropLetter
            | Self::CloseIncident => Need::Operator(Scope::Operate),
            Self::OrderReplay | Self::StopReplay => Need::Operator(Scope::Backfill),
            Self::PutQuotas => Need::Operator(Scope::Quota),
            Self::LedgerDays
            | Self::LedgerHistory
            | Self::LedgerHead
            | Self::ReplayManifest
            | Self::Audit
            | Self::AuditHead => Need::Operator(Scope::Audit),
        }
    }
}
