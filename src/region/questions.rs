//! Questions to the hub about jobs, with `hub.decide: ask`: their way from the calls to the connection, and the answers in force.
//!
//! Calls ask on their own threads; [`crate::fleet`] answers on the control thread, where the connection is. Equal questions share one answer and one
//! request. A hub that leaves a question without an answer is left alone but for one question a second, so that its loss costs the other jobs nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{MutexGuard, mpsc, watch};

use crate::base::Clock;
use crate::policy::{Answered, RouteAnswer, RouteQuestion};
use crate::telemetry::{HubQuestion, Metrics, event};

/// Questions that wait for the connection. More different ones at once mean that the hub does not keep up.
const ASKS_MAX: usize = 256;
/// Answers in force: two kilobytes each among a few regions, and more kinds of jobs than a pod creates in a few seconds. Beyond, the oldest goes.
const ANSWERS_MAX: usize = 1_024;
/// How often a hub that does not answer is tried.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// The answer to a question; none where the hub gave none.
pub type HubWord = Option<Arc<Answered>>;

/// A question on its way to the connection.
#[derive(Debug)]
pub struct RouteAsk {
    /// The question as it is sent.
    pub body: Vec<u8>,
    key: Box<[u8]>,
    turn: u64,
    cache: Duration,
    answer: watch::Sender<Option<HubWord>>,
}

#[derive(Debug)]
enum Entry {
    /// An answer, and until when it is in force.
    Known(Arc<Answered>, Instant),
    /// A request is under way.
    Asking(watch::Receiver<Option<HubWord>>),
}

#[derive(Debug, Default)]
struct State {
    /// By the key of the question; at most [`ANSWERS_MAX`].
    entries: HashMap<Box<[u8]>, Entry>,
    /// When a hub that gave no answer is asked again; none while it answers.
    next_try: Option<Instant>,
    /// Why the hub refused the last question; none where it did not.
    refused: Option<String>,
}

/// The questions of a sidecar to its hub; shared by all threads.
#[derive(Debug)]
pub struct RouteQuestions {
    asks: mpsc::Sender<RouteAsk>,
    /// Locked by the connection for as long as it lives.
    asked: tokio::sync::Mutex<mpsc::Receiver<RouteAsk>>,
    state: Mutex<State>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl RouteQuestions {
    /// No answers yet.
    #[must_use]
    pub fn new(clock: Clock, metrics: Arc<Metrics>) -> Self {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        Self { asks, asked: tokio::sync::Mutex::new(asked), state: Mutex::default(), clock, metrics }
    }

    /// The answer in force to a question with this key.
    #[must_use]
    pub fn known(&self, key: &[u8]) -> Option<Arc<Answered>> {
        let now = self.clock.now();
        let state = self.state.lock();
        let Some(Entry::Known(answered, until)) = state.entries.get(key) else { return None };
        let known = (now < *until).then(|| Arc::clone(answered));
        drop(state);
        known.inspect(|_| self.count(HubQuestion::Cached))
    }

    /// The answer of the hub, after `wait` at most. A new answer is in force for `cache`.
    ///
    /// Cancel: the request goes on, and its answer is for the next such job.
    pub async fn ask(&self, key: Vec<u8>, question: &RouteQuestion, (cache, wait): (Duration, Duration)) -> HubWord {
        let mut receiver = match self.begin(key, question, cache) {
            Begun::Known(answered) => {
                self.count(HubQuestion::Cached);
                return Some(answered);
            }
            Begun::LeftAlone(result) => {
                self.count(result);
                return None;
            }
            Begun::Asking(receiver) => receiver,
        };
        let word = async { receiver.wait_for(Option::is_some).await.ok().and_then(|word| word.clone()) };
        let heard = tokio::select! {
            biased;
            heard = word => heard,
            () = self.clock.sleep(wait) => None,
        };
        let result = match &heard {
            Some(Some(_)) => HubQuestion::Answered,
            Some(None) => HubQuestion::Refused,
            None => HubQuestion::NoAnswer,
        };
        self.count(result);
        if heard.is_none() {
            self.leave_alone(None);
        }
        heard.flatten()
    }

    fn begin(&self, key: Vec<u8>, question: &RouteQuestion, cache: Duration) -> Begun {
        let now = self.clock.now();
        let is_connected = self.asked.try_lock().is_err();
        let mut state = self.state.lock();
        match state.entries.get(&*key) {
            Some(Entry::Known(answered, until)) if now < *until => return Begun::Known(Arc::clone(answered)),
            _ if !is_connected => return Begun::LeftAlone(HubQuestion::NotConnected),
            _ if state.next_try.is_some_and(|next| now < next) => return Begun::LeftAlone(HubQuestion::LeftAlone),
            _ => {}
        }
        if let Some(next) = &mut state.next_try {
            *next = now + TRY_EVERY;
        }
        if let Some(Entry::Asking(receiver)) = state.entries.get(&*key)
            && receiver.has_changed().is_ok()
        {
            return Begun::Asking(receiver.clone());
        }
        let (answer, receiver) = watch::channel(None);
        let (key, turn) = (key.into_boxed_slice(), question.moment.as_ref().map_or(0, |moment| moment.turn));
        let ask = RouteAsk { body: question.body(), key: key.clone(), turn, cache, answer };
        if self.asks.try_send(ask).is_err() {
            return Begun::LeftAlone(HubQuestion::LeftAlone);
        }
        state.make_room(now);
        state.entries.insert(key, Entry::Asking(receiver.clone()));
        Begun::Asking(receiver)
    }

    /// The hub gave no answer: it is asked again a second from now. `refused`: why it takes no question.
    fn leave_alone(&self, refused: Option<&str>) {
        let next = self.clock.now() + TRY_EVERY;
        let mut state = self.state.lock();
        state.next_try = Some(next);
        if let Some(why) = refused
            && state.refused.as_deref() != Some(why)
        {
            state.refused = Some(why.to_owned());
            drop(state);
            event::hub_questions_refused(why);
        }
    }

    /// Takes the end of a request: the answer, or the sentence of a hub that takes no such question.
    pub fn end(&self, ask: RouteAsk, result: Result<RouteAnswer, String>) {
        let word = match result {
            Ok(answer) => {
                let answered = Arc::new(Answered { answer, turn: ask.turn });
                let mut state = self.state.lock();
                (state.next_try, state.refused) = (None, None);
                let until = self.clock.now() + ask.cache;
                state.entries.insert(ask.key, Entry::Known(Arc::clone(&answered), until));
                Some(answered)
            }
            Err(why) => {
                self.state.lock().entries.remove(&ask.key);
                self.leave_alone(Some(&why));
                None
            }
        };
        // Its calls may have gone on without.
        let _ = ask.answer.send(Some(word));
    }

    /// The questions, for the connection that answers them. One that is dropped has no answer.
    pub async fn questions(&self) -> MutexGuard<'_, mpsc::Receiver<RouteAsk>> {
        self.asked.lock().await
    }

