//! What breaks and recovers between the calls.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, When};

use super::script::Script;
use crate::support::{Federation, IDS, eventually};

/// What is broken now and does not mend itself.
#[derive(Default)]
pub struct Chaos {
    stopped: [bool; IDS.len()],
    masked: [bool; IDS.len()],
}

impl Chaos {
    /// Breaks or mends something, or lets time pass.
    pub async fn step(&mut self, script: &mut Script, federation: &mut Federation) {
        let place = script.below(IDS.len());
        let region = &federation.regions[place];
        match script.below(16) {
            0 => {
                region.stop().await;
                self.stopped[place] = true;
            }
            1 => self.resume(federation, place).await,
            2 => region.cut_connections().await,
            3 => {
                // Another region's valid certificate, for this region's names.
                let other = &federation.authorities[(place + 1) % IDS.len()];
                region.set_server(other.server(&names(place))).unwrap();
                region.cut_connections().await;
                self.masked[place] = true;
            }
            4 => self.unmask(federation, place).await,
            5..9 => {
                let count = 1 + script.below(4);
                region.faults().add(when(script).next(count as u64), fault(script));
            }
            9..12 => federation.advance(Duration::from_secs(1 + script.below(8) as u64)),
            12 | 13 => self.recover(federation).await,
            _ => {}
        }
    }

    /// Mends everything, and waits until the program has seen it.
    pub async fn recover(&mut self, federation: &mut Federation) {
        for place in 0..IDS.len() {
            federation.regions[place].faults().clear();
            self.resume(federation, place).await;
            self.unmask(federation, place).await;
            // Requests that hang would otherwise hang on.
            federation.regions[place].cut_connections().await;
        }
        let federation = &*federation;
        eventually("all regions are usable again", async || {
            federation.advance(Duration::from_secs(1));
            (0..IDS.len()).all(|place| federation.breaker(place) == "closed" && federation.health(place) == "healthy")
        })
        .await;
    }

    async fn resume(&mut self, federation: &Federation, place: usize) {
        if std::mem::take(&mut self.stopped[place]) {
            federation.regions[place].resume().await.unwrap();
        }
    }

    async fn unmask(&mut self, federation: &Federation, place: usize) {
        if std::mem::take(&mut self.masked[place]) {
            let own = federation.authorities[place].server(&names(place));
            federation.regions[place].set_server(own).unwrap();
            federation.regions[place].cut_connections().await;
        }
    }
}

fn names(place: usize) -> [&'static str; 3] {
    ["localhost", ["us-east-1.test", "eu-west-1.test", "ap-south-1.test"][place], "127.0.0.1"]
}

fn when(script: &mut Script) -> When {
    if script.one_in(4) { When::always() } else { When::enqueue() }
}

fn fault(script: &mut Script) -> Fault {
    let store = script.one_in(2);
    let answer = |answer| Fault::Answer { answer, store };
    match script.below(14) {
        0 => Fault::Refuse,
        1 => Fault::HangBeforeBody,
        2 => Fault::HangAfterBody { store },
        3 => Fault::CutBeforeBody,
        4 => Fault::CutAfterRequest { store },
        5 => Fault::CutMidResponse { after_bytes: script.below(40) },
        6 => answer(FaultAnswer::balancer(StatusCode::BAD_GATEWAY)),
        7 => answer(FaultAnswer::balancer(StatusCode::SERVICE_UNAVAILABLE)),
        8 => answer(FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error")),
        9 => answer(FaultAnswer::queue_unavailable()),
        10 => answer(FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited")),
        11 => Fault::EndlessBody,
        12 => Fault::Raw { bytes: Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\":") },
        _ => [Fault::RefuseStream, Fault::GoAway][script.below(2)].clone(),
    }
}
