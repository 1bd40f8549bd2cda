//! The list of a region that is down, as the hub's index has it, with `lists.replicas: mark`.
//!
//! A replica begins where the list of its region begins, and goes on to its own end, also when the region is back: its cursors are its own. A
//! list that its region has begun is never continued by the index.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::listing::{Listing, read_page};
use crate::base::{Reason, RegionId};
use crate::config::{ListReplicas, ReadResidency};
use crate::ojs::header::FEDERATION_REPLICAS;
use crate::ojs::list::{Ask, Cursor, Leg, Page, Place, Start, Wanted};
use crate::ojs::{ErrorDocument, Paging, normal_path, path_segment, query_value};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::{
        ask::NoAnswer,
        exchange::Exchange,
        fan_out::{Said, while_wanted},
    },
    state::{Proxy, Reply},
};
use crate::replica::{IndexAnswer, is_text};

/// The lists of all jobs, below their prefixes.
const WHOLE: &[&str] = &["jobs"];
/// Before the place of a replica, in a cursor: no server's cursor has a control character.
const MARK: char = '\u{1}';

/// Parts of a replica that are read for one that has a job, where a filter takes few: 200 000 facts, a hundred statements of the hub.
const PARTS_MAX: usize = 4;

/// A job of a replica that may not be shown, in its place, so that the jobs behind it keep theirs.
pub(super) const HIDDEN: &[u8] = b"null";

/// Whether a region has not answered by itself: nothing came, or a proxy before it said so. Where this sidecar has too much to do, nothing is
/// known of the region.
pub(super) fn is_down((_, said): &Said) -> bool {
    let silent = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    match said {
        Ok(answer) => silent.contains(&answer.status),
        Err(NoAnswer::Closed(refusal)) => refusal.reason == Reason::OwnerUnavailable,
        Err(NoAnswer::NotSent | NoAnswer::Unknown) => true,
    }
}

/// The replicas of one list.
pub(super) struct Replicas {
    /// The filters of the list as the hub takes them; none where there are no replicas of it.
    filters: Option<String>,
    deadline: tokio::time::Instant,
    /// Whether the list is counted by offsets of the whole.
    is_counted: bool,
    /// The name of the jobs, and of the size of a page.
    names: (&'static str, &'static str),
    /// The lists that replicas answer in this call.
    begun: BTreeSet<usize>,
    /// Those that replicas have ended on earlier pages.
    ended: BTreeSet<usize>,
    /// By region: the age of its replica in seconds, where it is known, and whether it has only the newest jobs.
    shown: BTreeMap<RegionId, (Option<u64>, bool)>,
}

/// An answer of the hub.
#[derive(Deserialize)]
struct Replica {
    as_of: Option<String>,
    lag_ms: Option<u64>,
    jobs: Vec<Known>,
    next: Option<String>,
    total: Option<u64>,
    cut: bool,
    limit: u64,
}

/// One job in it.
#[derive(Deserialize)]
struct Known {
    job_id: String,
    federation_id: Option<String>,
    #[serde(rename = "type")]
    job_type: Option<String>,
    queue: Option<String>,
    state: String,
    enqueued_at: String,
    changed_at: String,
    bound: Option<bool>,
}

