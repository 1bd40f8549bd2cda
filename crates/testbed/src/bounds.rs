//! How many jobs a queue takes: the `backpressure` of its configuration.
//!
//! Spec: ojs-backpressure 6 and 7. The strategy `block` is refused, because no region here holds an enqueue.

use http::{HeaderMap, HeaderValue};

use super::members::{Invalid, Members};

/// From which share of the bound on an enqueue says how full its queue is.
const WARNING: f64 = 0.8;

/// The bound of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    /// The most jobs that are not over yet.
    pub(super) depth_max: u64,
    /// Whether the oldest job that waits makes room for a new one.
    pub(super) drops_oldest: bool,
    /// From which share of the bound on an answer says so.
    pub(super) warning: f64,
}

impl Bound {
    /// Reads it from the configuration of a queue; a depth of 0 stands for none.
    ///
    /// Errors: [`Invalid::Member`] for a member that cannot be.
    pub(super) fn read(config: &Members) -> Result<Option<Self>, Invalid> {
        let Some(members) = config.read::<Members>("backpressure", "is an object")? else { return Ok(None) };
        let rule = "is reject or drop_oldest";
        let strategy: Option<String> = members.read("strategy", rule)?;
        let drops_oldest = match strategy.as_deref() {
            None | Some("reject") => false,
            Some("drop_oldest") => true,
            Some(_) => return Err(Invalid::Member("strategy", rule)),
        };
        let share = "is a number from 0 to 1";
        let warning: f64 = members.read("warning_threshold", share)?.unwrap_or(WARNING);
        if !(0.0..=1.0).contains(&warning) {
            return Err(Invalid::Member("warning_threshold", share));
        }
        let depth_max: Option<u64> = members.read("max_depth", "is a whole number from 0")?;
        Ok(depth_max.filter(|max| *max > 0).map(|depth_max| Self { depth_max, drops_oldest, warning }))
    }
}

/// How full a queue is that has a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Depth {
    /// How many of its jobs are not over yet.
    pub(super) jobs: u64,
    /// How many it takes.
    pub(super) max: u64,
}

impl Depth {
    /// The jobs as a share of the bound.
    #[expect(clippy::cast_precision_loss, reason = "a share is shown with two digits")]
    pub(super) fn share(self) -> f64 {
        self.jobs as f64 / self.max as f64
    }
}

/// Headers of how full a queue is. Spec: ojs-backpressure 7.2 and 7.3.
pub(crate) fn depth_headers(headers: &mut HeaderMap, depth: Depth) {
    headers.insert("x-ojs-queue-depth", HeaderValue::from(depth.jobs));
    headers.insert("x-ojs-queue-bound", HeaderValue::from(depth.max));
    if let Ok(share) = HeaderValue::from_str(&format!("{:.2}", depth.share())) {
        headers.insert("x-ojs-queue-pressure", share);
    }
}
