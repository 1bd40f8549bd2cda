//! One question to several regions at once, and the naming of regions whose answers are missing.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::ask::{NoAnswer, Question, ask, question_headers};
use super::disconnected::disconnected;
use super::each_name::ask_names;
use super::exchange::Exchange;
use crate::ojs::ErrorDocument;
use crate::ojs::header::FEDERATION_PARTIAL;
use crate::policy::RegionIndex;
use crate::proxy::state::{Proxy, RegionAnswer, Reply};
use crate::telemetry::AttemptOutcome;

/// `Retry-After` where no better time is known. Units: seconds.
pub(crate) const RETRY_AFTER_MIN: u64 = 1;

/// A region and its answer.
pub(crate) type Said = (RegionIndex, Result<RegionAnswer, NoAnswer>);

/// A client's headers for a read whose answer is merged or inspected. Ranges and conditions are left out, because each
/// region would evaluate them against its own answer.
pub(crate) fn read_headers(exchange: &Exchange, headers: &HeaderMap) -> HeaderMap {
    let mut headers = question_headers(exchange, headers);
    for name in [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE] {
        headers.remove(name);
    }
    headers
}

/// Asks regions at once; the answers are in the order of the questions.
///
/// Errors: as [`while_wanted`], for reads.
pub(crate) async fn ask_each(
    proxy: &Proxy,
    exchange: &mut Exchange,
    questions: Vec<(RegionIndex, Question)>,
) -> Result<Vec<Said>, ErrorDocument> {
    ask_each_by(proxy, exchange, questions, false).await
}

/// As [`ask_each`]; a queue with shards is asked about by all its names.
///
/// Errors: as [`while_wanted`], for reads.
pub(crate) async fn ask_each_of_all_names(
    proxy: &Proxy,
    exchange: &mut Exchange,
    questions: Vec<(RegionIndex, Question)>,
) -> Result<Vec<Said>, ErrorDocument> {
    ask_each_by(proxy, exchange, questions, true).await
}

async fn ask_each_by(
    proxy: &Proxy,
    exchange: &mut Exchange,
    questions: Vec<(RegionIndex, Question)>,
    by_names: bool,
) -> Result<Vec<Said>, ErrorDocument> {
    let class = exchange.matched.class;
    let are_reads = questions.iter().all(|(_, question)| question.method == Method::GET);
    let asked = questions.into_iter().map(|(index, question)| async move {
        let answer = if by_names {
            ask_names(proxy, class, index, question).await
        } else {
            ask(proxy, class, index, question).await
        };
        (index, answer)
    });
    let started = std::time::Instant::now();
    let said = if are_reads { while_wanted(exchange, join_all(asked)).await? } else { join_all(asked).await };
    exchange.upstream += started.elapsed();
    note_outcome(exchange, said.iter().map(|(_, answer)| answer));
    Ok(said)
}

/// Carries a read on for as long as its client waits for it.
///
/// Errors: `owner_unavailable` once the client has disconnected; the document is not sent to any client.
pub(crate) async fn while_wanted<T>(
    exchange: &mut Exchange,
    read: impl Future<Output = T>,
) -> Result<T, ErrorDocument> {
    let read = tokio::select! {
        read = read => Some(read),
        () = disconnected(exchange.client()) => None,
    };
    read.ok_or_else(|| {
        exchange.vanished();
        ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN)
    })
}

/// Notes how the questions ended: an answer of any region is one.
pub(crate) fn note_outcome<'s>(
    exchange: &mut Exchange,
    said: impl Iterator<Item = &'s Result<RegionAnswer, NoAnswer>>,
) {
    for answer in said {
        exchange.outcome = Some(match answer {
            Ok(_) => AttemptOutcome::Answered,
            Err(NoAnswer::Unknown) => exchange.outcome.unwrap_or(AttemptOutcome::Unknown),
            Err(_) => exchange.outcome.unwrap_or(AttemptOutcome::NotSent),
        });
    }
}

/// Notes the regions that had a part in an answer.
pub(crate) fn name_regions(proxy: &Proxy, exchange: &mut Exchange, regions: impl IntoIterator<Item = RegionIndex>) {
    let regions: BTreeSet<RegionIndex> = regions.into_iter().collect();
    let mut regions = regions.into_iter().map(|index| proxy.region(index).id.clone());
    exchange.region = regions.next();
    exchange.other_regions = regions.collect();
}

/// Names the regions that are missing from an answer.
pub(crate) fn name_missing(proxy: &Proxy, response: &mut Response<Reply>, missing: &BTreeSet<RegionIndex>) {
    let names: Vec<&str> = missing.iter().map(|index| proxy.region(*index).id.as_str()).collect();
    if let Ok(value) = HeaderValue::from_str(&names.join(", "))
        && !names.is_empty()
    {
        response.headers_mut().insert(FEDERATION_PARTIAL, value);
    }
}

/// The answer where no region gave a usable one: an error answer of a region, of the local region first. A 404 is
/// returned only when every region answered 404.
///
/// Errors: 503 `owner_unavailable` where none said anything.
pub(crate) fn nobody(
    proxy: &Proxy,
    exchange: &mut Exchange,
    said: Vec<Said>,
) -> Result<Response<Reply>, ErrorDocument> {
    let local = proxy.shared.registry.view().local;
    let is_no = |said: &Said| said.1.as_ref().is_ok_and(|answer| answer.status == StatusCode::NOT_FOUND);
    let all_no = said.iter().all(is_no);
    let mut document = None;
    let mut word: Option<(RegionIndex, RegionAnswer)> = None;
    for (index, answer) in said.into_iter().filter(|said| all_no || !is_no(said)) {
        match answer {
            // A success without a usable body answers nothing for the client either.
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
