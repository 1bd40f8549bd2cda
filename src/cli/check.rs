//! `ojs-sidecar check`: everything that is wrong at once, or the effective configuration.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::demo::runtime;
use super::load::{complain_of, loaded, sources, warn_of};
use super::out::{complain, say};
use super::{BAD_CONFIG, ConfigArgs, DONE};
use crate::base::Clock;
use crate::config::{Config, RegionConfig, effective};
use crate::net::pool::Pool;
use crate::net::resolve::{Resolve as _, SystemResolver};
use crate::ojs::Class;
use crate::proxy::{pool_limits, pool_meters};
use crate::region::{Region, ask_health};
use crate::telemetry::{Metrics, event};

/// Clocks that differ by more than this make certificates, and the times in logs, hard to believe. `Date` has whole seconds,
/// and an answer may travel for some.
const SKEW_MAX: Duration = Duration::from_secs(5);

/// Exit code 0 with the effective configuration on standard output, or 78 with every problem on standard error. What only may
/// become a problem, such as a certificate that ends soon, is a warning.
pub(super) fn check(arguments: &ConfigArgs, ask: bool) -> u8 {
    let loaded = match sources(arguments).and_then(|sources| loaded(&sources)) {
        Ok(loaded) => loaded,
        Err(problems) => {
            complain_of(arguments, &problems);
            return BAD_CONFIG;
        }
    };
    warn_of(&loaded.warnings);
    for (place, config) in loaded.config.regions.iter().enumerate() {
        // It was loaded a moment ago without an error.
        let Ok(region) = Region::load(place, config) else { continue };
        warn_of_certificates(&region);
        if ask {
            warn_of_answer(&loaded.config, config, &region);
        }
    }
    say(effective(&loaded.config).trim_end());
    DONE
}

fn warn_of_certificates(region: &Region) {
    let identity = region.identity();
    let Some(tls) = &identity.tls else { return };
    for (what, not_after) in [("the client certificate", tls.client_expiry), ("a trust root", tls.ca_expiry)] {
        let Some(left) = not_after.and_then(|end| event::ends_soon(end, Clock::system().unix_ms())) else { continue };
        let when = if left < 0 { "has ended".to_owned() } else { format!("ends in {} hours", left / 3_600) };
        complain(format_args!("warning: region {}: {what} {when}; renew it", region.id));
    }
}

fn warn_of_answer(config: &Config, region_config: &RegionConfig, region: &Region) {
    let asked = match runtime() {
        Ok(runtime) => runtime.block_on(asked(config, region_config, region)),
        Err(error) => Some(format!("cannot be asked: {error}")),
    };
    if let Some(warning) = asked {
        complain(format_args!("warning: region {}: {warning}", region.id));
    }
}

/// What is wrong with a region's answer, if anything is.
async fn asked(config: &Config, region_config: &RegionConfig, region: &Region) -> Option<String> {
    if region.has_name() {
        match SystemResolver.resolve(&region_config.url.host, region_config.url.port).await {
            Ok(addresses) => region.set_addresses(addresses),
            Err(error) => return Some(format!("its name does not resolve: {error}")),
        }
    }
    // One question needs no counters that anybody scrapes.
    let metrics = Metrics::new(std::slice::from_ref(&region.id), &Class::ALL.map(Class::as_str));
    let pool = Pool::new(pool_limits(config), pool_meters(metrics.region(0)));
    let answer = match ask_health(region, &pool, config.health_check.timeout).await {
        Ok(answer) => answer,
        Err(error) => return Some(format!("does not answer: {error}")),
    };
    let word = answer.word.unwrap_or_default();
    if !answer.status.is_success() || !config.health_check.accepted_status.contains(&word) {
        let status = answer.status.as_u16();
        return Some(format!("answers {status} to GET /ojs/v1/health, without an accepted status"));
    }
    let skew = skew(answer.date?, Clock::system().unix_ms());
    (skew > SKEW_MAX).then(|| format!("its clock differs from ours by {} s; set one of them right", skew.as_secs()))
}

fn skew(date: SystemTime, unix_ms: u64) -> Duration {
    let theirs = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    theirs.abs_diff(Duration::from_millis(unix_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_whichever_is_ahead() {
        let date = UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(skew(date, 1_000_000), Duration::ZERO);
        assert_eq!(skew(date, 1_060_000), Duration::from_secs(60));
        assert_eq!(skew(date, 940_000), Duration::from_secs(60));
    }
}
