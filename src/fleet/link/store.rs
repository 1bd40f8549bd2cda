//! Requests to the central store of UWER, over the connection to the hub.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::super::failure::Failure;
use super::super::request::Requests;
use super::Link;
use crate::replica::StoreAsk;

/// Requests under way at once; further ones wait. Fewer than the streams that a hub permits a connection.
const UNDER_WAY_MAX: usize = 16;

impl Link {
    /// Carries the requests of calls until the connection is lost. Those under way then have no answer.
    pub(super) async fn keep_asking_store(&self, requests: &Requests) -> Failure {
        let mut asked = self.store.questions().await;
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(ask) = asked.recv(), if under_way.len() < UNDER_WAY_MAX => under_way.push(carry(requests, ask)),
                Some(failure) = under_way.next() => {
                    if let Some(failure) = failure {
                        return failure;
                    }
                }
                else => std::future::pending::<()>().await,
            }
        }
    }
}

/// Carries one; returns the failure that ends the connection.
async fn carry(requests: &Requests, mut ask: StoreAsk) -> Option<Failure> {
    // A call that waits no longer leaves its place to the next one; its request may have been sent.
    let answered = tokio::select! {
        biased;
        () = ask.answer.closed() => return None,
        answered = requests.ask_store(&ask.path, ask.body.take()) => answered,
    };
    match answered {
        Ok(answer) => {
            // Its call may have ended.
            let _ = ask.answer.send(answer);
            None
        }
        Err(Failure::Refused(_) | Failure::Slow(_)) => None,
        Err(failure) => Some(failure),
    }
}
