//! The `ojs-sidecar` program.

fn main() {}
