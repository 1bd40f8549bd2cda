//! Where a request goes.

/// Which regions a request concerns, and so which file of the proxy serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One job, to the region that routing chooses.
    Enqueue,
    /// Several jobs, all or none.
    Batch,
    /// Several jobs, each with its own result.
    Bulk,
    /// A cron definition or a workflow, whole to one region.
    Define,
    /// One job, to the region that holds it.
    Owner(IdAt),
    /// Several jobs, named by ids or by a filter, to the regions that hold them.
    ByIds,
    /// A worker asks for jobs: the local region first.
    Fetch,
    /// A worker is alive: every region that it holds jobs of.
    Heartbeat,
    /// A list, merged over the regions.
    List(Paging),
    /// Figures or counts, summed over the regions.
    Sum,
    /// Figures of one queue, summed over the regions.
    QueueStats,
    /// A change of one queue, made in every region.
    QueueControl,
    /// The settings of a queue, read in one region and written to all.
    QueueDefinition,
    /// One worker, in the regions that know it.
    Worker,
    /// A cron definition by its name or a workflow by its id, in the region where it lives.
    Named,
    /// Read in one region, written to all.
    AllRegions,
    /// Pools of workers: answered by us where they are configured here, else by the local region.
    Scheduling,
    /// The local region.
    Local,
    /// The event stream that SDKs ask for.
    EventStream,
    /// A WebSocket to the local region.
    Tunnel,
    /// The manifest of the local region, with the federation's additions.
    Manifest,
    /// The health of the federation, answered by us.
    Health,
    /// The federation API, answered by us.
    Ours,
}

/// Where a request names its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdAt {
    /// In the path.
    Path,
    /// In the member `job_id` of the body.
    Body,
}

/// How a list is paged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Paging {
    /// `limit` with `offset` or an opaque `cursor`.
    Offset,
    /// `page` and `per_page`.
    Page,
    /// `limit` and `after`, an opaque cursor.
    After,
    /// Few items with names, which are united: the same name in two regions is one item.
    Names,
}
