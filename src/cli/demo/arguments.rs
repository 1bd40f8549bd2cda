//! The options of `demo` and `region`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ojs_testbed::{Dialect, DuplicateIds, chaos};

use crate::base::RegionId;
use crate::base::text::parse_duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct DemoArgs {
    /// The sidecar's port for clients on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 8080, value_parser = port)]
    pub(super) port: u16,
    /// The sidecar's port for metrics and probes on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 9464, value_parser = port)]
    pub(super) admin_port: u16,
    /// End after the tour: exit code 0 if every step had its announced result, else 1
    #[arg(long)]
    pub(super) tour_only: bool,
    /// With a hub and two more sidecars: the tour ends with one order for all three
    #[arg(long, conflicts_with = "chaos")]
    pub(super) hub: bool,
    /// No tour: enqueue for so long while everything fails, then check every job; exit code 0 if every promise was kept, else 1
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| whole(text, 1..=86_400))]
    pub(super) chaos: Option<u64>,
    /// How many jobs are enqueued in that time
    #[arg(long, value_name = "N", requires = "chaos", value_parser = |text: &str| whole(text, 1..=10_000_000))]
    pub(super) chaos_enqueues: Option<u64>,
    /// How often the sidecar is killed and started again, beside once for each way to break its journal
    #[arg(long, value_name = "N", requires = "chaos", default_value_t = 8, value_parser = |text: &str| whole(text, 0..=10_000))]
    pub(super) chaos_kills: u64,
    /// The seed of the plan; without one a new one, which is printed
    #[arg(long, value_name = "N", requires = "chaos", value_parser = |text: &str| whole(text, 0..=u64::MAX))]
    pub(super) chaos_seed: Option<u64>,
    /// What the regions do with an id that is taken; mixed: each another
    #[arg(long, value_name = "WHAT", requires = "chaos", default_value = "refuse", value_parser = chaos::REGIONS)]
    pub(super) chaos_regions: String,
    /// Some writes come so long after the end of their call, at most
    #[arg(long, value_name = "DURATION", requires = "chaos", value_parser = parse_duration)]
    pub(super) chaos_late_writes: Option<Duration>,
    /// Every region speaks HTTP/2; without it one speaks HTTP/1.1 only
    #[arg(long, requires = "chaos")]
    pub(super) chaos_http2: bool,
    /// The sidecar's own timings; without it short ones
    #[arg(long, requires = "chaos")]
    pub(super) chaos_default_timings: bool,
    /// Regions lie and lag, clients use ids twice and have credentials, and the process is ended in more ways
    #[arg(long, requires = "chaos")]
    pub(super) chaos_hostile: bool,
}

/// A whole number within bounds.
///
/// Errors: the expectation.
fn whole(text: &str, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| format!("expected a whole number from {} to {}", bounds.start(), bounds.end()))
}

fn port(text: &str) -> Result<u16, String> {
    let port = whole(text, 0..=u16::MAX.into())?;
    u16::try_from(port).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RegionArgs {
    /// A loopback address and port; port 0 for any free one
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDRESS", value_parser = loopback)]
    pub(in crate::cli) listen: SocketAddr,
    /// The behaviour where the documents and the servers in the field differ
    #[arg(long, default_value = Dialect::Spec.as_str(), value_parser = Dialect::ALL.map(Dialect::as_str))]
    pub(in crate::cli) dialect: String,
    /// The answer to an id that is taken, which its manifest then declares; without it that of its dialect
    #[arg(long, value_name = "WHAT", value_parser = DuplicateIds::ALL.map(DuplicateIds::as_str))]
    pub(in crate::cli) duplicate_ids: Option<String>,
    /// The region's id
    #[arg(long, default_value = "demo", value_name = "ID", value_parser = RegionId::parse)]
    pub(in crate::cli) id: RegionId,
    /// A PEM file with the region's certificate; with it the region speaks TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(in crate::cli) tls_cert: Option<PathBuf>,
    /// A PEM file with the private key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(in crate::cli) tls_key: Option<PathBuf>,
    /// A PEM file with authorities: clients must show a certificate that one of them has signed
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(in crate::cli) client_ca: Option<PathBuf>,
}

/// Plain HTTP does not leave the machine.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "expected an address such as 127.0.0.1:8081".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("expected a loopback address such as 127.0.0.1".to_owned())
    }
}

impl DemoArgs {
    /// The chaos run that is asked for; none for the tour.
    pub(super) fn chaos(&self) -> Option<chaos::Options> {
        self.chaos.map(|seconds| chaos::Options {
            seconds,
            enqueues: self.chaos_enqueues,
            kills: self.chaos_kills,
            seed: self.chaos_seed,
            regions: self.chaos_regions.clone(),
            late_writes: self.chaos_late_writes,
            http2: self.chaos_http2,
            default_timings: self.chaos_default_timings,
            hostile: self.chaos_hostile,
        })
    }
}
