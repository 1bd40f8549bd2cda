//! The jobs of one region as the index has them, the greatest id first: for lists that their region does not answer.
//!
//! States follow from facts, so that jobs are read and then filtered. Each answer reads a bounded part of the index; its `next` says where it
//! ended.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};

use super::endpoint::JOBS;
use super::index::Index;
use super::jobs::present;
use super::record::{Record as HubRecord, RecordError};
use super::response::Refusal;
use super::state::Hub;
use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::ojs::query_text;
use crate::replica::{Change, Copy, Record, is_text};

/// Jobs in one answer: half of the longest page of a client, so that an answer stays far below the bytes that a sidecar takes.
const JOBS_MAX: usize = 500;
/// Jobs in an answer to a query that does not say how many.
const JOBS_USUAL: usize = 50;
/// Facts of all regions that one statement reads: some milliseconds of a file, in which it does nothing else.
const FACTS_AT_ONCE: usize = 2_000;
/// Statements of one answer: the newest 50 000 facts, some ten thousand jobs.
const STATEMENTS_MAX: usize = 25;

/// Whether a request for jobs is one for a list.
pub(super) fn is_asked(path: &str, query: &str) -> bool {
    path == JOBS.trim_end_matches('/') && query.starts_with("region=")
}

/// The parameters of a list.
#[derive(Debug)]
struct Asked {
    region: RegionId,
    states: Vec<String>,
    queue: Option<String>,
    job_type: Option<String>,
    /// The id that the list goes on before.
    before: Option<String>,
    /// Jobs to pass over, where the list is to be counted.
    offset: Option<usize>,
    limit: usize,
}

impl Asked {
    /// Errors: 400 for another query.
    fn read(query: &str) -> Result<Self, Refusal> {
        let wrong = |name: &str, expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
        let (mut region, mut states, mut limit) = (None, Vec::new(), JOBS_USUAL);
        let (mut queue, mut job_type, mut before, mut offset) = (None, None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = query_text(value);
            let number = value.parse::<usize>().ok();
            if !is_text(&value) {
                return Err(wrong(name, "1 to 255 bytes without control characters"));
            }
            match (name, number) {
                ("region", _) => {
                    region = Some(RegionId::parse(&value).map_err(|error| wrong(name, &error.to_string()))?)
                }
                ("state", _) => states = value.split(',').map(str::to_owned).collect(),
                ("queue", _) => queue = Some(value),
                ("type", _) => job_type = Some(value),
                ("before", _) => before = Some(value),
                ("offset", Some(number)) => offset = Some(number),
                ("limit", Some(number @ 1..)) => limit = number.min(JOBS_MAX),
                _ => {
                    let expected =
                        "`region`, `state`, `queue`, `type`, `before`, `offset` and `limit`, the last two as numbers";
                    return Err(wrong(name, expected));
                }
            }
        }
        let region = region.ok_or_else(|| wrong("region", "the id of a region"))?;
        Ok(Self { region, states, queue, job_type, before, offset, limit })
    }

    fn takes(&self, copy: &Copy) -> bool {
        let job = copy.job.as_ref();
        let fits = |wanted: &Option<String>, of: Option<&String>| wanted.is_none() || wanted.as_ref() == of;
        (self.states.is_empty() || self.states.contains(&copy.state))
            && fits(&self.queue, job.and_then(|job| job.queue.as_ref()))
            && fits(&self.job_type, job.and_then(|job| job.job_type.as_ref()))
    }
}

/// How much one answer reads.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    facts_at_once: usize,
    statements: usize,
}

/// A part of the list.
#[derive(Debug, Default)]
struct Part {
    jobs: Vec<Copy>,
    /// The id to go on before; none where nothing is behind.
    next: Option<String>,
    /// Those that fit, as far as they were read.
    taken: usize,
    /// Whether older facts were not read.
    is_cut: bool,
}