impl Replicas {
    /// `is_sharded`: of a queue with shards, which the index does not put back to one queue.
    pub(super) fn of(proxy: &Proxy, listing: &Listing, wanted: &Wanted, ids: &[RegionId], is_sharded: bool) -> Self {
        let is_on = proxy.shared.config.lists.replicas == ListReplicas::Mark && !is_sharded;
        let is_counted = !matches!(wanted.start, Start::Offset(0) | Start::Cursor(_));
        let path = normal_path(&listing.path);
        let is_admin = path.starts_with("/ojs/v1/admin/");
        let jobs = if is_admin { "items" } else { "jobs" };
        let ended = match &wanted.start {
            Start::Cursor(text) => Cursor::decode(text, &path).ok(),
            Start::Offset(_) | Start::Page(_) => None,
        };
        let ids_ended = |cursor: Cursor| {
            ids.iter().enumerate().filter(move |(_, id)| cursor.leg(id).by_replica).map(|(leg, _)| leg)
        };
        Self {
            filters: if is_on { filters(&path, wanted.query_unpaged()) } else { None },
            deadline: listing.deadline,
            is_counted,
            names: (jobs, if wanted.paging == Paging::Page { "per_page" } else { "limit" }),
            begun: BTreeSet::new(),
            ended: ended.into_iter().flat_map(ids_ended).collect(),
            shown: BTreeMap::new(),
        }
    }

    /// Whether a question is for a replica that answers this list already, in this call or in the one that gave its cursor.
    pub(super) fn has_begun(&self, ask: &Ask) -> bool {
        self.begun.contains(&ask.leg) || matches!(&ask.place, Place::Cursor(cursor) if cursor.starts_with(MARK))
    }

    /// Whether a replica may answer a question that its region has not answered: the region has shown nothing of the list before.
    pub(super) fn may_begin(&self, ask: &Ask) -> bool {
        let is_beginning =
            matches!(ask.place, Place::Start) || (self.is_counted && matches!(ask.place, Place::Offset(_)));
        self.filters.is_some() && is_beginning
    }