    /// A new connection: its hub is asked at once.
    pub fn connected(&self) {
        self.state.lock().next_try = None;
    }

    fn count(&self, result: HubQuestion) {
        self.metrics.hub_keys.questions[result].inc();
    }
}

enum Begun {
    Known(Arc<Answered>),
    Asking(watch::Receiver<Option<HubWord>>),
    LeftAlone(HubQuestion),
}

impl State {
    /// Removes entries that are over, and then the answer that ends first.
    fn make_room(&mut self, now: Instant) {
        if self.entries.len() < ANSWERS_MAX {
            return;
        }
        self.entries.retain(|_, entry| match entry {
            Entry::Known(_, until) => now < *until,
            Entry::Asking(receiver) => receiver.has_changed().is_ok(),
        });
        while self.entries.len() >= ANSWERS_MAX {
            let ends = |entry: &Entry| match entry {
                Entry::Known(_, until) => Some(*until),
                Entry::Asking(_) => None,
            };
            let first = self.entries.iter().filter_map(|(key, entry)| Some((ends(entry)?, key.clone()))).min();
            // At most ASKS_MAX and those under way are no answers.
            let Some((_, key)) = first else { return };
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{RegionId, SteeredTime};

    const TIMES: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(2));

    fn question(queue: &str) -> RouteQuestion {
        RouteQuestion::read(format!(r#"{{"queue":"{queue}"}}"#).as_bytes()).unwrap()
    }

    fn answer() -> RouteAnswer {
        RouteAnswer::read(br#"{"target_region":null,"strategy":"affinity","candidates":[]}"#).unwrap()
    }

    fn questions() -> (Arc<SteeredTime>, RouteQuestions) {
        let time = SteeredTime::starting_at(1_000_000);
        let metrics = Metrics::new(&[RegionId::parse("a").unwrap()], &[]);
        (Arc::clone(&time), RouteQuestions::new(Clock::new(Arc::new(time)), metrics))
    }

    async fn ask(questions: &RouteQuestions, queue: &str) -> HubWord {
        let question = question(queue);
        questions.ask(question.key(), &question, TIMES).await
    }

    #[tokio::test]
    async fn nothing_waits_without_a_connection_and_one_that_is_lost_ends_the_wait() {
        let (_time, questions) = questions();
        assert_eq!(ask(&questions, "a").await, None);
        let mut asked = questions.questions().await;
        let (word, ()) = tokio::join!(ask(&questions, "a"), async { drop(asked.recv().await.unwrap()) });
        assert_eq!(word, None);
        // Further questions are not sent now.
        assert_eq!(ask(&questions, "b").await, None);
        assert!(asked.try_recv().is_err());
    }

    #[tokio::test]
    async fn answers_in_force_are_bounded_and_the_one_that_ends_first_goes() {
        let (time, questions) = questions();
        let mut asked = questions.questions().await;
        for number in 0..=ANSWERS_MAX {
            let queue = number.to_string();
            let answering = async {
                let ask = asked.recv().await.unwrap();
                questions.end(ask, Ok(answer()));
            };
            assert!(tokio::join!(ask(&questions, &queue), answering).0.is_some());
            time.advance(Duration::from_millis(1));
        }
        assert_eq!(questions.state.lock().entries.len(), ANSWERS_MAX);
        assert!(questions.known(&question("0").key()).is_none() && questions.known(&question("1").key()).is_some());
        time.advance(TIMES.0);
        assert!(questions.known(&question(&ANSWERS_MAX.to_string()).key()).is_none(), "its time is over");
    }
}
