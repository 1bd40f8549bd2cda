//! Further sidecars over the regions of a federation, as other pods have them.

use std::sync::Arc;
use std::time::Duration;

use ojs_sidecar::app::{World, build};
use ojs_sidecar::base::{Clock, SteeredTime};
use ojs_sidecar::config::{Sources, load};
use ojs_sidecar::net::LocalAddress;
use ojs_sidecar::net::resolve::SystemResolver;
use tokio::sync::oneshot;

use super::{Client, Federation, IDS, eventually};

/// A sidecar that knows nothing of what others have done. Dropped, it ends.
pub struct Sidecar {
    pub client: Client,
    pub admin: Client,
    time: Option<Arc<SteeredTime>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Federation {
    /// Starts a sidecar with the same configuration beside another region; returns when its first round of probes is over.
    pub async fn beside(&self, place: usize) -> Sidecar {
        let yaml = std::fs::read_to_string(&self.config).unwrap();
        let yaml = yaml.replacen("local_region: us-east-1", &format!("local_region: {}", IDS[place]), 1);
        let config = self.files.path().join(format!("beside-{place}.yaml"));
        std::fs::write(&config, yaml).unwrap();
        let config = load(&Sources { files: vec![config], ..Sources::default() }).unwrap().config;
        let time = self.time.clone();
        let clock = time.clone().map_or_else(Clock::system, |time| Clock::new(Arc::new(time)));
        let bound = build(config, World { clock, resolver: Arc::new(SystemResolver), source: None }).unwrap();
        let LocalAddress::Tcp(client) = bound.clients[0] else { panic!("a TCP listener") };
        let (client, admin) = (Client::new(client), Client::new(bound.admin));
        let (stop, stopped) = oneshot::channel::<()>();
        let run = async {
            let _ = stopped.await;
        };
        let thread = std::thread::spawn(move || {
            bound.run(run).unwrap();
        });
        let sidecar = Sidecar { client, admin, time, stop: Some(stop), thread: Some(thread) };
        eventually("the first round of probes", async || sidecar.admin.get("/readyz").await.status == 200).await;
        sidecar
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.stop.take());
        let (Some(time), Some(thread)) = (self.time.take(), self.thread.take()) else { return };
        std::thread::spawn(move || {
            while !thread.is_finished() {
                time.advance(Duration::from_secs(1));
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
    }
}
