//! The way of questions for the figures of the fleet: calls of clients ask on their own threads, the connection to the hub answers on the control
//! thread.

use tokio::sync::{MutexGuard, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::policy::FleetFigures;

/// Questions that wait for the connection. People and tools ask, not workers.
const ASKS_MAX: usize = 16;

/// The answer of a hub to a question for the figures of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FiguresAnswer {
    /// The sums.
    Summed(FleetFigures),
    /// The hub is of a version that has none.
    Older,
    /// The hub did not answer, or by something else.
    Failed,
}

/// The way of questions to the connection; shared by all threads.
#[derive(Debug)]
pub struct FigureQuestions {
    asks: mpsc::Sender<oneshot::Sender<FiguresAnswer>>,
    /// Locked by the connection for as long as it lives.
    asked: tokio::sync::Mutex<mpsc::Receiver<oneshot::Sender<FiguresAnswer>>>,
}

impl Default for FigureQuestions {
    fn default() -> Self {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        Self { asks, asked: tokio::sync::Mutex::new(asked) }
    }
}

impl FigureQuestions {
    /// The figures of the fleet by the hub; [`FiguresAnswer::Failed`] where there is no connection, and at `until`.
    ///
    /// Cancel: nothing is left.
    pub async fn ask(&self, until: Instant) -> FiguresAnswer {
        let is_connected = self.asked.try_lock().is_err();
        let (answer, answered) = oneshot::channel();
        if !is_connected || self.asks.try_send(answer).is_err() {
            return FiguresAnswer::Failed;
        }
        timeout_at(until, answered).await.ok().and_then(Result::ok).unwrap_or(FiguresAnswer::Failed)
    }

    /// The questions, for the connection that answers them. Those whose calls have ended are closed.
    pub async fn questions(&self) -> MutexGuard<'_, mpsc::Receiver<oneshot::Sender<FiguresAnswer>>> {
        self.asked.lock().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_question_is_answered_by_the_connection_and_fails_at_once_without_one() {
        let questions = FigureQuestions::default();
        let until = Instant::now() + Duration::from_secs(3_600);
        assert_eq!(questions.ask(until).await, FiguresAnswer::Failed);
        let mut asked = questions.questions().await;
        let answer = async { asked.recv().await.unwrap().send(FiguresAnswer::Older).unwrap() };
        assert_eq!(tokio::join!(questions.ask(until), answer).0, FiguresAnswer::Older);
        assert_eq!(questions.ask(Instant::now()).await, FiguresAnswer::Failed);
        assert!(asked.recv().await.is_some_and(|ask| ask.is_closed()));
    }
}
