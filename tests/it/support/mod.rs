//! What every test stands on: a federation of demo regions with a sidecar before them, and a client.

mod beside;
mod client;
mod federation;
mod judge;
mod process;
mod scrape;
mod scripted;
mod steer;
mod wire;

pub use beside::Sidecar;
pub use client::{Answer, Client};
pub use federation::{Federation, IDS, Setup, Stage, eventually};
pub use judge::{job, pinned};
pub use process::{Ended, Process, command, program_path};
pub use scrape::Scrape;
pub use scripted::{Scripted, Then};
pub use wire::Wire;
