//! The `ojs-sidecar` program.

fn main() -> std::process::ExitCode {
    ojs_sidecar::cli::main(std::env::args_os())
}