    /// The hub's answers, one after the other; none for a replica that it does not show. Bounded by the deadline of the list.
    ///
    /// Errors: the client has disconnected.
    pub(super) async fn pages(
        &mut self,
        proxy: &Proxy,
        exchange: &mut Exchange,
        legs: &[(RegionIndex, &str, RegionId)],
        asks: Vec<Ask>,
    ) -> Result<Vec<(Ask, Option<Page>)>, ErrorDocument> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let region_of = |ask: &Ask| legs.get(ask.leg).map(|(.., region)| region);
        let parts = async {
            let turn = proxy.shared.index.turn_of_list(self.deadline).await;
            let mut parts = Vec::with_capacity(asks.len());
            for ask in &asks {
                parts.push(match region_of(ask).filter(|_| turn.is_some()) {
                    Some(region) => self.part(proxy, region, ask).await,
                    None => None,
                });
            }
            parts
        };
        let parts = while_wanted(exchange, parts).await?;
        let mut pages = Vec::with_capacity(asks.len());
        for (ask, part) in asks.into_iter().zip(parts) {
            let page = match (part, region_of(&ask)) {
                (Some(replica), Some(region)) => self.page(proxy, region, &ask, replica).await,
                _ => None,
            };
            pages.push((ask, page));
        }
        Ok(pages)
    }

    /// The first part of a replica that has jobs, or its end; none where the hub shows none.
    async fn part(&self, proxy: &Proxy, region: &RegionId, ask: &Ask) -> Option<Replica> {
        let mut path = self.path(region, ask)?;
        for _ in 0..PARTS_MAX {
            let IndexAnswer::Shown(answer) = proxy.shared.index.ask(path, self.deadline).await else { return None };
            let replica: Replica = serde_json::from_slice(&answer).ok()?;
            if self.is_of_use(ask, &replica) {
                return Some(replica);
            }
            // One that is counted is read from its beginning by each answer.
            let next = replica.next.filter(|_| !self.is_counted)?;
            path = self.path(region, &Ask { place: Place::Cursor(format!("{MARK}{next}")), ..ask.clone() })?;
        }
        None
    }

    /// Whether an answer of the hub is a page of the list. An empty replica is none: its region is read when it is back.
    fn is_of_use(&self, ask: &Ask, replica: &Replica) -> bool {
        if self.is_counted {
            return replica.total.is_some_and(|total| total > 0);
        }
        !replica.jobs.is_empty() || (replica.next.is_none() && matches!(ask.place, Place::Cursor(_)))
    }

    /// The lists that replicas have ended on earlier pages.
    pub(super) fn ended(&self) -> impl Iterator<Item = usize> + '_ {
        self.ended.iter().copied()
    }

    /// The composite cursor of the page, with a note of the lists that replicas have ended. None where one has begun by its number of jobs:
    /// its region would go on at that place of its own list.
    pub(super) fn cursor(&self, mut cursor: Cursor, ids: &[RegionId]) -> Option<Cursor> {
        if self.is_counted && !self.begun.is_empty() {
            return None;
        }
        for (leg, id) in ids.iter().enumerate() {
            let read = cursor.leg(id);
            if read.place == Place::End && (self.begun.contains(&leg) || self.ended.contains(&leg)) {
                cursor.set(id.clone(), Leg { by_replica: true, ..read });
            }
        }
        Some(cursor)
    }

    fn path(&self, region: &RegionId, ask: &Ask) -> Option<String> {
        let filters = self.filters.as_ref()?;
        let mut path = format!("/v1/federation/jobs?region={region}{filters}&limit={}", ask.limit);
        match &ask.place {
            Place::Cursor(cursor) => path += &format!("&before={}", path_segment(cursor.strip_prefix(MARK)?)),
            Place::Start if self.is_counted => path += "&offset=0",
            Place::Offset(offset) => path += &format!("&offset={offset}"),
            Place::Start => {}
            Place::End => return None,
        }
        Some(path)
    }

    async fn page(&mut self, proxy: &Proxy, region: &RegionId, ask: &Ask, replica: Replica) -> Option<Page> {
        let config = &proxy.shared.config;
        let is_hidden = |job: &Known| {
            config.residency.read_lists == ReadResidency::Deny
                && job.bound != Some(false)
                && *region != config.local_region
        };
        let as_of = replica.as_of.as_deref();
        let shown = |job| if is_hidden(job) { Value::Null } else { item(job, region, as_of) };
        let shown: Vec<Value> = replica.jobs.iter().map(shown).collect();
        let cursor = replica.next.as_ref().map(|next| format!("{MARK}{next}"));
        let (jobs, size) = self.names;
        let mut figures = json!({ "has_more": cursor.is_some(), "next_cursor": cursor });
        if self.is_counted {
            figures = json!({ "total": replica.total });
        }
        figures[size] = replica.limit.into();
        let body = Bytes::from(json!({ jobs: shown, "pagination": figures }).to_string());
        let page = read_page(&body).await?;
        self.begun.insert(ask.leg);
        let (age, cut) = self.shown.entry(region.clone()).or_default();
        *age = replica.lag_ms.map(|lag| lag.div_ceil(1_000)).max(*age);
        *cut |= replica.cut;
        Some(page)
    }

    /// Names the regions that the index has answered for, each with the age of its replica.
    pub(super) fn name(&self, response: &mut Response<Reply>) {
        let named = self.shown.iter().map(|(region, (age, cut))| {
            let age = age.map(|age| format!(";age={age}")).unwrap_or_default();
            format!("{region}{age}{}", if *cut { ";cut" } else { "" })
        });
        let named = named.collect::<Vec<_>>().join(", ");
        if let Ok(value) = HeaderValue::from_str(&named)
            && !named.is_empty()
        {
            response.headers_mut().insert(FEDERATION_REPLICAS, value);
        }
    }
}

/// A job as a list shows it: that of a redacted job, with the mark of this program.
fn item(job: &Known, region: &RegionId, as_of: Option<&str>) -> Value {
    let mut shown =
        json!({ "id": job.job_id, "state": job.state, "args": [], "meta": {}, "enqueued_at": job.enqueued_at });
    if let Some(id) = &job.federation_id {
        shown["meta"]["ojs.federation.federation_id"] = id.as_str().into();
    }
    for (name, text) in [("type", &job.job_type), ("queue", &job.queue)] {
        if let Some(text) = text {
            shown[name] = text.as_str().into();
        }
    }
    shown["x-ojs-federation"] =
        json!({ "region": region, "replica": true, "as_of": as_of, "changed_at": job.changed_at });
    shown
}

