//! The job that a promotion enqueues: the bytes that were sent to the lost region, under the id that it has there.

use bytes::Bytes;
use http::HeaderMap;

use super::super::record::RecordError;
use super::super::state::Hub;
use crate::base::RegionId;
use crate::ojs::{self, Abridged, Additions, Envelope};

/// Deeper than any body that a sidecar sends.
const DEPTH_MAX: usize = 256;

/// The headers and the body of a job of a region; none where this hub does not have its bytes, or they are no job.
///
/// Errors: the record's.
pub(super) async fn sendable_of(
    hub: &Hub,
    job_id: &str,
    region: &RegionId,
) -> Result<Option<(HeaderMap, Bytes)>, RecordError> {
    let Some((index, bodies)) = hub.index.as_ref().and_then(|index| Some((index, index.bodies.as_ref()?))) else {
        return Ok(None);
    };
    let saved = hub.record.body(job_id.to_owned(), region.as_str().to_owned()).await?;
    let opened = saved.and_then(|saved| bodies.open(&saved));
    let permitted = opened.filter(|body| body.reach.contains(index.settings.region.as_str()));
    Ok(permitted.and_then(|body| sendable(job_id, (body.call.headers, body.call.body))))
}

/// The body with the id of the job; its server has given it one where it had none. `None` for bytes that are no job.
pub(super) fn sendable(job_id: &str, (headers, body): (HeaderMap, Bytes)) -> Option<(HeaderMap, Bytes)> {
    let envelope = Envelope::read(&body, DEPTH_MAX).ok()?;
    if envelope.id().is_some_and(|id| id == job_id) {
        return Some((headers, body));
    }
    if !envelope.lacks_id() {
        return None;
    }
    let additions = Additions {
        id: Some(job_id),
        federation_id: None,
        source_region: None,
        routed_at: None,
        shard: None,
        due: None,
    };
    let stamped = ojs::stamp(&envelope, Abridged::new(&body, &[]), &additions).body;
    Some((headers, stamped.concat().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(body: &'static str) -> Option<Bytes> {
        sendable("j", (HeaderMap::new(), Bytes::from_static(body.as_bytes()))).map(|(_, body)| body)
    }

    #[test]
    fn a_job_keeps_its_bytes_and_gets_its_id_where_it_has_none() {
        let own = r#"{"id":"j","type":"t","args":[1 ]}"#;
        assert_eq!(sent(own).unwrap(), own);
        let stamped = sent(r#"{"type":"t","args":[1 ]}"#).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&stamped).unwrap();
        assert_eq!((&read["id"], &read["args"]), (&"j".into(), &serde_json::json!([1])));
        assert_eq!(sent(r#"{"id":"other","type":"t","args":[]}"#), None);
        assert_eq!(sent("[]"), None);
    }
}
