//! Regions by a name server: a SRV record each, and TXT records at its target.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData};
use tokio::sync::mpsc;

use super::looked::Looked;
use crate::base::Clock;
use crate::config::{DnsDiscovery, RegionSource};
use crate::region::discovery::{Look, MalformedError, of_texts};

/// For one question to one server; a server of the same network answers in milliseconds.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// For a whole look, many questions included.
const LOOK_WAIT: Duration = Duration::from_secs(20);
/// Records that live longer are asked for again nevertheless.
const LIFE_MAX: Duration = Duration::from_secs(3_600);
/// Targets that are asked for their texts; as many as there may be regions of any kind.
const TARGETS_MAX: usize = 256;
/// Questions at once.
const QUESTIONS: usize = 8;
/// Texts of one target that are read.
const TEXTS_MAX: usize = 64;
/// Every look asks anew, and only the questions of one look share answers.
const CACHED_ANSWERS: u64 = 32;

/// Looks for ever.
pub(super) async fn watch(dns: DnsDiscovery, interval: Duration, clock: Clock, tell: mpsc::Sender<Looked>) {
    let mut resolver = None;
    loop {
        let looked = look(&dns, &mut resolver, &clock).await;
        let life = looked.as_ref().map_or(Duration::ZERO, |(_, life)| *life);
        if tell.send((RegionSource::Dns, looked.map(|(look, _)| look))).await.is_err() {
            return;
        }
        // Two looks within the life of a record may be one answer of a cache on the way.
        clock.sleep(interval.max(life.min(LIFE_MAX))).await;
    }
}

async fn look(
    dns: &DnsDiscovery,
    resolver: &mut Option<TokioResolver>,
    clock: &Clock,
) -> Result<(Look, Duration), String> {
    let resolver = match resolver {
        Some(resolver) => resolver,
        None => resolver.insert(build(dns).map_err(|error| format!("no resolver could be made: {error}"))?),
    };
    resolver.clear_cache();
    tokio::select! {
        looked = ask(dns, resolver) => looked,
        () = clock.sleep(LOOK_WAIT) => Err("no answer in time".to_owned()),
    }
}

fn build(dns: &DnsDiscovery) -> Result<TokioResolver, hickory_resolver::net::NetError> {
    let mut builder = if dns.servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let server = |address: &std::net::SocketAddr| {
            let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
            connections.iter_mut().for_each(|connection| connection.port = address.port());
            NameServerConfig::new(address.ip(), true, connections)
        };
        let config = ResolverConfig::from_name_servers(dns.servers.iter().map(server).collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    options.timeout = ANSWER_WAIT;
    options.attempts = 1;
    options.cache_size = CACHED_ANSWERS;
    options.use_hosts_file = ResolveHosts::Never;
    builder.build()
}

/// The result for one target.
enum Target {
    Read(Box<crate::config::Sighting>),
    Malformed(String, MalformedError),
    Silent,
}

async fn ask(dns: &DnsDiscovery, resolver: &TokioResolver) -> Result<(Look, Duration), String> {
    let name = name(&dns.name).ok_or("the name is none of the domain name system")?;
    let answer = resolver.srv_lookup(name).await.map_err(|error| error.to_string())?;
    let life = answer.valid_until().saturating_duration_since(Instant::now());
    let mut records: Vec<&SRV> = answer
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            // A lone dot says that there is no such service.
            RData::SRV(srv) if !srv.target.is_root() => Some(srv),
            _ => None,
        })
        .collect();
    if records.is_empty() {
        return Err("the answer names no region".to_owned());
    }
    records.sort_by(|a, b| (a.priority, &a.target, a.port).cmp(&(b.priority, &b.target, b.port)));
    records.dedup_by(|a, b| (&a.target, a.port) == (&b.target, b.port));
    let mut look = Look {
        source: RegionSource::Dns,
        sightings: Vec::new(),
        malformed: Vec::new(),
        is_complete: records.len() <= TARGETS_MAX,
    };
    records.truncate(TARGETS_MAX);
    let asked = records.into_iter().map(|record| target(resolver, record));
    let mut targets = stream::iter(asked).buffered(QUESTIONS);
    while let Some(target) = targets.next().await {
        match target {
            Target::Read(seen) => look.sightings.push(*seen),
            Target::Malformed(place, rule) => {
                look.is_complete = false;
                look.malformed.push((place, rule));
            }
            Target::Silent => look.is_complete = false,
        }
    }
    Ok((look, life))
}

async fn target(resolver: &TokioResolver, record: &SRV) -> Target {
    let host = record.target.to_ascii();
    let host = host.strip_suffix('.').unwrap_or(&host).to_ascii_lowercase();
    let answer = match resolver.txt_lookup(record.target.clone()).await {
        Ok(answer) => answer,
        Err(error) if error.is_no_records_found() && !error.is_nx_domain() => {
            return Target::Malformed(host, MalformedError("expected a TXT record at the target with region=ID"));
        }
        Err(_) => return Target::Silent,
    };
    let texts = answer.answers().iter().filter_map(|record| match &record.data {
        RData::TXT(txt) => Some(txt.txt_data.iter()),
        _ => None,
    });
    let texts = texts.flatten().take(TEXTS_MAX).filter_map(|text| std::str::from_utf8(text).ok());
    match of_texts(&host, record.port, texts) {
        Ok(seen) => Target::Read(Box::new(seen)),
        Err(rule) => Target::Malformed(host, rule),
    }
}

/// A whole name: no domain of the machine is put behind it, which would be a second reading.
fn name(text: &str) -> Option<Name> {
    let mut name = Name::from_ascii(text).ok()?;
    name.set_fqdn(true);
    Some(name)
}
