//! The way of look-ups in the hub's index: calls of clients ask on their own threads, the connection to the hub answers on the control thread.

use bytes::Bytes;
use tokio::sync::{MutexGuard, Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// Look-ups that wait for the connection. People and tools ask, not workers: more at once mean that the hub does not keep up.
const ASKS_MAX: usize = 64;

/// Lists that ask at once: each of their questions reads some ten thousand facts, and enqueues with repeated ids wait behind them for 250 ms at most.
const LISTS_MAX: usize = 2;

/// The answer of a hub to a look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexAnswer {
    /// The record of the job. Shape: JSON, as [`super::Record::shown`] has it.
    Shown(Bytes),
    /// The index has no such job.
    Absent,
    /// The hub keeps no index.
    NoIndex,
    /// The hub did not answer, or by something else.
    Failed,
}

/// A look-up on its way to the connection.
#[derive(Debug)]
pub struct IndexAsk {
    /// The path and query at the hub.
    pub path: String,
    /// Gets the answer; closed where its call has ended.
    pub answer: oneshot::Sender<IndexAnswer>,
}

/// The way of look-ups to the connection; shared by all threads.
#[derive(Debug)]
pub struct IndexQuestions {
    asks: mpsc::Sender<IndexAsk>,
    /// Locked by the connection for as long as it lives.
    asked: tokio::sync::Mutex<mpsc::Receiver<IndexAsk>>,
    lists: Semaphore,
}

impl Default for IndexQuestions {
    fn default() -> Self {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        Self { asks, asked: tokio::sync::Mutex::new(asked), lists: Semaphore::new(LISTS_MAX) }
    }
}

impl IndexQuestions {
    /// The answer of the hub to a look-up at this path; [`IndexAnswer::Failed`] where there is no connection, and at `until`.
    ///
    /// Cancel: nothing is left.
    pub async fn ask(&self, path: String, until: Instant) -> IndexAnswer {
        let is_connected = self.asked.try_lock().is_err();
        let (answer, answered) = oneshot::channel();
        if !is_connected || self.asks.try_send(IndexAsk { path, answer }).is_err() {
            return IndexAnswer::Failed;
        }
        timeout_at(until, answered).await.ok().and_then(Result::ok).unwrap_or(IndexAnswer::Failed)
    }

    /// The turn of a list, which asks one question at a time while it has it; none at `until`.
    ///
    /// Cancel: its place in the queue is lost.
    pub async fn turn_of_list(&self, until: Instant) -> Option<SemaphorePermit<'_>> {
        timeout_at(until, self.lists.acquire()).await.ok().and_then(Result::ok)
    }

    /// The look-ups, for the connection that answers them. Those whose calls have ended are closed.
    pub async fn questions(&self) -> MutexGuard<'_, mpsc::Receiver<IndexAsk>> {
        self.asked.lock().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_look_up_is_answered_by_the_connection_and_fails_at_once_without_one() {
        let questions = IndexQuestions::default();
        let until = Instant::now() + Duration::from_secs(3_600);
        assert_eq!(questions.ask("/a".to_owned(), until).await, IndexAnswer::Failed);
        let mut asked = questions.questions().await;
        let answer = async {
            let ask = asked.recv().await.unwrap();
            assert_eq!(ask.path, "/b");
            ask.answer.send(IndexAnswer::Absent).unwrap();
        };
        assert_eq!(tokio::join!(questions.ask("/b".to_owned(), until), answer).0, IndexAnswer::Absent);
        assert_eq!(questions.ask("/c".to_owned(), Instant::now()).await, IndexAnswer::Failed);
        assert!(asked.recv().await.is_some_and(|ask| ask.answer.is_closed()));
    }
    #[tokio::test]
    async fn lists_take_turns_and_leave_places_to_look_ups() {
        let questions = IndexQuestions::default();
        let later = Instant::now() + Duration::from_secs(3_600);
        let turns = [questions.turn_of_list(later).await.unwrap(), questions.turn_of_list(later).await.unwrap()];
        assert!(questions.turn_of_list(Instant::now()).await.is_none(), "a third one waits");
        drop(turns);
        assert!(questions.turn_of_list(later).await.is_some());
    }
}
