//! Calls about one worker: read in all regions, changed in those that know the worker.
//!
//! A worker is known to the regions that it beats in, which need not be the local one. Some servers note a word for a worker that
//! they have never seen and answer 200, so a change is sent only where the worker is; where no region knows it, to all.

use crate::net::IncomingBody;
use futures_util::future::join_all;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::time::Instant;

use super::sum::{every, everywhere, figures, followed, is_for_one};
use crate::ojs::list::Page;
use crate::ojs::{Class, ErrorDocument, answer, path_segment};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::{
        ask::{NoAnswer, Question, ask, question_headers},
        exchange::Exchange,
        fan_out::{RETRY_AFTER_MIN, Said, name_missing, name_regions, while_wanted},
    },
    state::{Proxy, RegionAnswer, Reply},
    stream::local::local,
};

/// Pages of a region's list of workers that are looked through, of 100 workers each: more than a region of any size has.
const PAGES_MAX: u64 = 50;
/// No server gives fewer on a page when asked for as many.
const PER_PAGE: u64 = 100;

/// Passes a call about one worker to the regions that know it.
///
/// Errors: those of [`local`]; 503 `owner_unavailable` where no region knows the worker and not all could be asked; 503
/// `regions_missing` where not all that know it have followed.
pub(crate) async fn worker(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    if is_for_one(proxy, exchange) {
        return local(proxy, exchange, request).await;
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        let said = everywhere(proxy, exchange, request, every(proxy)).await?;
        return match only(said) {
            Ok((index, answer)) => Ok(of_one(proxy, exchange, index, answer)),
            Err(said) => figures(proxy, exchange, said),
        };
    }
    let id = exchange.matched.named_in(request.uri().path());
    let search = Search {
        proxy,
        class: exchange.matched.class,
        headers: question_headers(exchange, request.headers()),
        id,
        deadline: Instant::now() + proxy.shared.config.limits.call_timeout,
    };
    let Known { regions, unasked } = while_wanted(exchange, search.run()).await??;
    let regions = if regions.is_empty() { every(proxy) } else { regions };
    let said = everywhere(proxy, exchange, request, regions).await?;
    let mut response = match only(said) {
        Ok((index, answer)) => of_one(proxy, exchange, index, answer),
        Err(said) => followed(proxy, exchange, said)?,
    };
    name_missing(proxy, &mut response, &unasked.into_iter().collect());
    Ok(response)
}

/// The one success, where all others have said that they do not know the worker.
fn only(mut said: Vec<Said>) -> Result<(RegionIndex, RegionAnswer), Vec<Said>> {
    let is_success = |said: &Said| said.1.as_ref().is_ok_and(|answer| answer.status.is_success());
    let is_no = |said: &Said| said.1.as_ref().is_ok_and(|answer| is_absent(answer.status));
    let successes = said.iter().filter(|said| is_success(said)).count();
    if successes != 1 || !said.iter().all(|said| is_success(said) || is_no(said)) {
        return Err(said);
    }
    let place = said.iter().position(is_success).unwrap_or_default();
    match said.swap_remove(place) {
        (index, Ok(answer)) => Ok((index, answer)),
        other => Err(vec![other]),
    }
}

fn of_one(proxy: &Proxy, exchange: &mut Exchange, index: RegionIndex, answer: RegionAnswer) -> Response<Reply> {
    name_regions(proxy, exchange, [index]);
    answer.into()
}

/// Which regions know a worker.
struct Known {
    regions: Vec<RegionIndex>,
    /// Those that did not say.
    unasked: Vec<RegionIndex>,
}

/// The verdict of one region.
enum Word {
    Known,
    Unknown,
    /// An answer that says neither, such as a 403.
    Evasive,
    Silent(NoAnswer),
}

struct Search<'s> {
    proxy: &'s Proxy,
    class: Class,
    headers: HeaderMap,
    id: String,
    deadline: Instant,
}

impl Search<'_> {
    /// Asks all regions at once. A region that is silent is passed over where another knows the worker.
    ///
    /// Errors: 503 `owner_unavailable` where none knows it and one was silent; 503 `overloaded` where too many searches are
    /// under way.
    async fn run(&self) -> Result<Known, ErrorDocument> {
        let Some(_permit) = self.proxy.shared.lookups.permit(self.deadline).await else {
            return Err(ErrorDocument::overloaded(RETRY_AFTER_MIN));
        };
        let asked = every(self.proxy).into_iter().map(|index| async move { (index, self.word(index).await) });
        let mut known = Known { regions: Vec::new(), unasked: Vec::new() };
        let mut document = None;
        for (index, word) in join_all(asked).await {
            match word {
                Word::Known => known.regions.push(index),
                Word::Unknown => {}
                Word::Evasive => known.unasked.push(index),
                Word::Silent(silence) => {
                    known.unasked.push(index);
                    document.get_or_insert_with(|| silence.document(self.proxy, index));
                }
            }
        }
        match document {
            Some(document) if known.regions.is_empty() => Err(document),
            _ if known.regions.is_empty() => Ok(Known { regions: Vec::new(), unasked: Vec::new() }),
            _ => Ok(known),
        }
    }

    /// By the worker's own path, and where the server does not have that, or says no, by its list.
    async fn word(&self, index: RegionIndex) -> Word {
        match self.get(index, format!("/ojs/v1/admin/workers/{}", path_segment(&self.id))).await {
            Ok(answer) if answer.status.is_success() => Word::Known,
            Ok(answer) if is_absent(answer.status) => self.listed(index).await,
            Ok(_) => Word::Evasive,
            Err(silence) => Word::Silent(silence),
        }
    }

    async fn listed(&self, index: RegionIndex) -> Word {
        let mut seen = 0;
        for page in 1..=PAGES_MAX {
            let answer = match self.get(index, format!("/ojs/v1/admin/workers?page={page}&per_page={PER_PAGE}")).await {
                Ok(answer) if answer.status == StatusCode::OK => answer,
                Ok(answer) if is_absent(answer.status) => return Word::Unknown,
                Ok(_) => return Word::Evasive,
                Err(silence) => return Word::Silent(silence),
            };
            let Ok(list) = Page::read(&answer.body) else { return Word::Evasive };
            if list.items().any(|item| self.is_named(&item)) {
                return Word::Known;
            }
            let told = list.counts();
            seen += told.items as u64;
            let all_read = told.total.is_none_or(|total| seen >= total);
            if told.items == 0 || !told.has_more.unwrap_or(!all_read) {
                return Word::Unknown;
            }
        }
        Word::Evasive
    }

    fn is_named(&self, item: &[u8]) -> bool {
        ["id", "worker_id"].iter().any(|name| answer::text_member(item, name).is_some_and(|id| id == self.id))
    }

    async fn get(&self, index: RegionIndex, path: String) -> Result<RegionAnswer, NoAnswer> {
        // An id that makes no path is known to no region.
        let Ok(path) = PathAndQuery::try_from(path) else { return Err(NoAnswer::NotSent) };
        let question = Question::get(path, self.headers.clone(), self.deadline);
        ask(self.proxy, self.class, index, question).await
    }
}

/// Whether a status says that there is no such worker, or that the server does not know such paths.
const fn is_absent(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
}
