//! One search: the answers of the regions, and the conclusion from all of them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::called_off::{RETRY_AFTER_MIN, was_called_off};
use crate::ojs::{Class, ErrorDocument, hint};
use crate::policy::RegionIndex;
use crate::proxy::{
    body::{
        offload::offload,
        shown_job::{has, no_job},
    },
    call::ask::{NoAnswer, Question, ask},
    state::{Found, Indeterminate, Left, NotFound, Proxy, RegionAnswer},
};
use crate::telemetry::LookupResult;

/// A job that was cancelled is shown after this long although another region may have a copy that lives: a region that hangs holds
/// up no look-up of it.
const TWIN_MAX: Duration = Duration::from_secs(2);

/// The answers of the regions that do not have the job.
#[derive(Debug, Default)]
pub(super) struct Search {
    nowhere: Vec<(RegionIndex, RegionAnswer)>,
    /// Regions in which a tombstone has its id.
    fenced: usize,
    /// The first region that shows the job as one that was cancelled before it began.
    pub(super) called_off: Option<RegionIndex>,
    /// Until when the others are waited for then.
    patience: Option<Instant>,
    /// Regions that refused the question.
    refused: Vec<(RegionIndex, RegionAnswer)>,
    /// The first region that said nothing, or nothing that is about the job.
    silent: Option<ErrorDocument>,
}

impl Search {
    /// The first of these regions that has the job; the others are not waited for then.
    pub(super) async fn ask(
        &mut self,
        proxy: &Proxy,
        regions: Vec<RegionIndex>,
        id: &str,
        question: &Question,
    ) -> Option<RegionIndex> {
        let one = |index| async move { (index, ask(proxy, Class::Job, index, question.clone()).await) };
        let mut asked: FuturesUnordered<_> = regions.into_iter().map(one).collect();
        while !asked.is_empty() {
            let next = match self.patience {
                Some(until) => timeout_at(until, asked.next()).await,
                None => Ok(asked.next().await),
            };
            let Ok(next) = next else {
                self.silent.get_or_insert_with(|| ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN));
                break;
            };
            let Some((index, answered)) = next else { break };
            match answered {
                Ok(answer) => match has(&answer, id).await {
                    Some(true) => {
                        let body = answer.body;
                        if !offload(body.len(), move || was_called_off(&body)).await {
                            return Some(index);
                        }
                        self.called_off.get_or_insert(index);
                        self.patience.get_or_insert_with(|| Instant::now() + TWIN_MAX);
                    }
                    // A tombstone.
                    Some(false) if answer.status.is_success() => {
                        proxy.shared.owners.forget_in(id, &proxy.region(index).id);
                        self.fenced += 1;
                    }
                    Some(false) => self.nowhere.push((index, answer)),
                    None if is_refusal(answer.status) => self.refused.push((index, answer)),
                    None => self.is_silent(proxy, index, NoAnswer::Unknown),
                },
                Err(silence) => self.is_silent(proxy, index, silence),
            }
        }
        None
    }

    fn is_silent(&mut self, proxy: &Proxy, index: RegionIndex, silence: NoAnswer) {
        self.silent.get_or_insert_with(|| silence.document(proxy, index));
    }

    /// Whether every region has answered.
    pub(super) fn has_heard_all(&self) -> bool {
        self.silent.is_none() && self.refused.is_empty()
    }

    /// The result where no region has the job.
    pub(super) fn without(self, proxy: &Proxy, id: &str) -> (LookupResult, Found) {
        let local = proxy.shared.registry.view().local;
        let Self { nowhere, fenced, refused, silent, called_off, .. } = self;
        let called_off = called_off.map(|index| Left::CalledOff(proxy.region(index).id.clone()));
        if let Some(document) = silent {
            let left = called_off.unwrap_or(Left::Unknown);
            return (LookupResult::Unsure, Found::Unsure(Indeterminate { left, ..Indeterminate::new(document) }));
        }
        if let Some((index, _)) = refused.first() {
            let document = NoAnswer::Unknown.document(proxy, *index);
            let left = called_off.unwrap_or_else(|| left(proxy, id, nowhere.is_empty() && fenced == 0, refused));
            return (LookupResult::Unsure, Found::Unsure(Indeterminate { left, ..Indeterminate::new(document) }));
        }
        let mut words = nowhere.into_iter();
        let first = words.next();
        match words.find(|(index, _)| *index == local).or(first) {
            Some((index, answer)) => {
                let region = Some(proxy.region(index).id.clone());
                (LookupResult::Nowhere, Found::Nowhere(Arc::new(NotFound { answer, region })))
            }
            None if fenced > 0 => {
                (LookupResult::Nowhere, Found::Nowhere(Arc::new(NotFound { answer: no_job(), region: None })))
            }
            None => {
                let document = ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN);
                (LookupResult::Unsure, Found::Unsure(Indeterminate::new(document)))
            }
        }
    }
}

/// The regions left where some refused the question and all others, if any, do not have the job.
fn left(proxy: &Proxy, id: &str, all_refused: bool, refused: Vec<(RegionIndex, RegionAnswer)>) -> Left {
    let local = proxy.shared.registry.view().local;
    if let [(index, _)] = refused.as_slice() {
        let only = &proxy.region(*index).id;
        if *index == local || hint::names(id, only.as_str()) {
            return Left::Only(only.clone());
        }
    }
    let alike = refused.windows(2).all(|pair| matches!(pair, [(_, one), (_, other)] if one.status == other.status));
    let own = refused.into_iter().find(|(index, _)| *index == local).filter(|_| alike && all_refused);
    match own {
        // Where no server looks up a job there is none: such an id is a word of the path, such as `batch`.
        Some((_, answer)) if answer.status == StatusCode::METHOD_NOT_ALLOWED => {
            Left::Only(proxy.region(local).id.clone())
        }
        Some((_, answer)) => Left::Refused(Arc::new(answer)),
        None => Left::Unknown,
    }
}

/// Whether a region refuses to answer this client, as with 401, 403 or 429. A 404 without an error document is no such
/// refusal.
fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() && status != StatusCode::NOT_FOUND
}
