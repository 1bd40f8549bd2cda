//! Workflows over HTTP.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};

use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::page::{LISTS, Page};
use crate::problem::Problem;
use crate::query::parameter;
use crate::routes::Route;
use crate::workflow::Workflow;

/// Serves the paths of workflows. Servers in Go have no list of them.
pub(super) fn serve(
    context: &Context,
    method: &str,
    route: Route,
    head: &Parts,
    body: &Bytes,
) -> Result<Response<Body>, Problem> {
    let in_spec = context.reading.dialect == Dialect::Spec;
    match (method, route) {
        ("POST", Route::Workflows) => begin(context, body),
        ("GET", Route::Workflows) if in_spec => list(context, head),
        ("GET", Route::Workflow(id)) => show(context, StatusCode::OK, id),
        ("DELETE", Route::Workflow(id)) | ("POST", Route::WorkflowCancel(id)) => {
            context.store.lock().cancel_workflow(&id).map_err(|refused| Problem::of_workflow(&id, &refused))?;
            show(context, StatusCode::OK, id)
        }
        _ => Err(Problem::Method),
    }
}

fn show(context: &Context, status: StatusCode, id: String) -> Result<Response<Body>, Problem> {
    let workflow = context.store.lock().workflow(&id).ok_or(Problem::NoSuch("workflow", id))?;
    Ok(document(status, Object::new().raw("workflow", &workflow).finish()))
}

fn begin(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let workflow = Workflow::read(body, &context.reading)?;
    let id = {
        let mut store = context.store.lock();
        store.define("workflows", body.clone());
        store.begin(workflow)
    };
    let location = HeaderValue::from_str(&format!("/ojs/v1/workflows/{id}"));
    let mut response = show(context, StatusCode::CREATED, id)?;
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn list(context: &Context, head: &Parts) -> Result<Response<Body>, Problem> {
    let state = parameter(&head.uri, "state");
    let mut store = context.store.lock();
    let part = Page::read(context, head, LISTS)?.part(store.workflows(state.as_deref()));
    let workflows: Vec<String> = part.items.iter().filter_map(|id| store.workflow(id)).collect();
    let object = Object::new().array("workflows", workflows).raw("pagination", &part.pagination);
    Ok(document(StatusCode::OK, object.finish()))
}
