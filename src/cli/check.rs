//! `ojs-sidecar check`: everything that is wrong at once, or the effective configuration.

mod host;
mod readers;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::arguments::ConfigArgs;
use super::exit::{BAD_CONFIG, DONE, FAILED};
use super::load::{complain_of, loaded, sources, warn_of};
use super::modes;
use super::out::{complain, say};
use super::runtime::runtime;
use crate::base::text::rfc3339;
use crate::base::{Clock, shown_path};
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

/// The steps of `check` besides reading the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Ask each region's health.
    pub(super) ask: bool,
    /// Fail for warnings, too.
    pub(super) strict: bool,
}

/// Exit code 78 with every problem on standard error, else the effective configuration on standard output and: 1 where this host
/// does not permit what is configured, a region that was asked does not answer well, or `strict` finds a warning; else 0.
pub(super) fn check(arguments: &ConfigArgs, how: How) -> u8 {
    let loaded = match sources(arguments).and_then(|sources| loaded(&sources)) {
        Ok(loaded) => loaded,
        Err(problems) => {
            complain_of(arguments, &problems);
            return BAD_CONFIG;
        }
    };
    warn_of(&loaded.warnings);
    let config = &loaded.config;
    let refused = host::refusals(config);
    let mut warnings = host::journal_warning(config).into_iter().collect::<Vec<_>>();
    let mut unwell = Vec::new();
    for (place, region_config) in config.regions.iter().enumerate() {
        // It was loaded a moment ago without an error.
        let Ok(region) = Region::load(place, region_config) else { continue };
        let of_region = |text: String| format!("region {}: {text}", region.id);
        warnings.extend(modes::warnings(region_config).into_iter().map(of_region));
        warnings.extend(certificate_warnings(&region).into_iter().map(of_region));
        if how.ask {
            let (fault, found) = answer_warnings(config, region_config, &region);
            unwell.extend(fault.map(of_region));
            warnings.extend(found.into_iter().map(of_region));
        }
    }
    warnings.extend(modes::spool_warning(config.spool.key_file.as_deref()));
    refused.iter().for_each(complain);
    warnings.iter().chain(&unwell).for_each(|warning| complain(format_args!("warning: {warning}")));
    say(effective(config).trim_end());
    let warned = !warnings.is_empty() || !loaded.warnings.is_empty();
    if refused.is_empty() && unwell.is_empty() && !(how.strict && warned) { DONE } else { FAILED }
}

/// The certificates of a region that have ended or end soon, each with its file and its date.
fn certificate_warnings(region: &Region) -> Vec<String> {
    let identity = region.identity();
    let Some(tls) = &identity.tls else { return Vec::new() };
    let files = &region.config().tls;
    let ends = [("the client certificate", &files.cert, tls.client_expiry), ("a trust root", &files.ca, tls.ca_expiry)];
    let warning = |(noun, file, end): (&str, &Option<PathBuf>, Option<i64>)| {
        let end = end?;
        let left = event::ends_soon(end, Clock::system().unix_ms())?;
        let file = file.as_deref().and_then(shown_path).map(|path| format!(" in {path}")).unwrap_or_default();
        let date = rfc3339(u64::try_from(end).unwrap_or(0).saturating_mul(1_000));
        let verb = if left < 0 { "ended" } else { "ends" };
        Some(format!("{noun}{file} {verb} at {date}; renew it"))
    };
    ends.into_iter().filter_map(warning).collect()
}

/// The fault of a region, if there is one, and warnings about its workers.
fn answer_warnings(config: &Config, region_config: &RegionConfig, region: &Region) -> (Option<String>, Vec<String>) {
    // A few questions need no counters that are scraped.
    let metrics = Metrics::new(std::slice::from_ref(&region.id), &Class::ALL.map(Class::as_str));
    let pool = Pool::new(pool_limits(config), pool_meters(metrics.region(0)));
    let questions = async {
        match asked(config, region_config, region, &pool).await {
            Some(fault) => (Some(fault), Vec::new()),
            None => (None, readers::warnings(config, region, &pool).await),
        }
    };
    match runtime() {
        Ok(runtime) => runtime.block_on(questions),
        Err(error) => (Some(format!("cannot be asked: {error}")), Vec::new()),
    }
}

/// The fault of a region's answer, if there is one.
async fn asked(config: &Config, region_config: &RegionConfig, region: &Region, pool: &Pool) -> Option<String> {
    if region.has_name() {
        match SystemResolver.resolve(&region_config.url.host, region_config.url.port).await {
            Ok(addresses) => region.set_addresses(addresses),
            Err(error) => return Some(format!("its name does not resolve: {error}")),
        }
    }
    let answer = match ask_health(region, pool, config.health_check.timeout).await {
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