/// A part of the list: `jobs`; `next`, the id to go on before, where there may be more; with `offset`, `total`, and `cut` where only
/// the newest facts were counted. `lag_ms` is how far this hub is behind the region.
///
/// Errors: 400 for another query; 404 for a region that this hub gets no facts of.
pub(super) async fn list(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let (index, asked) = (present(hub)?, Asked::read(query)?);
    let now_ms = hub.clock.unix_ms();
    let lag_ms = lag_ms(index, &asked.region, now_ms)?;
    let part = part(&hub.record, &asked, Bounds { facts_at_once: FACTS_AT_ONCE, statements: STATEMENTS_MAX }).await?;
    let as_of = lag_ms.map(|lag| rfc3339(now_ms.saturating_sub(lag)));
    let is_counted = asked.offset.is_some();
    Ok(json!({
        "region": asked.region,
        "as_of": as_of,
        "lag_ms": lag_ms,
        "jobs": part.jobs.iter().map(shown).collect::<Vec<_>>(),
        "next": part.next,
        "total": is_counted.then_some(part.taken),
        "cut": is_counted && part.is_cut,
        "limit": asked.limit,
    }))
}

/// Reads on until the part is full, or to the end where jobs are counted.
async fn part(record: &HubRecord, asked: &Asked, bounds: Bounds) -> Result<Part, RecordError> {
    let (mut part, mut before) = (Part::default(), asked.before.clone());
    let offset = asked.offset.unwrap_or(0);
    for _ in 0..bounds.statements {
        let (facts, end) = record.jobs_before(asked.region.as_str(), before, bounds.facts_at_once).await?;
        for copy in copies(facts.into_iter().map(|it| it.change)).filter(|copy| asked.takes(copy)) {
            part.taken += 1;
            if part.taken <= offset {
                continue;
            }
            if part.jobs.len() < asked.limit {
                part.next = Some(copy.job_id.clone());
                part.jobs.push(copy);
            } else if asked.offset.is_none() {
                return Ok(part);
            }
        }
        if end.is_none() {
            return Ok(Part { next: None, ..part });
        }
        before = end;
    }
    // All up to here was read, and a part that is not full goes on behind it.
    let next = if part.jobs.len() < asked.limit { before } else { part.next };
    Ok(Part { next, is_cut: true, ..part })
}

/// How far this hub is behind a region; none before it has heard its hub. Units: milliseconds.
///
/// Errors: 404 for a region that is neither that of the index nor one of its sources.
fn lag_ms(index: &Index, region: &RegionId, now_ms: u64) -> Result<Option<u64>, Refusal> {
    if *region == index.settings.region {
        return Ok(Some(0));
    }
    if !index.settings.from.iter().any(|it| it.region == *region) {
        let message = format!("this hub gets no facts of {region}: add its hub to `index.from`");
        return Err(Refusal::new(StatusCode::NOT_FOUND, "region_not_indexed", message));
    }
    Ok(index.sources.borrow().get(region).and_then(|lag| lag.ms(now_ms)))
}

/// The copies that facts of one region are about, the greatest id first as the record compares ids.
fn copies(facts: impl Iterator<Item = Change>) -> impl Iterator<Item = Copy> {
    let (mut order, mut jobs) = (Vec::new(), BTreeMap::<String, Vec<Change>>::new());
    for it in facts {
        if order.last() != Some(&it.job_id) {
            order.push(it.job_id.clone());
        }
        jobs.entry(it.job_id.clone()).or_default().push(it);
    }
    order.into_iter().filter_map(move |id| Record::of(jobs.remove(&id)?).copies.pop())
}

