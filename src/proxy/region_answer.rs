//! A region's answer, read whole.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};

use super::reply::Reply;

/// A region's whole answer.
#[derive(Debug, Clone)]
pub(super) struct RegionAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl From<RegionAnswer> for Response<Reply> {
    fn from(RegionAnswer { status, headers, body }: RegionAnswer) -> Self {
        let mut response = Self::new(Reply::full(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}
