//! Keeping regions' addresses fresh: the control thread resolves, data threads dial its last result.

use std::sync::Arc;
use std::time::Duration;

use super::Region;
use crate::base::Clock;
use crate::net::resolve::Resolve;
use crate::telemetry::{Metrics, event};

/// The interval between two resolutions of a name; the system's resolver does not return a record's time to live.
const REFRESH: Duration = Duration::from_secs(30);
/// A name that has no answer yet is asked for again this soon.
const RETRY: Duration = Duration::from_secs(2);
/// A resolver that does not answer is given up after this long; the last good answer stays.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps a region's name resolved for ever, from the first answer on; returns at once for an address literal. `first` runs once,
/// when the first answer, or its failure, is there.
///
/// A name that stops resolving keeps its last good addresses: an outage of the name service must not become one of the
/// region.
pub async fn keep_resolved(
    region: Arc<Region>,
    resolver: Arc<dyn Resolve>,
    clock: Clock,
    metrics: Arc<Metrics>,
    first: impl FnOnce(),
) {
    if !region.has_name() {
        return first();
    }
    let mut failing = Failing::default();
    let mut wait = resolve(&region, resolver.as_ref(), &metrics, &mut failing).await;
    region.first_answer.notify();
    first();
    loop {
        clock.sleep(wait).await;
        wait = resolve(&region, resolver.as_ref(), &metrics, &mut failing).await;
    }
}

/// Resolves a region's name once; returns how long the answer is good for.
async fn resolve(region: &Region, resolver: &dyn Resolve, metrics: &Metrics, failing: &mut Failing) -> Duration {
    let host = &region.config().url.host;
    let asked = tokio::time::timeout(TIMEOUT, resolver.resolve(host, region.config().url.port)).await;
    let metrics = metrics.region(region.index.get());
    let why = match asked {
        Ok(Ok(addresses)) if !addresses.is_empty() => {
            region.set_addresses(addresses);
            if failing.ended() {
                event::dns_recovered(metrics, host);
            }
            return REFRESH;
        }
        Ok(Ok(_)) => "the name has no address".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer in {} s", TIMEOUT.as_secs()),
    };
    let kept = !region.addresses().is_empty();
    event::dns_failed(metrics, host, &why, kept, failing.failed());
    if kept { REFRESH } else { RETRY }
}

/// How often in a row a name did not resolve.
#[derive(Debug, Default)]
struct Failing(u64);

impl Failing {
    /// Counts a failure; some where it is to be logged, with the number so far: the first, and each time the number has doubled, so that an
    /// hour of failures every two seconds is a dozen lines.
    fn failed(&mut self) -> Option<u64> {
        self.0 += 1;
        self.0.is_power_of_two().then_some(self.0)
    }

    /// It resolved; true where it had failed before.
    fn ended(&mut self) -> bool {
        std::mem::take(&mut self.0) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_a_name_are_logged_each_time_their_number_has_doubled() {
        let mut failing = Failing::default();
        let logged: Vec<u64> = (0..1_800).filter_map(|_| failing.failed()).collect();
        assert_eq!(logged, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024], "an hour, every two seconds");
        assert!(failing.ended() && !failing.ended());
        assert_eq!(failing.failed(), Some(1), "the next outage is logged at once");
    }
}
