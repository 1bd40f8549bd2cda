//! Look-ups of clients in the index of the hub, over the connection to it.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::super::failure::Failure;
use super::super::request::Requests;
use super::Link;
use crate::replica::{IndexAnswer, IndexAsk};

/// Look-ups under way at once; further ones wait. Fewer than the streams that a hub permits a connection.
const UNDER_WAY_MAX: usize = 8;

impl Link {
    /// Answers the look-ups of calls until the connection is lost. Those under way then fail.
    pub(super) async fn keep_looking_up(&self, requests: &Requests) -> Failure {
        let mut asked = self.index.questions().await;
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(ask) = asked.recv(), if under_way.len() < UNDER_WAY_MAX => under_way.push(answer_one(requests, ask)),
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

/// Answers one; returns the failure that ends the connection.
async fn answer_one(requests: &Requests, mut ask: IndexAsk) -> Option<Failure> {
    // A call that waits no longer leaves its place to the next one.
    let looked_up = tokio::select! {
        biased;
        () = ask.answer.closed() => return None,
        looked_up = requests.look_up(&ask.path) => looked_up,
    };
    let (answer, lost) = match looked_up {
        Ok(answer) => (answer, None),
        Err(Failure::Refused(_) | Failure::Slow(_)) => (IndexAnswer::Failed, None),
        Err(failure) => (IndexAnswer::Failed, Some(failure)),
    };
    // Its call may have ended.
    let _ = ask.answer.send(answer);
    lost
}
