//! `ojs-sidecar demo`: three regions in memory, a sidecar before them, and a tour of the federation's features; or,
//! with `--chaos`, a history checker over all of them while everything fails.

mod arguments;
mod fleet;
mod prompt;
mod stage;
mod tour;

use ojs_testbed::chaos;

use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::runtime::runtime;
use super::signals;
pub(super) use arguments::{DemoArgs, RegionArgs};
use stage::Stage;

/// The tour's last line, which scripts wait for.
const FINISHED: &str = "ready: tour finished";

/// Plays the tour, then serves until Ctrl-C or `quit`; with `--tour-only` it ends after the tour; with `--chaos` it checks histories instead.
pub(super) fn demo(arguments: &DemoArgs) -> u8 {
    match runtime() {
        Ok(runtime) => match arguments.chaos() {
            Some(options) => runtime.block_on(Box::pin(check(&options))),
            None => runtime.block_on(play(arguments)),
        },
        Err(error) => {
            complain(format_args!("the system refuses a runtime: {error}"));
            FAILED
        }
    }
}

/// Runs the chaos run; exit code 0 when every promise was kept.
async fn check(options: &chaos::Options) -> u8 {
    match chaos::play(options, signals::first()).await {
        Ok(true) => DONE,
        Ok(false) => {
            complain("the chaos run found a violation");
            FAILED
        }
        Err(error) => {
            complain(format_args!("the chaos run broke off: {error}"));
            FAILED
        }
    }
}

/// A signal came during the tour.
struct Interrupted;

async fn play(arguments: &DemoArgs) -> u8 {
    let mut stage = match Stage::set(arguments).await {
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
        stage.print_commands(prompt::HELP);
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
