//! The federation's own HTTP API on the client listener, in front of the proxy.
//!
//! Spec: RFC-0001 §6. Everything that is not below the federation paths goes on to [`crate::proxy`].

mod decisions;
mod discovered;
mod health;
mod jobs;
mod outcomes;
mod regions;
mod route;
mod state;
mod status;
mod uwer;

pub use outcomes::outcome_row;
pub use state::document as state;
pub(crate) use status::status;

use crate::net::IncomingBody;

use http::{Request, Response};

use crate::net::ConnectionInfo;
use crate::ojs::operation::federation_methods;
use crate::ojs::{Class, ErrorDocument, Operation};
use crate::proxy::{Exchange, Proxies, Proxy, Reply};

/// When a sidecar that ends may have a successor. Units: seconds.
const RETRY_AFTER: u64 = 1;

/// Answers one request of a client. Not an async function: its future would have room for the request twice.
pub fn handle(
    proxies: &Proxies,
    request: Request<IncomingBody>,
    connection: ConnectionInfo,
) -> impl Future<Output = Response<Reply>> + use<> {
    let proxy = proxies.current();
    // Boxed, because it is passed on, and would be copied each time; and the futures that wait for a region need no
    // room for it.
    let request = Box::new(request);
    async move {
        let is_closing = connection.client.is_closing();
        let mut exchange = proxy.begin(&request, connection);
        // In its own scope, so that the futures that wait for a region need no room for this answer.
        if let Some(response) = answer_at_once(&proxy, &mut exchange, &request, is_closing) {
            return exchange.finish(&proxy, response);
        }
        // Boxed, so that the future of every call needs no room for it.
        let answered = if exchange.matched.class == Class::Federation {
            Ok(Box::pin(federation(&proxy, &mut exchange, *request)).await)
        } else {
            match proxy.dispatch(&mut exchange, request) {
                Ok(answering) => answering.await,
                Err(document) => Err(document),
            }
        };
        let response = answered.unwrap_or_else(|document| exchange.refuse(&proxy, &document));
        exchange.finish(&proxy, response)
    }
}

/// Answers calls that need neither a region nor the federation's state: refusals, and preflights of allowed pages.
fn answer_at_once(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: &Request<IncomingBody>,
    is_closing: bool,
) -> Option<Response<Reply>> {
    let admitted = if is_closing { Err(ErrorDocument::draining(RETRY_AFTER)) } else { proxy.admit(exchange, request) };
    match admitted {
        Ok(()) => exchange.preflight(request),
        Err(document) => Some(exchange.refuse(proxy, &document)),
    }
}

async fn federation(proxy: &Proxy, exchange: &mut Exchange, request: Request<IncomingBody>) -> Response<Reply> {
    match exchange.matched.operation {
        Operation::FederationRegions => exchange.json(200, regions::document(proxy)),
        Operation::FederationHealth => exchange.json(200, health::document(proxy)),
        Operation::FederationOutcomes => match outcomes::document(proxy, request.uri().query()) {
            Ok(document) => exchange.json(200, document),
            Err(document) => exchange.refuse(proxy, &document),
        },
        Operation::FederationDecisions => match decisions::document(proxy, request.uri().query()).await {
            Ok(document) => exchange.json(200, document),
            Err(document) => exchange.refuse(proxy, &document),
        },
        Operation::FederationJob => match jobs::document(proxy, exchange, request.uri()).await {
            Ok(document) => exchange.json(200, document),
            Err(document) => exchange.refuse(proxy, &document),
        },
        Operation::FederationRoute => match route::document(proxy, exchange, request).await {
            Ok(document) => exchange.json(200, document),
            Err(document) => exchange.refuse(proxy, &document),
        },
        _ => {
            let path = request.uri().path().to_owned();
            match Box::pin(uwer::answer(proxy, exchange, request)).await {
                Some(response) => response,
                None => refuse(proxy, exchange, &path),
            }
        }
    }
}

fn refuse(proxy: &Proxy, exchange: &mut Exchange, path: &str) -> Response<Reply> {
    let Some(allow) = federation_methods(path) else {
        return exchange.refuse(proxy, &ErrorDocument::not_found(path));
    };
    exchange.refuse(proxy, &ErrorDocument::method_not_allowed(allow))
}
