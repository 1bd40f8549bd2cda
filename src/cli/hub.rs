//! `ojs-sidecar hub`: the second role of the program.

use super::arguments::HubRunArgs;
use super::exit::{BAD_CONFIG, DONE, FAILED};
use super::load::has_key;
use super::out::{complain, say};
use super::signals;
use crate::base::Clock;
use crate::hub::{CONNECTIONS_MAX, DESCRIPTORS, RunError, Settings, bind, check, migrate};
use crate::net::descriptors;
use crate::telemetry;

/// Keys of a sidecar's configuration that no hub has.
const OF_SIDECARS: [&str; 3] = ["local_region", "hub", "routing"];

/// Runs a hub until a signal; exit code 78 when its configuration is wrong, 1 when it cannot start.
pub(super) fn hub(arguments: &HubRunArgs) -> u8 {
    let settings = match Settings::load(&arguments.config) {
        Ok(settings) => settings,
        Err(error) => {
            complain(format_args!("{}: {error}", arguments.config.display()));
            if has_key(&arguments.config, &OF_SIDECARS) {
                complain("hint: this looks like the configuration of a sidecar, which `ojs-sidecar run` takes");
            }
            return BAD_CONFIG;
        }
    };
    if arguments.check {
        return match check(&settings) {
            Ok(()) => {
                let record = match (&settings.record.path, &settings.record.postgres) {
                    (_, Some(_)) => "; the database was not asked",
                    (Some(_), None) => "; the file of the record was not opened",
                    (None, None) => "; without a record a restart forgets all orders",
                };
                say(format_args!("the hub's configuration is right{record}"));
                DONE
            }
            Err(error) => {
                complain(format_args!("{}: {error}", arguments.config.display()));
                BAD_CONFIG
            }
        };
    }
    if arguments.migrate {
        return match migrate(&settings) {
            Ok(is_ready) => {
                say("the tables of the record are those of this version");
                if !is_ready {
                    say(
                        "the index for conflicts is still being built, and hubs can start; they look for conflicts once it is ready",
                    );
                }
                DONE
            }
            Err(error) => {
                complain(format_args!("the tables cannot be made: {error}"));
                if error.is_of_configuration() { BAD_CONFIG } else { FAILED }
            }
        };
    }
    let log = match telemetry::init(&settings.log()) {
        Ok(log) => log,
        Err(error) => {
            complain(format_args!("the log cannot be set up: {error}"));
            return FAILED;
        }
    };
    telemetry::install_panic_hook(&log);
    descriptors::raise_limit(CONNECTIONS_MAX, DESCRIPTORS);
    let ended = bind(settings, Clock::system()).and_then(|bound| {
        bound.run(async {
            tokio::select! {
                () = signals::first() => {}
                () = signals::ignored() => {}
            }
        })
    });
    log.flush();
    match ended {
        Ok(()) => DONE,
        Err(error) => {
            complain(format_args!("the hub cannot run: {error}"));
            if RunError::is_of_configuration(&error) { BAD_CONFIG } else { FAILED }
        }
    }
}
