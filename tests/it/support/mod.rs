//! What every test stands on: a federation of demo regions with a sidecar before them, and a client.

mod client;
mod federation;

pub use client::{Answer, Client};
pub use federation::{Federation, IDS, Setup, eventually};
