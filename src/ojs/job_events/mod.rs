//! The events of jobs that a region streams: the bytes of a stream as events, an event as a step of a job, and a job as its region shows it.

mod lines;
mod shown;
mod step;

pub use lines::{EventLines, StreamItem};
pub use shown::{NotObserved, ObservedJob};
pub use step::{JobStep, ReadStep, StepEvent, read_step};