/// The filters of a list of jobs as the hub takes them; `None` for another list, and for a filter that the index cannot apply.
fn filters(path: &str, query: &str) -> Option<String> {
    let rest = path.strip_prefix("/ojs/v1/admin/").or_else(|| path.strip_prefix("/ojs/v1/"))?;
    let mut found = BTreeMap::new();
    if let Some(queue) = rest.strip_prefix("queues/").and_then(|rest| rest.strip_suffix("/jobs")) {
        found.insert("queue", queue.to_owned());
    } else if !WHOLE.contains(&rest) {
        return None;
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let name = ["state", "queue", "type"].into_iter().find(|it| *it == name)?;
        let value = query_value(value).filter(|value| is_text(value) && !value.contains('*'))?;
        if found.insert(name, value).is_some() {
            return None;
        }
    }
    Some(found.into_iter().map(|(name, value)| format!("&{name}={}", path_segment(&value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_this_sidecar_says_nothing_about_the_region() {
        let closed = |document| (RegionIndex::new(0), Err(NoAnswer::Closed(document)));
        assert!(is_down(&closed(ErrorDocument::owner_unavailable(None, 1))), "its breaker is open");
        for own in
            [ErrorDocument::overloaded(1), ErrorDocument::fleet_limit("eu", 1), ErrorDocument::throttled("eu", 1)]
        {
            assert!(!is_down(&closed(own)));
        }
        assert!(is_down(&(RegionIndex::new(0), Err(NoAnswer::Unknown))));
    }

    #[test]
    fn only_filters_that_the_index_can_apply_are_asked_for() {
        for (path, query, expected) in [
            ("/ojs/v1/jobs", "", Some("")),
            ("/ojs/v1/admin/jobs", "state=available%2Cactive&type=a.b", Some("&state=available%2Cactive&type=a.b")),
            ("/ojs/v1/queues/mail out/jobs", "state=active", Some("&queue=mail%20out&state=active")),
            ("/ojs/v1/admin/queues/q/jobs", "", Some("&queue=q")),
            ("/ojs/v1/queues/q/jobs", "queue=q", None),
            ("/ojs/v1/jobs", "state=a&state=b", None),
            ("/ojs/v1/jobs", "type=mail.*", None),
            ("/ojs/v1/jobs", "since=2026-01-01T00:00:00Z", None),
            ("/ojs/v1/jobs", "state", None),
            ("/ojs/v1/jobs", "queue=", None),
            ("/ojs/v1/dead-letter", "", None),
            ("/ojs/v1/cron", "", None),
        ] {
            assert_eq!(filters(path, query).as_deref(), expected, "{path}?{query}");
        }
    }

    #[test]
    fn a_job_of_a_replica_is_marked_and_has_no_content() {
        let job = |queue: Option<&str>| Known {
            job_id: "j".to_owned(),
            federation_id: Some("f".to_owned()),
            job_type: None,
            queue: queue.map(str::to_owned),
            state: "active".to_owned(),
            enqueued_at: "t1".to_owned(),
            changed_at: "t2".to_owned(),
            bound: Some(true),
        };
        let region = RegionId::parse("eu").unwrap();
        let mark = json!({ "region": "eu", "replica": true, "as_of": "t3", "changed_at": "t2" });
        let expected = json!({
            "id": "j", "state": "active", "queue": "q", "args": [], "meta": { "ojs.federation.federation_id": "f" }, "enqueued_at": "t1",
            "x-ojs-federation": mark,
        });
        assert_eq!(item(&job(Some("q")), &region, Some("t3")), expected);
        assert!(item(&job(None), &region, None).get("queue").is_none(), "a text that is not known is left out");
    }
}
