//! The region that has a job: by the index where that knows it, else by asking each region.

use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;

use super::super::record::{RecordError, Wanted};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::super::target::Word;
use super::super::views::Views;
use crate::base::RegionId;
use crate::ojs::query_text;
use crate::region::JobQuestion;
use crate::replica::Record;

/// A job in the region that has it.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) region: RegionId,
    /// Its state there, in the words of OJS.
    pub(super) state: String,
    /// The whole answer that shows it.
    pub(super) shown: Bytes,
}

/// Why no region can be said to have a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoOwner {
    /// None has it.
    Absent,
    /// Several have it.
    Several(Vec<RegionId>),
    /// A region that may have it does not say; why.
    Silent(RegionId, String),
}

impl NoOwner {
    /// The word of the reason.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Absent => "not_found",
            Self::Several(_) => "ambiguous",
            Self::Silent(..) => "region_unavailable",
        }
    }

    /// A sentence for the operator.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Absent => {
                "no region has this job: it was never there, or its region has deleted it behind its end".to_owned()
            }
            Self::Several(regions) => {
                let regions = regions.iter().map(RegionId::as_str).collect::<Vec<_>>().join(", ");
                format!("`region`: {regions} have a job with this id; name one in the query, as in ?region=ID")
            }
            Self::Silent(region, why) => format!(
                "{region} does not say whether it has this job ({why}); send the order again, or name the region in the query, as in ?region=ID"
            ),
        }
    }

    pub(super) fn refusal(&self) -> Refusal {
        let status = match self {
            Self::Absent => StatusCode::NOT_FOUND,
            Self::Several(_) => StatusCode::CONFLICT,
            Self::Silent(..) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal::new(status, self.word(), self.message())
    }
}

/// The regions of this hub.
///
/// Errors: 404 where it has none.
pub(super) fn reached(hub: &Hub) -> Result<&Views, Refusal> {
    hub.views.as_deref().ok_or_else(|| {
        let message = "this hub reaches no region: set `regions` in its configuration".to_owned();
        Refusal::new(StatusCode::NOT_FOUND, "no_regions", message)
    })
}

/// The region of a query `region=ID`, where it has one.
///
/// Errors: 400 for another query, and for a region that this hub does not reach.
pub(super) fn picked(views: &Views, query: &str) -> Result<Option<RegionId>, Refusal> {
    if query.is_empty() {
        return Ok(None);
    }
    let id = query.strip_prefix("region=").filter(|id| !id.contains('&')).map(query_text);
    let id = id.ok_or_else(|| {
        Refusal::bad_request("expected no query but `region=ID`; the other members are those of the body".to_owned())
    })?;
    let region = RegionId::parse(&id).map_err(|error| Refusal::bad_request(format!("`region`: {error}")))?;
    if all(views).contains(&region) {
        return Ok(Some(region));
    }
    Err(Refusal::bad_request(format!("`region`: {region} is not among the `regions` of this hub")))
}

/// The regions that this hub reaches.
pub(super) fn all(views: &Views) -> Vec<RegionId> {
    views.present().0.regions.iter().map(|it| it.id.clone()).collect()
}

/// Finds the region that has a job, and reads the job there. `picked`: the region that has to have it.
///
/// Errors: the record's.
pub(super) async fn find(
    hub: &Hub,
    views: &Views,
    job_id: &str,
    picked: Option<&RegionId>,
) -> Result<Result<Owner, NoOwner>, RecordError> {
    let known = match picked {
        Some(region) => vec![region.clone()],
        None => by_index(hub, job_id).await?,
    };
    let look = async |region: RegionId| {
        let (word, shown) = hub.replays.regions.ask_whole(views, &region, job_id, &JobQuestion::Look).await;
        (region, word, shown)
    };
    let found = decide(join_all(known.iter().cloned().map(look)).await);
    // The index may not know the job, or have learnt of another copy than the one that is there.
    if found.as_ref().is_err_and(|none| *none == NoOwner::Absent) && picked.is_none() {
        let others = all(views).into_iter().filter(|it| !known.contains(it));
        return Ok(decide(join_all(others.map(look)).await));
    }
    Ok(found)
}

/// The regions of the copies of a job that the index knows; none where it knows none.
async fn by_index(hub: &Hub, job_id: &str) -> Result<Vec<RegionId>, RecordError> {
    if hub.index.is_none() {
        return Ok(Vec::new());
    }
    let facts = hub.record.find_changes(Wanted::Job(job_id.to_owned())).await?;
    let copies = Record::of(facts.into_iter().map(|it| it.change)).copies;
    let mut regions: Vec<RegionId> = Vec::new();
    for copy in copies {
        if !regions.contains(&copy.region) {
            regions.push(copy.region);
        }
    }
    Ok(regions)
}

fn decide(heard: Vec<(RegionId, Word, Bytes)>) -> Result<Owner, NoOwner> {
    let (mut owners, mut silent) = (Vec::new(), None);
    for (region, word, shown) in heard {
        match word {
            Word::Has { state, .. } => owners.push(Owner { region, state, shown }),
            // A server that takes no such id has no such job.
            Word::Absent | Word::Refused(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) => {}
            Word::Refused(status) => silent = silent.or(Some((region, format!("it answers {}", status.as_u16())))),
            Word::Other(_) => silent = silent.or(Some((region, "it shows another job".to_owned()))),
            Word::NotSent(why) | Word::Silent(why) => silent = silent.or(Some((region, why))),
        }
    }
    if owners.len() > 1 {
        return Err(NoOwner::Several(owners.into_iter().map(|it| it.region).collect()));
    }
    match (owners.pop(), silent) {
        // The silent one may have it, too.
        (_, Some((region, why))) => Err(NoOwner::Silent(region, why)),
        (Some(owner), None) => Ok(owner),
        (None, None) => Err(NoOwner::Absent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_region_has_a_job_only_where_all_others_say_that_they_do_not() {
        let region = |id: &str| RegionId::parse(id).unwrap();
        let has = || Word::Has { state: "active".to_owned(), enqueued_ms: None, is_started: false };
        let silent = || Word::Silent("why".to_owned());
        let decided = |words: Vec<(&str, Word)>| {
            let heard = words.into_iter().map(|(id, word)| (region(id), word, Bytes::new())).collect();
            decide(heard).map(|it| it.region)
        };
        assert_eq!(decided(vec![("us", has()), ("eu", Word::Absent)]), Ok(region("us")));
        assert_eq!(decided(vec![("us", Word::Refused(StatusCode::BAD_REQUEST))]), Err(NoOwner::Absent));
        assert_eq!(decided(vec![("us", Word::Absent), ("eu", Word::Absent)]), Err(NoOwner::Absent));
        let both = NoOwner::Several(vec![region("us"), region("eu")]);
        assert_eq!(decided(vec![("us", has()), ("eu", has()), ("ap", silent())]), Err(both));
        for (words, at) in [
            (vec![("us", has()), ("eu", silent())], "eu"),
            (vec![("us", Word::Absent), ("eu", Word::NotSent("why".to_owned()))], "eu"),
            (vec![("us", Word::Refused(StatusCode::CONFLICT)), ("eu", has())], "us"),
        ] {
            assert!(matches!(decided(words), Err(NoOwner::Silent(region, _)) if region.as_str() == at), "{at}");
        }
    }
}
