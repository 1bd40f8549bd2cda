//! What we promise to others in files: manifests, alert rules, the dashboard, the description of our endpoints. Each is held
//! against the program.

#![allow(unreachable_pub, reason = "modules of one test binary")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod alerts;
mod files;
mod findings;
mod hub;
#[path = "../it/hub/stage.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod hub_stage;
mod manifests;
mod openapi;
mod pitfalls;
mod process;
mod prose;
#[path = "../it/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with tests that need more of it")]
mod support;
