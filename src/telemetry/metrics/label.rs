//! The closed sets of label values, and arrays indexed by them.

use std::marker::PhantomData;
use std::ops::Index;

use crate::base::{RefusalReason, Strategy, SwitchKind, words};

/// One value out of a closed set, usable as an index.
pub trait Label: Copy {
    /// Its place in the set.
    fn index(self) -> usize;
}

/// Classes are numbered by their owner, so that a class is its number here.
impl Label for usize {
    fn index(self) -> usize {
        self
    }
}

impl Label for RefusalReason {
    fn index(self) -> usize {
        self as usize
    }
}

impl Label for SwitchKind {
    fn index(self) -> usize {
        self as usize
    }
}

impl Label for Strategy {
    fn index(self) -> usize {
        Self::index(self)
    }
}

/// One cell for each value of a label: `cells[AttemptOutcome::Unknown]`.
pub struct Cells<L, T> {
    cells: Box<[T]>,
    label: PhantomData<fn(L)>,
}

impl<L: Label, T> Cells<L, T> {
    /// Makes a cell for each of the label's values, which come in the order of their numbers.
    pub(super) fn each<V>(values: impl IntoIterator<Item = V>, cell: impl FnMut(V) -> T) -> Self {
        Self { cells: values.into_iter().map(cell).collect(), label: PhantomData }
    }
}

impl<L: Label, T> Index<L> for Cells<L, T> {
    type Output = T;

    // A label is a closed enum or a class number that was counted when the cells were made.
    fn index(&self, label: L) -> &T {
        &self.cells[label.index()]
    }
}

impl<L, T: Clone> Clone for Cells<L, T> {
    fn clone(&self) -> Self {
        Self { cells: self.cells.clone(), label: PhantomData }
    }
}

