//! What every test stands on: a federation of demo regions with a sidecar before them, and a client.

mod beside;
mod client;
mod federation;
mod judge;
mod port;
mod process;
mod scrape;
mod scripted;
mod steer;
mod waiting;
mod wire;

pub use beside::Sidecar;
pub use client::{Answer, Client};
pub use federation::{Federation, IDS, Setup, Stage};
pub use judge::{job, pinned};
pub use port::ReservedPort;
pub use process::{Ended, Process, command, program_path};
pub use scrape::Scrape;
pub use scripted::{Scripted, Then};
pub use waiting::{eventually, rises};
pub use wire::Wire;
