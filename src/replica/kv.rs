//! The way of requests to the central store of UWER at the hub: a call of a client waits for the answer, and is refused without it.

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::{MutexGuard, Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// Requests that wait for the connection: more at once mean that the hub does not keep up, and are refused.
const ASKS_MAX: usize = 256;

/// Refused documents on their way: each is some megabytes, and claims wait behind them.
const LETTERS_MAX: usize = 4;

/// A request on its way to the connection.
#[derive(Debug)]
pub struct StoreAsk {
    /// The path and query at the hub.
    pub path: String,
    /// A document for a POST; none for a GET.
    pub body: Option<Vec<u8>>,
    /// Gets the status and the body of the answer; closed where its call has ended.
    pub answer: oneshot::Sender<(StatusCode, Bytes)>,
}

/// The way of requests to the connection; shared by all threads.
#[derive(Debug)]
pub struct StoreQuestions {
    asks: mpsc::Sender<StoreAsk>,
    /// Locked by the connection for as long as it lives.
    asked: tokio::sync::Mutex<mpsc::Receiver<StoreAsk>>,
    letters: Semaphore,
}

impl Default for StoreQuestions {
    fn default() -> Self {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        Self { asks, asked: tokio::sync::Mutex::new(asked), letters: Semaphore::new(LETTERS_MAX) }
    }
}

impl StoreQuestions {
    /// The status and the body of the hub's answer. `None` where there is no connection, where it is lost meanwhile, and at `until`: the hub
    /// may have done as it was asked.
    ///
    /// Cancel: nothing is left.
    pub async fn ask(&self, path: String, body: Option<Vec<u8>>, until: Instant) -> Option<(StatusCode, Bytes)> {
        let is_connected = self.asked.try_lock().is_err();
        let (answer, answered) = oneshot::channel();
        if !is_connected || self.asks.try_send(StoreAsk { path, body, answer }).is_err() {
            return None;
        }
        timeout_at(until, answered).await.ok()?.ok()
    }

    /// A place for a refused document, before it is written down; none where too many are on their way.
    pub fn place_of_letter(&self) -> Option<SemaphorePermit<'_>> {
        self.letters.try_acquire().ok()
    }

    /// The requests, for the connection that carries them. Those of calls that have ended are closed.
    pub async fn questions(&self) -> MutexGuard<'_, mpsc::Receiver<StoreAsk>> {
        self.asked.lock().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_request_has_the_answer_of_the_connection_and_none_without_one() {
        let questions = StoreQuestions::default();
        let until = Instant::now() + Duration::from_secs(3_600);
        assert_eq!(questions.ask("/a".to_owned(), None, until).await, None);
        let mut asked = questions.questions().await;
        let answer = async {
            let ask = asked.recv().await.unwrap();
            assert_eq!((ask.path.as_str(), ask.body), ("/b", Some(vec![1])));
            ask.answer.send((StatusCode::OK, Bytes::from_static(b"x"))).unwrap();
        };
        let answered = tokio::join!(questions.ask("/b".to_owned(), Some(vec![1]), until), answer).0;
        assert_eq!(answered, Some((StatusCode::OK, Bytes::from_static(b"x"))));
        assert_eq!(questions.ask("/c".to_owned(), None, Instant::now()).await, None);
        assert!(asked.recv().await.is_some_and(|ask| ask.answer.is_closed()));
        let places: Vec<_> = (0..LETTERS_MAX).map(|_| questions.place_of_letter()).collect();
        assert!(places.iter().all(Option::is_some) && questions.place_of_letter().is_none());
    }
}
