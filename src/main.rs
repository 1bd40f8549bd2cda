//! The `ojs-sidecar` program.

/// Gives memory back to the system when a burst is over, which the C library's does not: `docs/performance.md`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    ojs_sidecar::cli::main(std::env::args_os())
}
