//! The `ojs-sidecar` program.

mod processor;

use std::process::ExitCode;

/// Gives memory back to the system when a burst is over, which the C library's does not:
/// `docs/adr/0410-the-allocator-is-jemalloc.md`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[expect(clippy::print_stderr, reason = "nothing of the library can be counted on where the processor does not fit")]
fn main() -> ExitCode {
    let missing = processor::missing();
    if !missing.is_empty() {
        eprintln!(
            "ojs-sidecar: this build is for x86-64 processors with AVX2 and what came with it, and this one, or the virtual machine's \
             model of it, lacks {}; run it on another, or use the program for x86-64, which runs on all of them",
            missing.join(", ")
        );
        return ExitCode::FAILURE;
    }
    ojs_sidecar::cli::main(std::env::args_os())
}
