//! `ojs-sidecar demo`: three regions in memory, a sidecar before them, and a tour of what federation does; or, with `--chaos`,
//! a history checker over all of them while everything fails.

mod chaos;
mod prompt;
mod stage;
mod tour;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use super::out::{complain, say};
use super::{DONE, DemoArgs, FAILED, signals};
use stage::Stage;

/// The words for the regions of a chaos run.
pub(super) const CHAOS_REGIONS: [&str; 4] = chaos::REGIONS;

/// The tour's last line, for whoever waits for it.
const FINISHED: &str = "ready: tour finished";

/// A runtime for one thread.
pub(super) fn runtime() -> std::io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

/// Plays the tour, then serves until Ctrl-C or `quit`; with `--tour-only` it ends after the tour; with `--chaos` it checks histories instead.
pub(super) fn demo(arguments: &DemoArgs) -> u8 {
    match runtime() {
        Ok(runtime) => match arguments.chaos {
            Some(seconds) => runtime.block_on(Box::pin(chaos::play(arguments, seconds))),
            None => runtime.block_on(play(arguments)),
        },
        Err(error) => {
            complain(format_args!("the system refuses a runtime: {error}"));
            FAILED
        }
    }
}

/// A signal came during the tour.
struct Interrupted;

async fn play(arguments: &DemoArgs) -> u8 {
    let mut stage = match Stage::set(arguments.port, arguments.admin_port).await {
        Ok(stage) => stage,
        Err(error) => {
            complain(format_args!("the demo cannot start: {error}"));
            return FAILED;
        }
    };
    let toured = tokio::select! {
        toured = tour::play(&stage) => toured.map(Ok),
        () = signals::first_with(stage.clean_up()) => Ok(Err(Interrupted)),
    };
    let code = match toured {
        Ok(Ok(())) => DONE,
        Ok(Err(Interrupted)) => {
            complain("interrupted: the demo ends");
            signals::INTERRUPTED
        }
        Err(error) => {
            complain(format_args!("the tour broke off: {error}"));
            FAILED
        }
    };
    if !arguments.tour_only && code == DONE {
        stage.print_commands();
        say(FINISHED);
        tokio::select! {
            () = signals::first_with(stage.clean_up()) => {}
            () = prompt::obey(&stage) => {}
        }
    }
    stage.strike().await;
    if arguments.tour_only && code == DONE {
        // After everything has ended, so that it is the last line of the output whichever stream is read.
        say(FINISHED);
    }
    code
}
