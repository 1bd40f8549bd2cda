//! A list as the client asked for it, and the pages that regions gave of it.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use crate::ojs::list::{Page, Told, Wanted};
use crate::ojs::{Paging, normal_path};
use crate::policy::RegionIndex;
use crate::proxy::{
    body::offload::offload,
    call::{ask::Question, fan_out::Said},
};

/// A list as the client asked for it.
pub(super) struct Listing {
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) deadline: Instant,
}

impl Listing {
    /// The page that the client asked for, of a list that is usually paged in this way.
    pub(super) fn wanted(&self, paging: Paging) -> Wanted {
        let by_page = paging == Paging::Names && normal_path(&self.path).starts_with("/ojs/v1/admin/");
        let usual = match paging {
            Paging::Names if by_page => Paging::Page,
            Paging::Names => Paging::Offset,
            other => other,
        };
        Wanted::read(self.query.as_deref(), usual)
    }

    /// Each round has half of the time that is left, so that a region that hangs leaves some for the others.
    pub(super) fn question(&self, query: &str) -> Option<Question> {
        self.question_at(if query.is_empty() { self.path.clone() } else { format!("{}?{query}", self.path) })
    }

    /// As [`Self::question`], with the path.
    pub(super) fn question_at(&self, target: String) -> Option<Question> {
        let now = Instant::now();
        let deadline = now + self.deadline.saturating_duration_since(now) / 2;
        Some(Question::get(PathAndQuery::try_from(target).ok()?, self.headers.clone(), deadline))
    }
}

/// The answers of the regions so far.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) pages: Vec<Page>,
    /// The region of each page.
    pub(super) from: Vec<RegionIndex>,
    /// The list among those asked that each page is of.
    pub(super) legs: Vec<usize>,
    /// Answers that are no page.
    pub(super) unusable: Vec<Said>,
    pub(super) missing: BTreeSet<RegionIndex>,
    /// Whether each page is of the hub's index.
    pub(super) replicas: Vec<bool>,
}

impl Gathered {
    /// Keeps an answer of a list, by its place among those asked, and returns its paging figures where it is a page.
    pub(super) async fn take(&mut self, leg: usize, (index, answer): Said, paging: Paging) -> Option<Told> {
        let page = match &answer {
            Ok(answer) if answer.status == StatusCode::OK => read_page(&answer.body).await,
            _ => None,
        };
        let Some(page) = page else {
            self.missing.insert(index);
            self.unusable.push((index, answer));
            return None;
        };
        let mut told = page.counts().clone();
        if paging == Paging::After {
            told.next = told.next.or_else(|| page.last_id());
        }
        self.keep(leg, index, page, false);
        Some(told)
    }

    /// Keeps a page of a list; `is_replica`: of the hub's index.
    pub(super) fn keep(&mut self, leg: usize, index: RegionIndex, page: Page, is_replica: bool) {
        self.pages.push(page);
        self.from.push(index);
        self.legs.push(leg);
        self.replicas.push(is_replica);
    }

    /// Whether the region itself has given a page of a list.
    pub(super) fn is_answered(&self, leg: usize) -> bool {
        self.legs.iter().zip(&self.replicas).any(|(it, is_replica)| *it == leg && !is_replica)
    }
}

/// A region's answer as a page, where it is one.
pub(super) async fn read_page(body: &Bytes) -> Option<Page> {
    let read = body.clone();
    offload(body.len(), move || Page::read(&read).ok()).await
}
