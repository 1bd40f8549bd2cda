//! The question for a job that a worker names.

use http::HeaderMap;
use http::uri::PathAndQuery;

use crate::ojs::path_segment;
use crate::proxy::call::ask::Question;

/// The question for a job of which a worker speaks, with the worker's own headers. None for an id that no path can hold.
pub(super) fn look_up(id: &str, headers: &HeaderMap, deadline: tokio::time::Instant) -> Option<Question> {
    let path = PathAndQuery::try_from(format!("/ojs/v1/jobs/{}", path_segment(id))).ok()?;
    let mut headers = headers.clone();
    headers.remove(http::header::CONTENT_TYPE);
    Some(Question { leased: true, ..Question::get(path, headers, deadline) })
}
