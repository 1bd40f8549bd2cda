//! `ojs-sidecar region`: one OJS region in memory, for trying a federation on one machine.

use std::io;
use std::path::Path;

use super::demo::RegionArgs;
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::runtime::runtime;
use super::signals;
use ojs_testbed::{DemoRegion, Dialect, DuplicateIds, Identity, RegionOptions, RegionTls};

/// Serves until Ctrl-C; exit code 0 then, 1 when it cannot start.
pub(super) fn region(arguments: &RegionArgs) -> u8 {
    match runtime() {
        Ok(runtime) => runtime.block_on(serve(arguments)),
        Err(error) => {
            complain(format_args!("the system refuses a runtime: {error}"));
            FAILED
        }
    }
}

async fn serve(arguments: &RegionArgs) -> u8 {
    let Some(dialect) = dialect(&arguments.dialect) else {
        complain(format_args!("no dialect is named {}", arguments.dialect));
        return FAILED;
    };
    let mut options = RegionOptions::new(arguments.id.as_str());
    options.listen = arguments.listen;
    options.dialect = dialect;
    options.duplicate_ids = arguments.duplicate_ids.as_deref().and_then(DuplicateIds::parse);
    // The record is not read here.
    options.record_bytes_max = 0;
    options.tls = match tls(arguments) {
        Ok(tls) => tls,
        Err(problem) => {
            complain(format_args!("{problem}"));
            return FAILED;
        }
    };
    let region = match DemoRegion::start(options).await {
        Ok(region) => region,
        Err(error) => {
            complain(match error.kind() {
                io::ErrorKind::InvalidInput => format!("the region cannot use its certificates: {error}"),
                _ => format!("the region cannot listen on {}: {error} (--listen chooses another)", arguments.listen),
            });
            return FAILED;
        }
    };
    say(format_args!("region {} serves at {} in dialect {}", region.id(), region.url(), arguments.dialect));
    say(match (&arguments.tls_cert, &arguments.client_ca) {
        (None, _) => {
            "Its jobs live in memory. A sidecar's configuration needs `insecure_dev: true` to use it over plain HTTP."
        }
        (Some(_), None) => "Its jobs live in memory. Any client may call it over TLS.",
        (Some(_), Some(_)) => "Its jobs live in memory. Clients must show a certificate of its authorities.",
    });
    say("ready: Ctrl-C ends it");
    signals::first().await;
    DONE
}

/// The region's identity and the authorities of its clients, where the command line names them.
///
/// Errors: the file that cannot be read.
fn tls(arguments: &RegionArgs) -> Result<Option<RegionTls>, String> {
    let (Some(cert), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else { return Ok(None) };
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let server = Identity { cert_pem: read(cert)?, key_pem: read(key)? };
    let client_ca_pem = arguments.client_ca.as_deref().map(read).transpose()?;
    Ok(Some(RegionTls { server, client_ca_pem }))
}

fn dialect(name: &str) -> Option<Dialect> {
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == name);
    debug_assert!(dialect.is_some(), "the command line takes the names of dialects only");
    dialect
}
