//! What one hop costs: the sidecar beside nginx, HAProxy and a bare pass-through on the same job, in turn, on this machine.
//!
//! `make bench-hop` needs `wrk`, `nginx` and `haproxy` from the distribution's packages. Everything talks over loopback with
//! certificates made for the run. Only ratios within one run say anything.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bench that cannot go on has failed, and its output is what it is for"
)]

mod bare;
mod bars;
mod cases;
mod figures;
mod gauge;
mod machine;
mod memory;
mod operated;
mod options;
mod peers;
mod pooled;
mod region;
mod report;
mod stage;
mod steady;
mod train;
mod wrk;

use options::Options;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    match words.next().as_deref() {
        // This program is also its own neighbours, each as a process that can be pinned and measured.
        Some("region") => region::run(&words.collect::<Vec<_>>()),
        Some("bare") => bare::run(&words.collect::<Vec<_>>()),
        Some("pooled") => pooled::run(&words.collect::<Vec<_>>()),
        Some("steady") => steady::run(&words.collect::<Vec<_>>()),
        Some("gauge") => gauge::run(),
        Some("train") => train::run(&words.collect::<Vec<_>>()),
        first => {
            let options = Options::read(first.into_iter().map(str::to_owned).chain(words));
            cases::run(&options);
        }
    }
}
