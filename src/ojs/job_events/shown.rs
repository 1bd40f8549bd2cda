//! A job as its region shows it, read for the index: never its arguments, results or other meta values.

use std::borrow::Cow;

use super::step::JobStep;
use crate::base::{Needs, Strategy};
use crate::ojs::copy::is_of_fence;
use crate::ojs::envelope::Envelope;
use crate::ojs::member::{DEPTH_MAX, as_text, member, members_of};
use crate::ojs::scan::Scanner;

/// A job of a region.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedJob<'b> {
    /// Its id.
    pub id: Cow<'b, str>,
    /// Its type.
    pub job_type: Option<String>,
    /// Its queue.
    pub queue: String,
    /// Its tenant, by its meta.
    pub tenant: Option<String>,
    /// Its tracking id.
    pub federation_id: Option<String>,
    /// The region that it was replicated from.
    pub replicated_from: Option<String>,
    /// Whether its own meta binds it to some regions.
    pub is_pinned: bool,
    /// Its state, in the words of OJS.
    pub state: Cow<'b, str>,
    /// When it was enqueued, or created where the server does not say so. RFC 3339.
    pub stored_at: Option<Cow<'b, str>>,
    /// When its last attempt began. RFC 3339.
    pub started_at: Option<Cow<'b, str>>,
    /// When it came into its state, where the server says so. RFC 3339.
    pub changed_at: Option<Cow<'b, str>>,
}

/// Why a job is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotObserved {
    /// It is no job.
    NoJob,
    /// It is a tombstone.
    Fence,
    /// Its meta could be read in two ways, so that it is not known to be bound, or to be a replica.
    Unclear,
}

impl<'b> ObservedJob<'b> {
    /// Reads an answer that shows a job, in `job` or bare, or an item of a list. `tenant_key`: the name of the tenant in its meta.
    ///
    /// Errors: [`NotObserved`].
    pub fn read(body: &'b [u8], tenant_key: &str) -> Result<Self, NotObserved> {
        const NAMES: [&str; 9] = [
            "id",
            "state",
            "enqueued_at",
            "created_at",
            "started_at",
            "completed_at",
            "cancelled_at",
            "discarded_at",
            "failed_at",
        ];
        let job = member(body, "job").unwrap_or(body);
        let [id, state, enqueued_at, created_at, started_at, completed_at, cancelled_at, discarded_at, failed_at] =
            members_of(job, NAMES).map(|value| value.and_then(as_text));
        let (Some(id), Some(state)) = (id, state) else { return Err(NotObserved::NoJob) };
        if is_of_fence(job) {
            return Err(NotObserved::Fence);
        }
        let mut scanner = Scanner::new(job, DEPTH_MAX).map_err(|_| NotObserved::NoJob)?;
        let envelope = Envelope::read_at(&mut scanner).map_err(|_| NotObserved::Unclear)?;
        let tenant = envelope.meta_text(tenant_key);
        if tenant.unclear {
            return Err(NotObserved::Unclear);
        }
        let attributes = envelope.attributes();
        let binds = |affinity: &str| Strategy::parse(affinity).map_or(true, |it| it.needs() == Needs::Region);
        let is_pinned = attributes.region.is_some()
            || attributes.regions_with.is_some()
            || attributes.region_affinity.as_deref().is_some_and(binds);
        // A job that was tried again may still show the times of former ends.
        let changed_at = match &*state {
            "completed" => completed_at,
            "cancelled" => cancelled_at.or(completed_at),
            "discarded" => discarded_at.or(failed_at).or(completed_at),
            "retryable" => failed_at,
            _ => None,
        };
        let own = |text: &Option<Cow<'_, str>>| text.as_deref().map(str::to_owned);
        Ok(Self {
            job_type: envelope.job_type().map(str::to_owned),
            queue: envelope.queue().to_owned(),
            tenant: tenant.text.map(Cow::into_owned),
            federation_id: own(&attributes.federation_id),
            replicated_from: own(&attributes.replicated_from),
            is_pinned,
            id,
            state,
            stored_at: enqueued_at.or(created_at),
            started_at,
            changed_at,
        })
    }

