//! `/uwer/v4/`: tasks of the legacy orchestration UWER, as OJS jobs of this federation.
//!
//! The hub is the central store: without its word no task is accepted. Calls to regions go through the proxy as those of any client.
//! Spec: UWER §3 to §5.

mod answer;
mod call;
mod form;
mod letter;
mod show;
mod store;
mod submit;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response};

use crate::net::IncomingBody;
use crate::ojs::{ErrorDocument, Operation};
use crate::proxy::{Exchange, Proxy, Reply};

/// Answers a call below `/uwer/v4/`; none where `uwer` is off and the path is none of ours.
pub(super) async fn answer(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Option<Response<Reply>> {
    let uwer = proxy.shared.config.uwer.as_ref()?;
    let answered = match exchange.matched.operation {
        Operation::UwerSubmit => submit::submit(proxy, exchange, uwer, request).await,
        Operation::UwerTask => show::show(proxy, exchange, &request).await,
        _ => Err(other(request.uri().path())),
    };
    Some(match answered {
        Ok(answer) => {
            let mut response = exchange.json(answer.status.as_u16(), answer.body);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let Some(seconds) = answer.retry_after {
                response.headers_mut().insert(RETRY_AFTER, seconds);
            }
            response
        }
        Err(document) => exchange.refuse(proxy, &document),
    })
}

fn other(path: &str) -> ErrorDocument {
    match path.strip_prefix("/uwer/v4/tasks") {
        Some("") => ErrorDocument::method_not_allowed("POST"),
        Some(rest) if rest.starts_with('/') => ErrorDocument::method_not_allowed("GET, HEAD"),
        _ => ErrorDocument::not_found(path),
    }
}
