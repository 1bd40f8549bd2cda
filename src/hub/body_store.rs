//! The store of the bodies of jobs at a hub: sealed with the key of the operator, each for its job and region.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body_settings::BodySettings;
use super::lag::Lag;
use super::record::{IndexPlace, Record, RecordError, SavedBody};
use crate::base::RegionId;
use crate::replica::{Content, JobBody, RowNonce, Seal};
use crate::telemetry::event;

/// For a place among the requests that are in memory.
const PLACE_WAIT: Duration = Duration::from_secs(1);
/// Requests that are in memory at once, of some megabytes each, so that a fleet which comes back does not fill it.
const REQUESTS_AT_ONCE: usize = 8;
/// Sealed once in a record, so that a wrong key is known before any body is read.
const CHECK: &[u8] = b"ojs-sidecar bodies of jobs";

/// Why the bodies cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum BodiesError {
    /// The file of the key cannot be used. Says neither path nor content.
    #[error(
        "index.bodies.key_file: expected a file with 64 hexadecimal digits ({0}): make one with `openssl rand -hex 32`"
    )]
    Key(&'static str),
    /// The bodies in the record were sealed with another key.
    #[error(
        "index.bodies.key_file: the bodies in the record were sealed with another key: name its file, or delete the rows of the tables of \
         bodies, of their key and of the places at other hubs to begin with this one (`job_body`, `body_key`, `body_place` in SQLite; \
         `ojs_hub_body`, `ojs_hub_body_key`, `ojs_hub_body_place` in PostgreSQL)"
    )]
    OtherKey,
}

/// The bodies of jobs at one hub.
#[derive(Debug)]
pub(super) struct Bodies {
    pub(super) settings: BodySettings,
    seal: Seal,
    /// Places for requests.
    places: Arc<Semaphore>,
    /// Their number and bytes, as far as this hub knows.
    pub(super) total: Cell<(u64, u64)>,
    /// How many this hub has dropped for want of room.
    pub(super) dropped: Cell<u64>,
    /// The state of the hubs that this one pulls from, by region.
    pub(super) sources: RefCell<BTreeMap<RegionId, Lag>>,
    is_unreadable_noted: Cell<bool>,
}

impl Bodies {
    /// Reads the file of the key.
    ///
    /// Errors: [`BodiesError::Key`].
    pub(super) fn load(settings: BodySettings) -> Result<Self, BodiesError> {
        let seal = Seal::of_file(&settings.key_file).map_err(BodiesError::Key)?;
        Ok(Self {
            settings,
            seal,
            places: Arc::new(Semaphore::new(REQUESTS_AT_ONCE)),
            total: Cell::default(),
            dropped: Cell::default(),
            sources: RefCell::default(),
            is_unreadable_noted: Cell::default(),
        })
    }

