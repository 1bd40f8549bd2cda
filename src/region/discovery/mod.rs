//! Regions beside those of the file: the words of sources on them, and which of them are in force.
//!
//! [`Finder`] is the whole decision, without clock and without I/O: looks and proofs go in, the regions in force come out. A
//! region is in force only once a handshake has shown the identity of its id; until then nothing else is sent there.

mod feed;
mod finder;
mod known;
mod report;
mod said;

pub use feed::{FeedRegion, FeedRegions, PUT_REGION_BYTES_MAX, PUT_REGIONS_MAX};
pub use finder::{Change, ChangeKind, Finder};
pub use known::{Proof, ProofFailure, SOURCES};
pub use report::{Discovered, Report, ReportedRegion, SourceReport};
pub use said::{Look, MalformedError, PartError, Rejected, Rejection, of_file, of_parts, of_texts};
