//! A region's answer, read whole.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};

use super::reply::Reply;

/// A region's whole answer.
#[derive(Debug, Clone)]
pub(crate) struct RegionAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl From<RegionAnswer> for Response<Reply> {
    fn from(RegionAnswer { status, headers, body }: RegionAnswer) -> Self {
        let mut response = Self::new(Reply::full(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}
