//! The index of jobs: the facts that sidecars report of jobs that pass them, the record of each job that follows from them, and the bytes of
//! jobs. Pure data, but for the file of the key that seals them.
//!
//! A [`Change`] is one fact about one copy of a job. Facts are joined and never taken back: however often, and in whichever order, they
//! arrive in a hub, the same set gives the same [`Record`]. Spec: federation-spec §5, RFC-0001 §5.

mod body;
mod body_outbox;
mod change;
mod columns;
mod conflict;
mod content;
mod details;
mod kv;
mod lags;
mod line;
mod observed;
mod outbox;
mod outline;
mod questions;
mod record;
mod seal;
mod unify;
mod unread;

pub use body::{BODIES_BYTES_MAX, BODIES_MAX, BODY_BYTES_MAX, JobBody, Reach, read_bodies};
pub use body_outbox::{BodyOutbox, BodyReport, StoredJob};
pub use change::{CHANGE_BYTES_MAX, Change, ChangeKind, JobFacts, Observer, TEXT_BYTES_MAX, is_text};
pub use conflict::{Life, Standing, has_failed};
pub use content::Content;
pub use details::{Details, OwnedDetails};
pub use kv::{StoreAsk, StoreQuestions};
pub use lags::{FeedLags, Lags};
pub use line::{Description, JobTexts, LINE_BYTES_MAX, ReportedChange, Seen, read_lines, without_trials};
pub use observed::{ObservedStep, described};
pub use outbox::{Outbox, REPORT_BYTES_MAX, REPORT_LINES_MAX, Report};
pub use outline::{Ledgered, Outline};
pub use questions::{IndexAnswer, IndexAsk, IndexQuestions};
pub use record::{Copy, Record};
pub use seal::{RowNonce, Seal};
pub use unify::{NEAR_MS, is_news};
pub use unread::{SentJob, Stored};