    /// The steps that have led to its state, as far as the state says so.
    #[must_use]
    pub fn steps(&self) -> Vec<JobStep> {
        let waits = |state| vec![JobStep::Stored(state)];
        let behind = |step| vec![JobStep::Stored("available"), JobStep::Started, step];
        match &*self.state {
            "available" => waits("available"),
            "scheduled" => waits("scheduled"),
            "pending" => waits("pending"),
            "active" => vec![JobStep::Stored("available"), JobStep::Started],
            "retryable" => behind(JobStep::Failed(Some("retryable"))),
            "discarded" => behind(JobStep::Failed(Some("discarded"))),
            "completed" => behind(JobStep::Completed),
            "cancelled" => vec![JobStep::Stored("available"), JobStep::Cancelled],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<ObservedJob<'_>, NotObserved> {
        ObservedJob::read(body.as_bytes(), "tenant_id")
    }

    #[test]
    fn a_job_is_read_in_both_forms_with_its_meta_and_nothing_of_its_arguments() {
        let bare = r#"{"id":"j","type":"a.b","queue":"q","state":"active","args":["canary"],"attempt":1,"result":"canary",
            "created_at":"c","started_at":"s","meta":{"tenant_id":"acme","x":"canary","ojs.federation.federation_id":"f",
            "ojs.federation.replicated_from":"us","ojs.federation.region":"eu"}}"#;
        for body in [bare.to_owned(), format!(r#"{{"job":{bare}}}"#)] {
            let job = read(&body).unwrap();
            assert!(!format!("{job:?}").contains("canary"));
            assert_eq!(
                (&*job.id, job.job_type.as_deref(), &*job.queue, &*job.state),
                ("j", Some("a.b"), "q", "active")
            );
            assert_eq!((job.tenant.as_deref(), job.federation_id.as_deref()), (Some("acme"), Some("f")));
            assert_eq!((job.replicated_from.as_deref(), job.is_pinned), (Some("us"), true));
            assert_eq!((job.stored_at.as_deref(), job.started_at.as_deref()), (Some("c"), Some("s")));
            assert_eq!(job.steps(), [JobStep::Stored("available"), JobStep::Started]);
        }
        let plain = read(r#"{"id":"j","type":"a","state":"available","args":[]}"#).unwrap();
        assert_eq!(
            (&*plain.queue, plain.is_pinned, plain.steps()),
            ("default", false, vec![JobStep::Stored("available")])
        );
    }

    #[test]
    fn a_job_came_into_its_state_at_the_time_of_that_state() {
        let times = r#""completed_at":"c","cancelled_at":"x","discarded_at":"d","failed_at":"f""#;
        for (state, expected) in [
            ("completed", Some("c")),
            ("cancelled", Some("x")),
            ("discarded", Some("d")),
            ("retryable", Some("f")),
            ("active", None),
        ] {
            let body = format!(r#"{{"id":"j","type":"a","args":[],"state":"{state}",{times}}}"#);
            assert_eq!(read(&body).unwrap().changed_at.as_deref(), expected, "{state}");
        }
        let old = read(r#"{"id":"j","type":"a","args":[],"state":"retryable","discarded_at":"d"}"#).unwrap();
        assert_eq!(old.changed_at, None);
    }

    #[test]
    fn every_key_that_binds_a_job_is_a_pin_and_an_unclear_one_is_no_job_of_the_index() {
        let with = |meta: &str| format!(r#"{{"id":"j","type":"a","state":"available","args":[],"meta":{{{meta}}}}}"#);
        for (meta, is_pinned) in [
            (r#""ojs.federation.regions_with":"gdpr""#, true),
            (r#""ojs.federation.region_affinity":"geo-pin""#, true),
            (r#""ojs.federation.region_affinity":"unheard-of""#, true),
            (r#""ojs.federation.region_affinity":"round-robin""#, false),
            (r#""ojs.federation.weights":{"eu":1}"#, false),
        ] {
            assert_eq!(read(&with(meta)).map(|it| it.is_pinned), Ok(is_pinned), "{meta}");
        }
        for meta in
            [r#""OJS.federation.region":"eu""#, r#""ojs.federation.region":7"#, r#""tenant_id":"a","tenant_id":"b""#]
        {
            assert_eq!(read(&with(meta)), Err(NotObserved::Unclear), "{meta}");
        }
        for body in ["", "[]", "{}", r#"{"id":"j"}"#, r#"{"error":{"code":"x"}}"#, r#"{"job":7}"#] {
            assert_eq!(read(body), Err(NotObserved::NoJob), "{body}");
        }
        let fence = r#"{"id":"j","type":"ojs.federation.fence","state":"scheduled"}"#;
        assert_eq!(read(fence), Err(NotObserved::Fence));
    }
}
