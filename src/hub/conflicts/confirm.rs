//! Asks the hub of another region for the present state of a job there: the index can lack its end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use super::super::copies::ShownCopy;
use super::super::index_settings::SourceSettings;
use crate::base::RegionId;
use crate::fleet::Pull;
use crate::net::resolve::SystemResolver;
use crate::ojs::path_segment;

/// For an answer, connecting included. The other hub has two seconds for its region.
const CONFIRM_WAIT: Duration = Duration::from_secs(3);

/// The hubs of other regions, with a connection to each that has answered.
#[derive(Debug, Default)]
pub(super) struct Peers {
    connections: RefCell<BTreeMap<RegionId, Pull>>,
    /// The place of the replica of a hub that is asked next: after each failure, that of the next replica.
    turn: Cell<usize>,
}

impl Peers {
    /// The state of a job in the region of a source. `None` where it does not answer.
    pub(super) async fn ask(&self, source: &SourceSettings, job_id: &str) -> Option<ShownCopy> {
        let known = self.connections.borrow_mut().remove(&source.region);
        let answered = tokio::time::timeout(CONFIRM_WAIT, self.asked(source, known, job_id)).await;
        let Ok(Some((shown, connection))) = answered else {
            self.turn.set(self.turn.get().wrapping_add(1));
            return None;
        };
        self.connections.borrow_mut().insert(source.region.clone(), connection);
        Some(shown)
    }

    async fn asked(&self, source: &SourceSettings, known: Option<Pull>, job_id: &str) -> Option<(ShownCopy, Pull)> {
        let path = format!("/v1/hub/copies?job_id={}", path_segment(job_id));
        // A connection that was kept may be over.
        if let Some(mut connection) = known
            && let Ok(shown) = connection.get(&path).await
        {
            return Some((shown, connection));
        }
        let urls = source.urls();
        let url = urls.get(self.turn.get() % urls.len().max(1))?;
        let mut connection = Pull::connect(url, &source.tls(), &SystemResolver).await.ok()?;
        Some((connection.get(&path).await.ok()?, connection))
    }
}
