//! Answers that are given again to a request repeated under the same key.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use http::StatusCode;

use super::Store;
use super::parts::Kept;

/// How long an answer is kept at least, by the documents.
const KEPT_MS: u64 = 86_400_000;

/// How many answers are kept, so that a demo that runs for days does not grow.
const KEPT_MAX: usize = 1_000;

/// The record of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Nothing,
    /// The same request was answered so.
    Answer(StatusCode, String),
    /// Another request had the key.
    OtherRequest,
}

impl Store {
    pub(crate) fn answer_to(&mut self, key: &str, request: &Bytes) -> Known {
        let now = self.settle();
        match self.answers.by_key.get(key).filter(|kept| now < kept.at_ms.saturating_add(KEPT_MS)) {
            None => Known::Nothing,
            Some(kept) if kept.request == digest(request) => Known::Answer(kept.status, kept.document.clone()),
            Some(_) => Known::OtherRequest,
        }
    }

    pub(crate) fn keep_answer(&mut self, key: String, request: &Bytes, status: StatusCode, document: String) {
        let kept = Kept { request: digest(request), at_ms: self.settle(), status, document };
        if self.answers.by_key.insert(key.clone(), kept).is_some() {
            self.answers.order.retain(|other| *other != key);
        }
        self.answers.order.push_back(key);
        if self.answers.order.len() > KEPT_MAX
            && let Some(oldest) = self.answers.order.pop_front()
        {
            self.answers.by_key.remove(&oldest);
        }
    }
}

fn digest(request: &Bytes) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.hash(&mut hasher);
    hasher.finish()
}
