//! Where a cron job or a workflow lives: asked of the regions by its name.
//!
//! Nothing is remembered of cron jobs: they are few, and a name that moved would be found in the wrong place.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::Proxy;
use super::ask::{Question, ask, question_headers};
use super::attempt::RegionAnswer;
use super::exchange::Exchange;
use crate::ojs::{Class, ErrorDocument, answer, path_segment};
use crate::policy::RegionIndex;

/// Pages of a list of cron jobs; with 200 a page, nobody has more.
const PAGES_MAX: usize = 50;
/// What a client is told to wait when nothing better is known.
const RETRY_AFTER_MIN: u64 = 1;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject {
    /// A cron job by its name. `first` is asked first, and if it has the name nobody else is. `quiet`: nobody else hears the
    /// name, because it is part of something that may be bound; their lists are read.
    Cron { first: RegionIndex, quiet: bool },
    /// A workflow by its id.
    Workflow,
}

/// Where it is.
#[derive(Debug)]
pub(super) enum Placed {
    /// In this region; where several have it, in the local one or the first of the registry.
    At(RegionIndex),
    /// In no region: each has said so.
    Nowhere,
    /// No region has it, and not every region could be asked.
    Unsure(ErrorDocument),
    /// The region that was asked first, or the local one, does not tell this client, and says why.
    Said(RegionIndex, RegionAnswer),
}

/// What one region says.
enum Word {
    Here,
    NotHere,
    Silent(ErrorDocument),
    Evasive(RegionAnswer),
}

/// Finds a cron job or a workflow. Bounded by one deadline, by the permits of searches and by the number of regions.
pub(super) async fn place(
    proxy: &Proxy,
    exchange: &Exchange,
    headers: &HeaderMap,
    subject: Subject,
    name: &str,
) -> Placed {
    let view = proxy.shared.registry.view();
    if let (Subject::Workflow, Some(region)) = (subject, proxy.shared.owners.region_of(name))
        && let Some(index) = view.index_of(region.as_str())
    {
        return Placed::At(index);
    }
    let deadline = Instant::now() + proxy.shared.config.limits.call_timeout;
    let Some(_permit) = proxy.shared.lookups.permit(deadline).await else {
        return Placed::Unsure(ErrorDocument::overloaded(RETRY_AFTER_MIN));
    };
    let search = Search { proxy, headers: question_headers(exchange, headers), subject, name, deadline };
    let (first, others): (Vec<_>, Vec<_>) = view.indexes().partition(|index| match subject {
        Subject::Cron { first, .. } => first == *index,
        Subject::Workflow => false,
    });
    let local = view.local;
    drop(view);
    let mut unsure = None;
    for regions in [first, others] {
        match search.among(local, regions).await {
            Placed::At(index) => {
                if matches!(subject, Subject::Workflow) {
                    proxy.shared.owners.learn(name, &proxy.region(index).id);
                }
                return Placed::At(index);
            }
            Placed::Nowhere => {}
            Placed::Unsure(document) => unsure = unsure.or(Some(document)),
            said @ Placed::Said(..) => return said,
        }
    }
    unsure.map_or(Placed::Nowhere, Placed::Unsure)
}

struct Search<'s> {
    proxy: &'s Proxy,
    headers: HeaderMap,
    subject: Subject,
    name: &'s str,
    deadline: Instant,
}

impl Search<'_> {
    /// Asks these regions at once, and waits for all: the same name may be in two.
    async fn among(&self, local: RegionIndex, regions: Vec<RegionIndex>) -> Placed {
        let one = |index| async move { (index, self.word(index).await) };
        let mut asked: FuturesUnordered<_> = regions.into_iter().map(one).collect();
        let main = match self.subject {
            Subject::Cron { first, .. } => first,
            Subject::Workflow => local,
        };
        let (mut here, mut silent, mut said) = (Vec::new(), None, None);
        while let Some((index, word)) = asked.next().await {
            match word {
                Word::Here => here.push(index),
                Word::NotHere => {}
                Word::Silent(document) => silent = silent.or(Some(document)),
                // Such as a 401, or a 429 with its time to wait: that is for the client.
                Word::Evasive(answer) if index == main && answer.status.is_client_error() => said = Some(answer),
                Word::Evasive(_) => {
                    let region = self.proxy.region(index).id.as_str();
                    silent = silent.or_else(|| Some(ErrorDocument::owner_unavailable(Some(region), RETRY_AFTER_MIN)));
                }
            }
        }
        match here.iter().find(|index| **index == local).or(here.iter().min()) {
            Some(&index) => Placed::At(index),
            None => match said {
                Some(answer) => Placed::Said(main, answer),
                None => silent.map_or(Placed::Nowhere, Placed::Unsure),
            },
        }
    }

    async fn word(&self, index: RegionIndex) -> Word {
        let name = path_segment(self.name);
        match self.subject {
            Subject::Workflow => match self.get(index, format!("/ojs/v1/workflows/{name}")).await {
                Ok(answer) if answer.status.is_success() => Word::Here,
                Ok(answer) if is_absent(answer.status) => Word::NotHere,
                Ok(answer) => Word::Evasive(answer),
                Err(document) => Word::Silent(document),
            },
            Subject::Cron { first, quiet: true } if first != index => self.listed(index).await,
            Subject::Cron { .. } => match self.get(index, format!("/ojs/v1/cron/{name}")).await {
                Ok(answer) if answer.status.is_success() => Word::Here,
                // The server's own word; a path that it does not serve is answered without a document.
                Ok(answer) if answer.status == StatusCode::NOT_FOUND && answer::is_error_document(&answer.body) => {
                    Word::NotHere
                }
                Ok(answer) if is_absent(answer.status) => self.listed(index).await,
                Ok(answer) => Word::Evasive(answer),
                Err(document) => Word::Silent(document),
            },
        }
    }

    /// Looks for the name in the region's list, page by page.
    async fn listed(&self, index: RegionIndex) -> Word {
        let mut path = "/ojs/v1/cron?limit=200".to_owned();
        let mut seen = 0;
        for _ in 0..PAGES_MAX {
            let answer = match self.get(index, path).await {
                Ok(answer) if is_absent(answer.status) => return Word::NotHere,
                Ok(answer) if answer.status.is_success() => answer,
                Ok(answer) => return Word::Evasive(answer),
                Err(document) => return Word::Silent(document),
            };
            let Some(list) = answer::cron_list(&answer.body, self.name) else { return Word::Evasive(answer) };
            seen += list.count;
            path = match list.cursor {
                _ if list.found => return Word::Here,
                _ if !list.has_more || list.count == 0 => return Word::NotHere,
                Some(cursor) => format!("/ojs/v1/cron?limit=200&cursor={}", path_segment(&cursor)),
                None => format!("/ojs/v1/cron?limit=200&offset={seen}"),
            };
        }
        Word::Silent(ErrorDocument::owner_unavailable(Some(self.proxy.region(index).id.as_str()), RETRY_AFTER_MIN))
    }

    async fn get(&self, index: RegionIndex, path: String) -> Result<RegionAnswer, ErrorDocument> {
        let silent = || ErrorDocument::owner_unavailable(Some(self.proxy.region(index).id.as_str()), RETRY_AFTER_MIN);
        let path = PathAndQuery::try_from(path).map_err(|_| silent())?;
        let question = Question::get(path, self.headers.clone(), self.deadline);
        ask(self.proxy, Class::Definition, index, &question)
            .await
            .map_err(|silence| silence.document(self.proxy, index))
    }
}

/// Whether a status says that there is no such thing, or that the server does not know such things at all.
const fn is_absent(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
}