    /// Whether the key is that of the record; a new record takes it.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn has_key_of(&self, record: &Record) -> Result<bool, RecordError> {
        let Some(sealed) = self.sealed(CHECK, CHECK.to_vec()) else { return Ok(false) };
        let kept = record.bodies_key_check(sealed).await?;
        Ok(self.seal.open(CHECK, &kept).is_some_and(|opened| opened == CHECK))
    }

    fn sealed(&self, row: &[u8], bytes: Vec<u8>) -> Option<Vec<u8>> {
        let mut nonce = RowNonce::default();
        rand::fill(&mut nonce).ok()?;
        self.seal.seal(nonce, row, bytes)
    }

    /// A body as the record keeps it. `None` only where the machine has no random bytes.
    fn saved(&self, body: &JobBody) -> Option<SavedBody> {
        let row = JobBody::sealed_as(&body.job_id, body.region.as_str());
        Some(SavedBody {
            job_id: body.job_id.clone(),
            region: body.region.as_str().to_owned(),
            federation_id: body.federation_id.clone(),
            reach: body.reach.clone(),
            sealed: self.sealed(&row, body.call.to_bytes())?,
        })
    }

    /// The call and the regions of a body that the record keeps. `None` where it was sealed with another key, or for another row.
    pub(super) fn open(&self, saved: &SavedBody) -> Option<JobBody> {
        let row = JobBody::sealed_as(&saved.job_id, &saved.region);
        let call = self.seal.open(&row, &saved.sealed).and_then(|call| Content::read(&call));
        if call.is_none() && !self.is_unreadable_noted.replace(true) {
            event::hub_body_unreadable();
        }
        Some(JobBody {
            job_id: saved.job_id.clone(),
            region: RegionId::parse(&saved.region).ok()?,
            federation_id: saved.federation_id.clone(),
            reach: saved.reach.clone(),
            call: call?,
        })
    }

    /// A place for a request, before any of its bytes are read.
    ///
    /// Errors: [`RecordError::Busy`], where too many requests are in memory.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, RecordError> {
        let place = tokio::time::timeout(PLACE_WAIT, Arc::clone(&self.places).acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or(RecordError::Busy)
    }

    /// Keeps bodies from `origin`, each once.
    ///
    /// Errors: [`RecordError`]; they may have been kept, and a second time changes nothing.
    pub(super) async fn keep(
        &self,
        record: &Record,
        origin: &str,
        bodies: &[JobBody],
        place: Option<IndexPlace>,
    ) -> Result<(), RecordError> {
        let mut all: BTreeMap<(&str, &RegionId), SavedBody> = BTreeMap::new();
        for body in bodies {
            let name = (body.job_id.as_str(), &body.region);
            if let Some(known) = all.get_mut(&name) {
                known.reach = known.reach.clone().joined(body.reach.clone());
                continue;
            }
            all.insert(name, self.saved(body).ok_or(RecordError::Busy)?);
        }
        record.save_bodies(origin, all.into_values().collect(), place).await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::uri::PathAndQuery;
    use http::{HeaderMap, HeaderValue};

    use super::super::settings::RecordSettings;
    use super::*;
    use crate::replica::Reach;

    fn bodies(key: &str) -> Bodies {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), key).unwrap();
        Bodies::load(BodySettings { key_file: file.path().to_owned(), bytes_max: 1 << 30 }).unwrap()
    }

    #[tokio::test]
    async fn a_kept_body_opens_with_its_own_key_and_for_its_own_job_only() {
        let record = Record::open(&RecordSettings::default()).unwrap();
        let (own, other) = (bodies(&"0a".repeat(32)), bodies(&"0b".repeat(32)));
        let (path, body) = (PathAndQuery::from_static("/ojs/v1/jobs"), Bytes::from_static(b"canary"));
        let job = JobBody {
            job_id: "job".to_owned(),
            region: RegionId::parse("us").unwrap(),
            federation_id: None,
            reach: Reach::Every,
            call: Content { path, headers: HeaderMap::new(), body },
        };
        assert!(own.has_key_of(&record).await.unwrap() && own.has_key_of(&record).await.unwrap());
        assert!(!other.has_key_of(&record).await.unwrap());
        own.keep(&record, "us", &[job.clone(), job.clone()], None).await.unwrap();
        let saved = record.body("job".to_owned(), "us".to_owned()).await.unwrap().unwrap();
        assert!(memchr::memmem::find(&saved.sealed, b"canary").is_none());
        assert_eq!((own.open(&saved), other.open(&saved)), (Some(job), None));
        assert_eq!(own.open(&SavedBody { job_id: "other".to_owned(), ..saved.clone() }), None);
        assert_eq!(own.open(&SavedBody { region: "eu".to_owned(), ..saved }), None);
    }

    /// Bytes on the wire between a sidecar and its hub, or two hubs; sealed; and of a file of SQLite, at most. The table of docs/guide/hub.md.
    const COSTS: [(usize, [usize; 3]); 3] =
        [(200, [389, 284, 560]), (2_000, [2_189, 2_084, 4_440]), (20_000, [20_189, 20_084, 21_000])];

    /// The length of a record's file once it is closed: its thread brings the log into the file when it ends.
    async fn closed_length(record: Record, path: &std::path::Path) -> u64 {
        drop(record);
        while path.with_extension("db-wal").exists() {
            tokio::task::yield_now().await;
        }
        std::fs::metadata(path).unwrap().len()
    }

    #[tokio::test]
    async fn the_bytes_of_a_replica_are_those_that_the_guide_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let empty = Record::open(&RecordSettings { path: Some(path.clone()), postgres: None }).unwrap();
        let empty = closed_length(empty, &path).await;
        for (length, [message, sealed, at_rest]) in COSTS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("hub.db");
            let record = Record::open(&RecordSettings { path: Some(path.clone()), postgres: None }).unwrap();
            let bodies = bodies(&"0a".repeat(32));
            let jobs: Vec<JobBody> = (0..1_000).map(|number| measured(number, length)).collect();
            for part in jobs.chunks(100) {
                bodies.keep(&record, "us-east-1", part, None).await.unwrap();
            }
            let mut frame = Vec::new();
            jobs[0].write(&mut frame);
            let kept = record.body(jobs[0].job_id.clone(), "us-east-1".to_owned()).await.unwrap().unwrap();
            assert_eq!((frame.len(), kept.sealed.len()), (message, sealed));
            let length_at_rest = closed_length(record, &path).await - empty;
            let each = usize::try_from(length_at_rest).unwrap() / jobs.len();
            assert!((at_rest * 4 / 5..=at_rest).contains(&each), "{length}: {each}");
        }
    }

    fn measured(number: usize, length: usize) -> JobBody {
        let content_type = HeaderValue::from_static("application/json");
        let headers = [(http::header::CONTENT_TYPE, content_type)].into_iter().collect();
        let (path, body) = (PathAndQuery::from_static("/ojs/v1/jobs"), vec![b'x'; length].into());
        JobBody {
            job_id: format!("01975c4e-6f0b-7cc1-9e11-{number:012}"),
            region: RegionId::parse("us-east-1").unwrap(),
            federation_id: Some(format!("01975c4e-6f0b-7cc1-9e12-{number:012}")),
            reach: Reach::Every,
            call: Content { path, headers, body },
        }
    }

    #[test]
    fn a_file_without_a_key_is_refused_by_its_setting() {
        for path in ["/nowhere/key", "/dev/null"] {
            let error = Bodies::load(BodySettings { key_file: path.into(), bytes_max: 1 << 30 }).unwrap_err();
            assert!(error.to_string().starts_with("index.bodies.key_file: "), "{error}");
        }
    }
}