impl<L, T> std::fmt::Debug for Cells<L, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cells", self.cells.len())
    }
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($values:tt)+ })+) => {
        words! { $($(#[$doc])* $name { $($values)+ })+ }

        $(impl Label for $name {
            fn index(self) -> usize {
                self as usize
            }
        })+
    };
}

mod discovery;
mod drill;
mod quota;

pub use discovery::{DiscoveryChange, DiscoveryLook, DiscoveryRejection, DiscoverySource, DiscoveryState};
pub use drill::DrillJob;
pub use quota::SlotLack;

labels! {
    /// How one try at one region ended.
    AttemptOutcome {
        /// No byte of the request was written.
        NotSent = "not_sent",
        /// The region answered, with any status.
        Answered = "answered",
        /// Bytes were written and no trustworthy answer came.
        Unknown = "unknown",
    }

    /// The class of a client's status.
    StatusClass {
        /// 1xx: an upgrade.
        Informational = "1xx",
        /// 2xx.
        Success = "2xx",
        /// 3xx.
        Redirection = "3xx",
        /// 4xx.
        ClientError = "4xx",
        /// 5xx.
        ServerError = "5xx",
        /// Nothing: the client went away first.
        Vanished = "vanished",
    }

    /// How the region of a job was found.
    LookupResult {
        /// It was remembered.
        Known = "known",
        /// The regions were asked, and one has the job.
        Found = "found",
        /// The regions were asked, and each said that it does not have the job.
        Nowhere = "nowhere",
        /// No region has the job, and not every region answered.
        Unsure = "unsure",
    }

    /// The open question about a job's fate.
    OpenFate {
        /// The outcome is unknown, and the client did not get a success.
        Unknown = "unknown",
        /// Its client knows; a late copy is looked for, or one is being cancelled.
        Watched = "watched",
    }

    /// The resolution of an unknown outcome.
    Resolution {
        /// The region was asked within the call, and has it.
        Found = "found",
        /// The region was asked later, and has it.
        Landed = "landed",
        /// The region does not have it, and cannot store it any more.
        Absent = "absent",
        /// The job had gone elsewhere, too; the copy that had not started was cancelled.
        Cancelled = "cancelled",
        /// The job had gone elsewhere, too, and both copies ran.
        Doubled = "doubled",
        /// The outcome stayed unknown for so long that no region is asked any more.
        Expired = "expired",
        /// An operator has decided it.
        Decided = "decided",
    }

    /// The name by which a repetition was recognised.
    ReplayBy {
        /// The client's own job id.
        JobId = "job_id",
        /// The header `Idempotency-Key`.
        Key = "idempotency_key",
    }

    /// The fate of an `Idempotency-Key` that all sidecars know.
    HubKey {
        /// Its job was sent under it.
        Claimed = "claimed",
        /// Another sidecar had stored its job, which is the answer.
        Stored = "stored",
        /// Another sidecar has it and is not known to have ended: its outcome is unknown.
        Held = "held",
        /// The hub was away, and the job was sent under a key of this sidecar alone.
        Local = "local",
        /// The hub was away, and nothing was sent.
        Refused = "refused",
        /// A job was stored under it here, and another sidecar had claimed it while the hub was away.
        Doubled = "doubled",
    }

    /// The end of a question to the hub about a job.
    HubQuestion {
        /// The hub has answered it.
        Answered = "answered",
        /// An answer was in force, and nothing was sent.
        Cached = "cached",
        /// The hub takes no such question.
        Refused = "refused",
        /// No answer came within `hub.decide_wait`, or the connection was lost.
        NoAnswer = "no_answer",
        /// Not sent: there was no connection.
        NotConnected = "not_connected",
        /// Not sent: the hub gave no answer within the last second, or too many questions wait.
        LeftAlone = "left_alone",
    }

    /// The result of a record for the journal.
    JournalWrite {
        /// On disk.
        Durable = "durable",
        /// Not on disk in time; it may be there by now.
        Late = "late",
        /// In memory only, although there is a file.
        Failed = "failed",
        /// In memory only, because no file is configured.
        Memory = "memory",
    }

    /// The record that made room in a full journal.
    JournalEviction {
        /// An unknown outcome.
        Pending = "pending",
        /// An outcome that was cleared up.
        Resolved = "resolved",
        /// A key that was not too old.
        Key = "key",
    }

    /// The state of a job in the outage spool.
    SpoolFate {
        /// It waits for a region, or is on its way.
        Waiting = "waiting",
        /// A region, or the sidecar itself, refuses it.
        Refused = "refused",
        /// It was too old before any region took it.
        Expired = "expired",
        /// Its content cannot be read.
        Damaged = "damaged",
    }

    /// The way of a job through the outage spool.
    SpoolResult {
        /// It was stored.
        Stored = "stored",
        /// A region has it.
        Drained = "drained",
        /// Its client has cancelled it before it was sent.
        Cancelled = "cancelled",
        /// A region, or the sidecar itself, refused it.
        Refused = "refused",
        /// It was too old before any region took it.
        Expired = "expired",
        /// Its content cannot be read.
        Damaged = "damaged",
        /// An operator lets it wait again.
        Retried = "retried",
        /// An operator has set it aside.
        SetAside = "set_aside",
        /// An operator has deleted it.
        Discarded = "discarded",
    }

    /// The use of a job that another region handed out.
    RemoteFetch {
        /// A worker has it.
        Given = "given",
        /// It may not run here, and was left to its lease.
        Left = "left",
    }

    /// The use of a job whose worker had disconnected.
    KeptJob {
        /// It waits for the worker's next FETCH.
        Kept = "kept",
        /// The worker came back for it.
        Given = "given",
        /// Nothing could be kept; it comes back to its queue when its lease ends.
        Left = "left",
    }

    /// Why a job left a region for another.
    FailoverReason {
        /// The name did not resolve.
        Dns = "dns",
        /// The connection was refused, reset or unreachable.
        Connect = "connect",
        /// The TLS handshake failed, or the server has another identity.
        Tls = "tls",
        /// The connection did not come up in time.
        Timeout = "timeout",
        /// A kept connection was found closed before a byte was written.
        Closed = "closed",
        /// The region refused the stream before it read the request (HTTP/2).
        RefusedStream = "refused_stream",
        /// As many calls as it bears were under way there.
        Overloaded = "overloaded",
        /// The region said in an error document that it is unavailable.
        Unavailable = "unavailable",
        /// The job had been sent, and proved not to be there.
        Absent = "absent",
        /// The job had been sent, its outcome is unknown, and `failover.on_unknown` is `redirect`.
        Unknown = "unknown",
        /// The region's breaker was open when the job came.
        BreakerOpen = "breaker_open",
        /// The region's enqueues failed when the job came, while other calls may have worked.
        GuardOpen = "guard_open",
        /// The region was unhealthy when the job came.
        Unhealthy = "unhealthy",
        /// Nothing was heard from the region, or no connection came about before one to the next candidate.
        Silent = "silent",
    }

    /// The states of a circuit breaker; closed means that traffic flows.
    Breaker {
        /// Traffic flows.
        Closed = "closed",
        /// Nothing flows, probes included.
        Open = "open",
        /// One probe decides.
        HalfOpen = "half-open",
    }

    /// How a health probe ended.
    ProbeResult {
        /// 200 and an accepted status.
        Healthy = "healthy",
        /// An answer that says otherwise.
        Unhealthy = "unhealthy",
        /// No answer in time.
        Timeout = "timeout",
        /// No connection.
        Failed = "failed",
    }

    /// How the making of a connection to a region ended.
    ConnectResult {
        /// Established, TLS included.
        Established = "established",
        /// No address to dial.
        Dns = "dns",
        /// Refused or unreachable.
        Refused = "refused",
        /// The TLS handshake failed, or the server has another identity.
        Tls = "tls",
        /// Not done in time.
        Timeout = "timeout",
    }

    /// The state of a pooled connection.
    PoolState {
        /// Waiting for a request.
        Idle = "idle",
        /// Carrying at least one request.
        Busy = "busy",
    }

    /// The owner of the certificate.
    CertificateKind {
        /// The one that we show the region.
        Client = "client",
        /// The first of our trust roots for the region to expire.
        Ca = "ca",
        /// The one that the region showed last.
        Server = "server",
    }

    /// The thing that was loaded again while the program runs.
    ReloadKind {
        /// The configuration.
        Configuration = "configuration",
        /// The certificates, keys, roots and token of one region.
        Identity = "identity",
    }

    /// The result of loading it.
    ReloadResult {
        /// It is in force.
        Applied = "applied",
        /// It cannot be used; the former state stays in force.
        Refused = "refused",
    }

    /// Why a request head was not accepted.
    HeadRejection {
        /// It breaks the grammar, or could be read two ways.
        Malformed = "malformed",
        /// Too many bytes or lines.
        TooLarge = "too_large",
        /// It did not end in time.
        Timeout = "timeout",
        /// Not HTTP/1.0 or HTTP/1.1.
        Version = "version",
    }
}

impl StatusClass {
    /// The class of a status code.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match status {
            ..200 => Self::Informational,
            200..300 => Self::Success,
            300..400 => Self::Redirection,
            400..500 => Self::ClientError,
            500.. => Self::ServerError,
        }
    }
}
