//! Where a cron job or a workflow lives: asked of the regions by its name.
//!
//! Nothing is remembered of cron jobs: they are few, and a name that moved would be found in the wrong place.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use crate::ojs::{Class, ErrorDocument, answer, path_segment};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::{
        ask::{Question, ask, question_headers},
        exchange::Exchange,
    },
    state::{Proxy, RegionAnswer},
};

/// Pages of a list of cron jobs; with 200 a page, enough for 10 000.
const PAGES_MAX: usize = 50;
/// Asked for only to hear whether a server of jobs answers.
const NO_JOB: &str = "/ojs/v1/jobs/00000000-0000-0000-0000-000000000000";
/// `Retry-After` where no better time is known. Units: seconds.
const RETRY_AFTER_MIN: u64 = 1;

/// The thing that is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject {
    /// A cron job by its name. `first` is asked first; if it has the name, no other region is asked. `quiet`: the name
    /// is part of something that may be bound, so that the lists of other regions are read instead of sending it there.
    Cron { first: RegionIndex, quiet: bool },
    /// A workflow by its id.
    Workflow,
}

/// Where it is.
#[derive(Debug)]
pub(crate) enum Placed {
    /// In this region; where several have it, in the local one or the first of the registry.
    At(RegionIndex),
    /// In no region: each has said so.
    Nowhere,
    /// No region has it, and not every region could be asked.
    Unsure(ErrorDocument),
    /// All other regions answered no, and the local one refuses to answer this client: it has the subject, or no region
    /// has. With its answer.
    Hidden(RegionIndex, RegionAnswer),
    /// The region that must have a say, or every region alike, refuses the question: its word is for the client.
    Refused(RegionIndex, RegionAnswer),
}

/// The verdict of one region.
enum Word {
    Here,
    NotHere,
    Silent(ErrorDocument),
    Evasive(RegionAnswer),
}

/// Finds a cron job or a workflow. Bounded by one deadline, by the permits of searches and by the number of regions.
pub(crate) async fn place(
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
    let main = match subject {
        Subject::Cron { first, .. } => first,
        Subject::Workflow => local,
    };
    let mut heard = Heard::default();
    for regions in [first, others] {
        search.among(regions, &mut heard).await;
        if let Some(index) = heard.home(local) {
            if matches!(subject, Subject::Workflow) {
                proxy.shared.owners.learn(name, &proxy.region(index).id);
            }
            return Placed::At(index);
        }
        // The local region itself refuses a subject that is to live there.
        if matches!(subject, Subject::Cron { quiet: true, .. })
            && let Some((index, answer)) = heard.refusal(main)
        {
            return Placed::Refused(index, answer);
        }
    }
    heard.without(proxy, main)
}

/// The verdicts so far.
#[derive(Default)]
struct Heard {
    here: Vec<RegionIndex>,
    noes: usize,
    evasive: Vec<(RegionIndex, RegionAnswer)>,
    silent: Option<ErrorDocument>,
}

impl Heard {
    /// Where several have it, the local region's or the first one's.
    fn home(&self, local: RegionIndex) -> Option<RegionIndex> {
        self.here.iter().find(|index| **index == local).or(self.here.iter().min()).copied()
    }

    /// The refusal of a region, such as a 401, or a 429 with its `Retry-After`.
    fn refusal(&mut self, main: RegionIndex) -> Option<(RegionIndex, RegionAnswer)> {
        let is_refusal = |status: StatusCode| status.is_client_error() && status != StatusCode::NOT_FOUND;
        let place = self.evasive.iter().position(|(index, answer)| *index == main && is_refusal(answer.status))?;
        Some(self.evasive.swap_remove(place))
    }

    /// The result where no region has it.
    fn without(mut self, proxy: &Proxy, main: RegionIndex) -> Placed {
        if let Some(document) = self.silent {
            return Placed::Unsure(document);
        }
        let Some((index, _)) = self.evasive.first() else { return Placed::Nowhere };
        let region = proxy.region(*index).id.as_str();
        let unsure = Placed::Unsure(ErrorDocument::owner_unavailable(Some(region), RETRY_AFTER_MIN));
        let refusals = self.evasive.len();
        let alike = self.evasive.windows(2).all(|pair| matches!(pair, [one, other] if one.1.status == other.1.status));
        match self.refusal(main) {
            Some((index, answer)) if refusals == 1 => Placed::Hidden(index, answer),
            Some((index, answer)) if alike && self.noes == 0 => Placed::Refused(index, answer),
            _ => unsure,
        }
    }
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
    async fn among(&self, regions: Vec<RegionIndex>, heard: &mut Heard) {
        let one = |index| async move { (index, self.word(index).await) };
        let mut asked: FuturesUnordered<_> = regions.into_iter().map(one).collect();
        while let Some((index, word)) = asked.next().await {
            match word {
                Word::Here => heard.here.push(index),
                Word::NotHere => heard.noes += 1,
                Word::Silent(document) => drop(heard.silent.get_or_insert(document)),
                Word::Evasive(answer) => heard.evasive.push((index, answer)),
            }
        }
    }

    async fn word(&self, index: RegionIndex) -> Word {
        let name = path_segment(self.name);
        match self.subject {
            Subject::Workflow => match self.get(index, format!("/ojs/v1/workflows/{name}")).await {
                Ok(answer) if answer.status.is_success() => Word::Here,
                Ok(answer) if is_absent(answer.status) => self.absent(index, answer).await,
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
                Ok(answer) if is_absent(answer.status) => return self.absent(index, answer).await,
                Ok(answer) if answer.status.is_success() => answer,
                Ok(answer) => return Word::Evasive(answer),
                Err(document) => return Word::Silent(document),
            };
            let Some(list) = answer::cron_list(&answer.body, self.name) else { return Word::Evasive(answer) };
            seen += list.count;
            path = match list.cursor {
                _ if list.found => return Word::Here,
                _ if !list.goes_on(seen) => return Word::NotHere,
                Some(cursor) => format!("/ojs/v1/cron?limit=200&cursor={}", path_segment(&cursor)),
                None => format!("/ojs/v1/cron?limit=200&offset={seen}"),
            };
        }
        Word::Silent(ErrorDocument::owner_unavailable(Some(self.proxy.region(index).id.as_str()), RETRY_AFTER_MIN))
    }

    /// The verdict of an answer that says that the server has no such thing, or does not serve such paths. A 404
    /// without an error document may come from a balancer without a server behind it: the region is then asked for a job
    /// that does not exist, which a server answers with an error document.
    async fn absent(&self, index: RegionIndex, answer: RegionAnswer) -> Word {
        if answer.status != StatusCode::NOT_FOUND || answer::is_error_document(&answer.body) {
            return Word::NotHere;
        }
        match self.get(index, NO_JOB.to_owned()).await {
            Ok(said) if answer::is_error_document(&said.body) => Word::NotHere,
            Ok(_) => Word::Evasive(answer),
            Err(document) => Word::Silent(document),
        }
    }

    async fn get(&self, index: RegionIndex, path: String) -> Result<RegionAnswer, ErrorDocument> {
        let silent = || ErrorDocument::owner_unavailable(Some(self.proxy.region(index).id.as_str()), RETRY_AFTER_MIN);
        let path = PathAndQuery::try_from(path).map_err(|_| silent())?;
        let question = Question::get(path, self.headers.clone(), self.deadline);
        ask(self.proxy, Class::Definition, index, question).await.map_err(|silence| silence.document(self.proxy, index))
    }
}

/// Whether a status says that there is no such thing, or that the server does not know such things at all.
const fn is_absent(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
}
