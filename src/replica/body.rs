//! The bytes of jobs, as sidecars send them to their hub, and hubs to those of other regions.

use std::collections::BTreeSet;

use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

use super::change::is_text;
use super::content::{Content, length, put, take};
use crate::base::RegionId;
use crate::ojs::header::{TENANT, TENANT_ID};

/// The longest body of a job that is replicated: SDKs warn at this length. Units: bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The longest head of a call beside its body: a path, a content type and two tenants. Units: bytes.
const CALL_HEAD_BYTES_MAX: usize = 16 * 1024;
/// The head of a frame: three names and the regions of a federation. Units: bytes.
const FRAME_HEAD_BYTES_MAX: usize = 32 * 1024;
/// The bytes of jobs in one message, so that a message takes part of a second on a slow line. Units: bytes.
pub const BODIES_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Jobs in one message: one commit of the hub.
pub const BODIES_MAX: usize = 200;

/// The regions that a job may go to, whatever their health is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Every region.
    Every,
    /// These regions.
    Only(BTreeSet<RegionId>),
}

impl Reach {
    /// Whether the job may go to a region.
    #[must_use]
    pub fn contains(&self, region: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Only(regions) => regions.contains(region),
        }
    }

    /// The regions that two reports permit; the order does not matter.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Every, reach) | (reach, Self::Every) => reach,
            (Self::Only(one), Self::Only(other)) => Self::Only(one.intersection(&other).cloned().collect()),
        }
    }

    /// Its length in a message, at most. Units: bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Self::Every => 0,
            // Quotes and a comma stand with each.
            Self::Only(regions) => regions.iter().map(|region| region.as_str().len() + 3).sum(),
        }
    }

    /// As a column of a table has it: the regions in order with spaces between them; none where it is every region.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Every => None,
            Self::Only(regions) => Some(regions.iter().map(RegionId::as_str).collect::<Vec<_>>().join(" ")),
        }
    }

    /// Reads a column. `None` for one that this program does not write.
    #[must_use]
    pub fn of_text(text: Option<&str>) -> Option<Self> {
        let Some(text) = text else { return Some(Self::Every) };
        text.split_terminator(' ').map(|id| RegionId::parse(id).ok()).collect::<Option<_>>().map(Self::Only)
    }
}

/// The bytes of one copy of a job, and the regions that it may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobBody {
    /// The job.
    pub job_id: String,
    /// The region that has stored it.
    pub region: RegionId,
    /// The tracking id, where it has one.
    pub federation_id: Option<String>,
    /// The regions that its rules and its tenant permit.
    pub reach: Reach,
    /// The call that has created it: its path, its content type and tenant, and the job as its region has got it.
    pub call: Content,
}

/// The head of a frame. Shape: JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameHead {
    job_id: String,
    region: RegionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    federation_id: Option<String>,
    /// None for every region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permitted: Option<BTreeSet<RegionId>>,
}

impl JobBody {
    /// The bytes that the tag of its sealed form also covers. No text of a change has a line end.
    #[must_use]
    pub fn sealed_as(job_id: &str, region: &str) -> Vec<u8> {
        format!("{region}\n{job_id}").into_bytes()
    }

    /// The part of it that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        let may_fit = |text: &Option<String>| text.as_deref().is_none_or(is_text);
        let is_known = |name: &http::HeaderName| [&CONTENT_TYPE, &TENANT, &TENANT_ID].contains(&name);
        if !is_text(&self.job_id) || !may_fit(&self.federation_id) {
            return Some("`job_id`, `federation_id`: expected 1 to 255 bytes without control characters");
        }
        if !self.reach.contains(self.region.as_str()) {
            return Some("`permitted`: expected the region that has the job among them");
        }
        if !self.call.headers.keys().all(is_known) {
            return Some("the headers: expected a content type and a tenant only");
        }
        if self.call.body.len() > BODY_BYTES_MAX || self.call.length() - self.call.body.len() > CALL_HEAD_BYTES_MAX {
            return Some("the call: expected a body of 1 MiB and a head of 16 KiB at most");
        }
        None
    }

    /// Adds it to a message. Shape: a JSON object and the call, each behind its length as four bytes.
    pub fn write(&self, message: &mut Vec<u8>) {
        let permitted = match &self.reach {
            Reach::Every => None,
            Reach::Only(regions) => Some(regions.clone()),
        };
        let head = FrameHead {
            job_id: self.job_id.clone(),
            region: self.region.clone(),
            federation_id: self.federation_id.clone(),
            permitted,
        };
        put(message, serde_json::json!(head).to_string().as_bytes());
        message.extend_from_slice(&length(self.call.length()));
        self.call.write(message);
    }
}