/// Never more than look-ups show.
fn shown(copy: &Copy) -> Value {
    let job = copy.job.as_ref();
    json!({
        "job_id": copy.job_id,
        "federation_id": copy.federation_id,
        "type": job.and_then(|job| job.job_type.as_ref()),
        "queue": job.and_then(|job| job.queue.as_ref()),
        "state": copy.state,
        "enqueued_at": rfc3339(copy.enqueued_ms()),
        "changed_at": rfc3339(copy.changed_ms),
        "bound": job.map(|job| job.bound),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::settings::RecordSettings;
    use crate::replica::ChangeKind;

    /// Nine jobs of a region, of which three are in another state, between jobs of another region.
    async fn filled() -> HubRecord {
        let record = HubRecord::open(&RecordSettings::default()).unwrap();
        let fact = |id: usize, region: &str, state: &str| Change {
            job_id: format!("job-{id:02}"),
            region: RegionId::parse(region).unwrap(),
            kind: ChangeKind::Created,
            lease_ms: 0,
            at_ms: 5,
            federation_id: None,
            state: Some(state.to_owned()),
            replicated_from: None,
            job: None,
            observed_by: None,
        };
        let own = (1..=9).map(|it| fact(it * 2, "eu", if it % 3 == 0 { "scheduled" } else { "available" }));
        let others = (0..=9).map(|it| fact(it * 2 + 1, "us", "available"));
        record.save_changes("eu", own.chain(others).collect(), None).await.unwrap();
        record
    }

    /// The numbers of the jobs of all parts, and how many parts there were.
    async fn all_parts(record: &HubRecord, query: &str, bounds: Bounds) -> (Vec<String>, usize) {
        let mut asked = Asked::read(query).unwrap();
        let (mut found, mut parts) = (Vec::new(), 0);
        loop {
            let part = part(record, &asked, bounds).await.unwrap();
            parts += 1;
            assert!(part.jobs.len() <= asked.limit && parts < 30);
            found.extend(part.jobs.iter().map(|it| it.job_id.trim_start_matches("job-").to_owned()));
            match part.next {
                Some(next) => asked.before = Some(next),
                None => return (found, parts),
            }
        }
    }

    #[tokio::test]
    async fn every_size_of_parts_and_statements_gives_each_job_once_in_order() {
        let record = filled().await;
        for facts_at_once in [1, 2, 3, 7, 19, 50] {
            for statements in [1, 2, 5, 30] {
                let bounds = Bounds { facts_at_once, statements };
                for limit in [1, 2, 3, 4, 9, 10] {
                    let (found, _) = all_parts(&record, &format!("region=eu&limit={limit}"), bounds).await;
                    assert_eq!(found.join(" "), "18 16 14 12 10 08 06 04 02", "{bounds:?} {limit}");
                    let query = format!("region=eu&limit={limit}&state=retryable,scheduled");
                    assert_eq!(all_parts(&record, &query, bounds).await.0.join(" "), "18 12 06", "{bounds:?} {limit}");
                }
            }
        }
        let whole = Bounds { facts_at_once: 50, statements: 1 };
        assert_eq!(all_parts(&record, "region=eu&limit=9", whole).await.1, 1, "nothing is behind a part with all jobs");
        assert_eq!(all_parts(&record, "region=eu&limit=3", whole).await.1, 3);
    }

    #[tokio::test]
    async fn a_list_that_is_counted_counts_what_one_answer_reads() {
        let record = filled().await;
        let counted = async |query: &str, statements| {
            let asked = Asked::read(query).unwrap();
            let part = part(&record, &asked, Bounds { facts_at_once: 5, statements }).await.unwrap();
            let ids: Vec<String> = part.jobs.into_iter().map(|it| it.job_id).collect();
            (ids.join(" "), part.taken, part.is_cut)
        };
        assert_eq!(counted("region=eu&offset=7&limit=5", 5).await, ("job-04 job-02".to_owned(), 9, false));
        assert_eq!(
            counted("region=eu&offset=1&limit=2&state=scheduled", 5).await,
            ("job-12 job-06".to_owned(), 3, false)
        );
        // The newest ten facts of both regions.
        assert_eq!(counted("region=eu&offset=0&limit=2", 2).await, ("job-18 job-16".to_owned(), 5, true));
    }
}
