//! A region's answer, read whole.

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};

use super::reply::Reply;
use crate::ojs::shards::{Place, Shards};

/// A region's whole answer.
#[derive(Debug, Clone)]
pub(crate) struct RegionAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl RegionAnswer {
    /// Puts the queues' own names in place of those of their shards. `note` hears the shard of each job of an answer to a FETCH.
    pub(crate) fn rename(&mut self, shards: &Shards, note: impl FnMut(usize, Place)) {
        if let Some(body) = shards.renamed_with(&self.body, note) {
            self.body = body;
            self.headers.remove(CONTENT_LENGTH);
        }
    }
}

impl From<RegionAnswer> for Response<Reply> {
    fn from(RegionAnswer { status, headers, body }: RegionAnswer) -> Self {
        let mut response = Self::new(Reply::full(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}
