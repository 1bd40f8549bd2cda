//! Questions about jobs, over the connection to the hub: `hub.decide: ask`.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::super::failure::Failure;
use super::super::request::Requests;
use super::Link;
use crate::policy::RouteAnswer;
use crate::region::{RouteAsk, RouteQuestions};

/// Questions under way at once; further ones wait. Fewer than the streams that a hub permits a connection.
const UNDER_WAY_MAX: usize = 16;

impl Link {
    /// Answers the questions of calls until the connection is lost. Those under way then have no answer.
    pub(super) async fn keep_asking_where(&self, requests: &Requests) -> Failure {
        let Some(questions) = &self.questions else { return std::future::pending().await };
        let mut asked = questions.questions().await;
        questions.connected();
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(ask) = asked.recv(), if under_way.len() < UNDER_WAY_MAX => {
                    under_way.push(answer_one(questions, requests, ask));
                }
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
async fn answer_one(questions: &RouteQuestions, requests: &Requests, mut ask: RouteAsk) -> Option<Failure> {
    let result = match requests.ask_where(std::mem::take(&mut ask.body)).await {
        Ok(body) => RouteAnswer::read(&body),
        Err(Failure::Refused(error)) => Err(error),
        // Dropped: its calls have waited for long enough.
        Err(Failure::Slow(_)) => return None,
        Err(failure) => return Some(failure),
    };
    questions.end(ask, result);
    None
}