/// Reads a message.
///
/// Errors: the number of the job, counted from 1, and the expected form.
pub fn read_bodies(mut message: &[u8]) -> Result<Vec<JobBody>, String> {
    let mut bodies = Vec::new();
    while !message.is_empty() {
        let number = bodies.len() + 1;
        if number > BODIES_MAX {
            return Err(format!("expected at most {BODIES_MAX} jobs"));
        }
        let body = read_body(&mut message).ok_or("expected a head and a call, each behind its length");
        let body = body.map_err(|mistake| format!("job {number}: {mistake}"))?;
        if let Some(mistake) = body.mistake() {
            return Err(format!("job {number}: {mistake}"));
        }
        bodies.push(body);
    }
    Ok(bodies)
}

fn read_body(message: &mut &[u8]) -> Option<JobBody> {
    let head = take(message).filter(|head| head.len() <= FRAME_HEAD_BYTES_MAX)?;
    let FrameHead { job_id, region, federation_id, permitted } = serde_json::from_slice(head).ok()?;
    let call = Content::read(take(message)?)?;
    Some(JobBody { job_id, region, federation_id, reach: permitted.map_or(Reach::Every, Reach::Only), call })
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::Bytes;
    use http::uri::PathAndQuery;
    use http::{HeaderMap, HeaderValue};

    use super::*;

    pub(in crate::replica) fn only(regions: &[&str]) -> Reach {
        Reach::Only(regions.iter().map(|id| RegionId::parse(id).unwrap()).collect())
    }

    fn body(reach: Reach) -> JobBody {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(TENANT, HeaderValue::from_static("acme"));
        let (path, body) = (PathAndQuery::from_static("/ojs/v1/jobs"), Bytes::from_static(b"{\"args\":[1]}"));
        JobBody {
            job_id: "job".to_owned(),
            region: RegionId::parse("eu").unwrap(),
            federation_id: Some("f".to_owned()),
            reach,
            call: Content { path, headers, body },
        }
    }

    fn message(bodies: &[JobBody]) -> Vec<u8> {
        let mut message = Vec::new();
        bodies.iter().for_each(|body| body.write(&mut message));
        message
    }

    #[test]
    fn a_message_is_read_as_it_was_written_and_every_cut_one_is_refused() {
        let bodies = [body(Reach::Every), body(only(&["eu", "us"]))];
        let text = message(&bodies);
        assert_eq!(read_bodies(&text).as_deref(), Ok(&bodies[..]));
        let first = message(&bodies[..1]).len();
        for cut in (1..text.len()).filter(|cut| *cut != first) {
            assert!(read_bodies(&text[..cut]).is_err(), "{cut}");
        }
        let many = vec![body(Reach::Every); BODIES_MAX + 1];
        assert!(read_bodies(&message(&many)).is_err_and(|mistake| mistake.contains("at most")));
    }

    #[test]
    fn a_body_that_no_hub_takes_is_refused_by_its_part() {
        let right = || body(Reach::Every);
        let with = |change: fn(&mut JobBody)| {
            let mut wrong = right();
            change(&mut wrong);
            wrong
        };
        assert_eq!(right().mistake(), None);
        for (wrong, part) in [
            (with(|it| it.job_id = "a\nb".to_owned()), "`job_id`"),
            (with(|it| it.federation_id = Some(String::new())), "`federation_id`"),
            (body(only(&[])), "`permitted`"),
            (body(only(&["us"])), "`permitted`"),
            (with(|it| drop(it.call.headers.insert("authorization", HeaderValue::from_static("x")))), "headers"),
            (with(|it| it.call.body = vec![b' '; BODY_BYTES_MAX + 1].into()), "1 MiB"),
        ] {
            assert!(wrong.mistake().is_some_and(|mistake| mistake.contains(part)), "{part}");
            let read = read_bodies(&message(&[right(), wrong])).unwrap_err();
            assert!(read.starts_with("job 2: ") && read.contains(part), "{read}");
        }
    }

    #[test]
    fn the_reach_of_two_reports_is_that_which_both_permit_in_either_order() {
        let (every, two, one) = (Reach::Every, only(&["eu", "us"]), only(&["ap", "eu"]));
        for (a, b, both) in [(&every, &two, &two), (&two, &one, &only(&["eu"])), (&every, &every, &every)] {
            assert_eq!((&a.clone().joined(b.clone()), &b.clone().joined(a.clone())), (both, both));
        }
        assert!(two.contains("us") && !one.contains("us") && every.contains("us"));
        for reach in [every, two, only(&[])] {
            assert_eq!(Reach::of_text(reach.text().as_deref()), Some(reach));
        }
        assert_eq!(Reach::of_text(Some("EU")), None);
    }
}
