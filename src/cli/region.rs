//! `ojs-sidecar region`: one OJS region in memory, for trying a federation on one machine.

use super::demo::RegionArgs;
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::runtime::runtime;
use super::signals;
use ojs_testbed::{DemoRegion, Dialect, DuplicateIds, RegionOptions};

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
    let region = match DemoRegion::start(options).await {
        Ok(region) => region,
        Err(error) => {
            complain(format_args!(
                "the region cannot listen on {}: {error} (--listen chooses another)",
                arguments.listen
            ));
            return FAILED;
        }
    };
    say(format_args!("region {} serves at {} in dialect {}", region.id(), region.url(), arguments.dialect));
    say("Its jobs live in memory. A sidecar's configuration needs `insecure_dev: true` to use it over plain HTTP.");
    say("ready: Ctrl-C ends it");
    signals::first().await;
    DONE
}

fn dialect(name: &str) -> Option<Dialect> {
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == name);
    debug_assert!(dialect.is_some(), "the command line takes the names of dialects only");
    dialect
}
