//! One call to several regions at once, and what becomes of those that are missing.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use http::{HeaderValue, Response};

use super::ask::{Question, Silence, ask};
use super::attempt::RegionAnswer;
use super::exchange::Exchange;
use super::{Proxy, Reply};
use crate::ojs::ErrorDocument;
use crate::ojs::header::FEDERATION_PARTIAL;
use crate::policy::RegionIndex;
use crate::telemetry::AttemptOutcome;

/// What a client is told to wait when nothing better is known.
pub(super) const RETRY_AFTER_MIN: u64 = 1;

/// What a region said.
pub(super) type Said = (RegionIndex, Result<RegionAnswer, Silence>);

/// Asks regions at once; the answers are in the order of the questions.
pub(super) async fn ask_each(
    proxy: &Proxy,
    exchange: &mut Exchange,
    questions: Vec<(RegionIndex, Question)>,
) -> Vec<Said> {
    let class = exchange.matched.class;
    let started = std::time::Instant::now();
    let asked = questions
        .into_iter()
        .map(|(index, question)| async move { (index, ask(proxy, class, index, &question).await) });
    let said = join_all(asked).await;
    exchange.upstream += started.elapsed();
    for (_, answer) in &said {
        exchange.outcome = Some(match answer {
            Ok(_) => AttemptOutcome::Answered,
            Err(Silence::Unknown) => exchange.outcome.unwrap_or(AttemptOutcome::Unknown),
            Err(_) => exchange.outcome.unwrap_or(AttemptOutcome::NotSent),
        });
    }
    said
}

/// Notes the region of an answer that only one region had a part in.
pub(super) fn name_region(proxy: &Proxy, exchange: &mut Exchange, regions: &BTreeSet<RegionIndex>) {
    let mut regions = regions.iter();
    exchange.region = match (regions.next(), regions.next()) {
        (Some(index), None) => Some(proxy.region(*index).id.clone()),
        _ => None,
    };
}

/// Names the regions that are missing from an answer.
pub(super) fn name_missing(proxy: &Proxy, response: &mut Response<Reply>, missing: &BTreeSet<RegionIndex>) {
    let names: Vec<&str> = missing.iter().map(|index| proxy.region(*index).id.as_str()).collect();
    if let Ok(value) = HeaderValue::from_str(&names.join(", "))
        && !names.is_empty()
    {
        response.headers_mut().insert(FEDERATION_PARTIAL, value);
    }
}

/// What a client is told where no region gave a usable answer: what one said all the same, the local one first.
///
/// Errors: 503 `owner_unavailable` where none said anything.
pub(super) fn nobody(
    proxy: &Proxy,
    exchange: &mut Exchange,
    said: Vec<Said>,
) -> Result<Response<Reply>, ErrorDocument> {
    let local = proxy.shared.registry.view().local;
    let mut document = None;
    let mut word: Option<(RegionIndex, RegionAnswer)> = None;
    for (index, answer) in said {
        match answer {
            // What is no answer to the question is none to the client either.
            Ok(answer) if answer.status.is_success() => {}
            Ok(answer) if word.is_none() || index == local => word = Some((index, answer)),
            Ok(_) => {}
            Err(silence) => {
                document.get_or_insert_with(|| (index, silence.document(proxy, index)));
            }
        }
    }
    if let Some((index, answer)) = word {
        exchange.region = Some(proxy.region(index).id.clone());
        return Ok(answer.into());
    }
    let (region, document) = match document {
        Some((index, document)) => (Some(proxy.region(index).id.clone()), document),
        None => (None, ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN)),
    };
    exchange.region = region;
    Err(document)
}
