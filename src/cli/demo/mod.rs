//! `ojs-sidecar demo`: three regions in memory, a sidecar before them, and a tour of what federation does.

mod stage;
mod tour;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use super::out::{complain, say};
use super::{DONE, DemoArgs, FAILED, signals};
use stage::Stage;

/// A runtime for one thread.
pub(super) fn runtime() -> std::io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

/// Plays the tour, then serves until Ctrl-C; with `--tour-only` it ends after the tour.
pub(super) fn demo(arguments: &DemoArgs) -> u8 {
    match runtime() {
        Ok(runtime) => runtime.block_on(play(arguments)),
        Err(error) => {
            complain(format_args!("the system refuses a runtime: {error}"));
            FAILED
        }
    }
}

async fn play(arguments: &DemoArgs) -> u8 {
    let mut stage = match Stage::set(arguments.port, arguments.admin_port).await {
        Ok(stage) => stage,
        Err(error) => {
            complain(format_args!("the demo cannot start: {error}"));
            return FAILED;
        }
    };
    let toured = tokio::select! {
        toured = tour::play(&stage) => toured,
        () = signals::first() => Err("interrupted".to_owned()),
    };
    let code = match toured {
        Ok(()) => DONE,
        Err(error) => {
            complain(format_args!("the tour broke off: {error}"));
            FAILED
        }
    };
    if !arguments.tour_only && code == DONE {
        stage.print_commands();
        say("ready: tour finished");
        signals::first().await;
    } else if code == DONE {
        say("ready: tour finished");
    }
    stage.strike().await;
    code
}
