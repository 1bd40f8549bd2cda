//! The form in which an item is shown to the client.

use crate::net::IncomingBody;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response};
use tokio::time::Instant;

use crate::config::ReadResidency;
use crate::ojs::list::{NoPage, Page, replaced};
use crate::ojs::{ErrorDocument, answer, is_of_fence, normal_path, residency};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::{
        ask::Question,
        exchange::Exchange,
        fan_out::{RETRY_AFTER_MIN, ask_each, read_headers},
    },
    locate::find::is_called_off,
    reads::residency::is_foreign,
    state::{Proxy, Reply},
    stream::local::forward,
};

/// Remembers where a job is that a list has shown.
pub(super) fn learn(proxy: &Proxy, index: RegionIndex, item: &[u8]) {
    if let Some(job) = answer::listed(item)
        && !is_called_off(&job)
    {
        proxy.shared.owners.learn(&job.id, &proxy.region(index).id);
    }
}

/// Whether the items of a list show data of jobs without their meta, so that those of other regions cannot be judged.
pub(super) fn is_without_meta(path: &str) -> bool {
    normal_path(path).ends_with("/unique-jobs")
}

/// An item as the client may see it; `None` where it may not. `bare`: of a list for which [`is_without_meta`] holds.
pub(super) fn shown(proxy: &Proxy, index: RegionIndex, item: Bytes, bare: bool) -> Option<Bytes> {
    let config = &proxy.shared.config;
    let region = proxy.region(index).id.as_str();
    let (mode, annotate) = (config.residency.read_lists, config.lists.annotate);
    let unjudged = || bare && index != proxy.shared.registry.view().local && !residency::shows_meta(&item);
    if mode != ReadResidency::Allow && (is_foreign(proxy, index, &item) || unjudged()) {
        let redacted = || residency::redacted(&item, annotate.then_some(region));
        return (mode == ReadResidency::Redact).then(|| Bytes::from(redacted()));
    }
    if annotate {
        return Some(Bytes::from(residency::annotated(&item, region).into_owned()));
    }
    Some(item)
}

/// One region's own list, its paging untouched.
///
/// Errors: 503 `owner_unavailable` when it does not answer, or with something that cannot be judged where that is needed.
pub(super) async fn of_one(
    proxy: &Proxy,
    exchange: &mut Exchange,
    index: RegionIndex,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let config = &proxy.shared.config;
    if config.residency.read_lists == ReadResidency::Allow && !config.lists.annotate && proxy.shared.shards.is_none() {
        return forward(proxy, exchange, index, request).await;
    }
    exchange.region = Some(proxy.region(index).id.clone());
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let bare = is_without_meta(path.path());
    let deadline = Instant::now() + config.limits.call_timeout;
    let question = Question::get(path, read_headers(exchange, request.headers()), deadline);
    let said = ask_each(proxy, exchange, vec![(index, question)]).await?;
    let unavailable = || ErrorDocument::owner_unavailable(Some(proxy.region(index).id.as_str()), RETRY_AFTER_MIN);
    let Some((_, answer)) = said.into_iter().next() else { return Err(unavailable()) };
    let mut answer = answer.map_err(|silence| silence.document(proxy, index))?;
    if !answer.status.is_success() || answer.body.is_empty() {
        return Ok(answer.into());
    }
    let body = answer.body.clone();
    match proxy.offload(answer.body.len(), move |proxy| as_shown(proxy, index, &body, bare)).await {
        Ok(None) => Ok(answer.into()),
        Ok(Some(body)) => {
            answer.body = body;
            answer.headers.remove(http::header::CONTENT_LENGTH);
            answer.headers.remove(http::header::ETAG);
            Ok(answer.into())
        }
        // The local region's own answer reveals nothing new; an answer of another region that cannot be read could
        // contain anything.
        Err(_) if index == proxy.shared.registry.view().local => Ok(answer.into()),
        Err(_) => Err(unavailable()),
    }
}

/// A page as the client may see it; none where it may see all as it is.
fn as_shown(proxy: &Proxy, index: RegionIndex, body: &Bytes, bare: bool) -> Result<Option<Bytes>, NoPage> {
    let page = Page::read(body)?;
    let (mut items, mut fences) = (Vec::new(), 0);
    let mut as_it_was = true;
    for item in page.items() {
        if is_of_fence(&item) {
            (as_it_was, fences) = (false, fences + 1);
            continue;
        }
        learn(proxy, index, &item);
        let shown = shown(proxy, index, item.clone(), bare);
        as_it_was &= shown.as_ref() == Some(&item);
        items.extend(shown);
    }
    let withheld = page.counts().items - items.len() - fences;
    Ok((!as_it_was).then(|| Bytes::from(replaced(&page, &items, withheld, fences))))
}
