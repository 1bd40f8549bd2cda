//! A server that schedules fairly itself, as its manifest says, gets the words of workers about turns as they are.
//!
//! Spec: fair-scheduling 12.

use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use crate::ojs::{Class, SCHEDULING_EXTENSION, announces};
use crate::proxy::{
    call::ask::{Question, ask},
    state::Proxy,
};

/// How long the word of a manifest counts: it changes with the version of a server.
const FRESH_FOR: Duration = Duration::from_secs(60);
/// How long a FETCH waits for a manifest. It goes on as for a server without the extension then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the server of the local region schedules fairly itself. Its manifest is read for a FETCH that has such words, and again after a minute; a region that
/// does not answer is one that does not, until the next FETCH of that kind.
pub(super) async fn server_schedules(proxy: &Proxy) -> bool {
    let registry = &proxy.shared.registry;
    let index = registry.view().local;
    let (announced, now) = (&proxy.shared.announced, registry.clock().now());
    if let Some(known) = announced.known(now, FRESH_FOR) {
        return known;
    }
    let path = PathAndQuery::from_static("/ojs/manifest");
    let question = Question::get(path, HeaderMap::new(), Instant::now() + PATIENCE);
    let Ok(answer) = ask(proxy, Class::Worker, index, &question).await else { return false };
    let schedules = answer.status == StatusCode::OK && announces(&answer.body, SCHEDULING_EXTENSION);
    announced.set(now, schedules);
    schedules
}
