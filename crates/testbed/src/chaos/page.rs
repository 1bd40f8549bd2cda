//! The outcomes of every journal that there was, as the sidecar shows them: before a journal is destroyed, and at the end.

use std::collections::HashMap;
use std::net::SocketAddr;

use bytes::Bytes;
use http::Method;
use smallvec::SmallVec;

use super::ask::ask;
use super::case::Row;
use super::rows;

/// More rows than a run has unknown outcomes.
pub(super) const ROWS_MAX: usize = 1_000_000;

/// Rows of one answer.
const PAGE: usize = 1_000;

/// The rows of every journal that there was.
#[derive(Debug, Default)]
pub(super) struct Rows {
    by_name: HashMap<String, (u32, SmallVec<[Row; 1]>)>,
    /// How often they were read.
    reads: u32,
}

impl Rows {
    /// Reads every page of a process's outcomes.
    ///
    /// Errors: a sentence, when a page could not be read. Pages before it are kept, so that the caller may read again.
    pub(super) async fn ask(&mut self, sidecar: SocketAddr) -> Result<(), String> {
        let mut cursor = String::new();
        let read = self.reads + 1;
        // A bound, should a cursor lead round in a circle.
        for _ in 0..=ROWS_MAX / PAGE {
            let path = format!("/v1/federation/outcomes?limit={PAGE}{cursor}");
            let asked = ask(&sidecar.to_string(), Method::GET, &path, Bytes::new()).await;
            let (head, body) = asked.map_err(|error| format!("{path}: {error}"))?;
            let page = rows::Page::of(&body).ok_or_else(|| format!("{path}: {} without outcomes", head.status))?;
            self.by_name.extend(page.rows.into_iter().map(|(name, rows)| (name, (read, rows))));
            let Some(next) = page.next else {
                self.reads = read;
                return Ok(());
            };
            cursor = format!("&cursor={next}");
        }
        Err(format!("more than {ROWS_MAX} outcomes"))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = Row> {
        let kept = |(read, rows): &(u32, SmallVec<[Row; 1]>)| {
            let kept = *read == self.reads;
            rows.clone().into_iter().map(move |row| Row { kept, ..row })
        };
        self.by_name.values().flat_map(kept)
    }
}
