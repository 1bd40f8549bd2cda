//! The operation of a request: the one place that knows paths.

mod kinds;
mod scope;
#[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tables in documents"))]
mod surface;
mod table;

use http::Method;

use super::path::{forms_between, normal_path};
pub use kinds::{Class, Matched, Operation, Payload};
pub use scope::{IdAt, Paging, Scope};
pub use surface::{Endpoint, surface};
use table::{ROWS, Row};

/// Recognises a request by its method and its raw path, without query.
///
/// `HEAD` counts as `GET`. Every spelling of a path that would create jobs on some server is recognised as creating.
#[must_use]
pub fn identify(method: &Method, raw_path: &str) -> Matched {
    let method = method_bit(method);
    let normal = normal_path(raw_path);
    let raw_differs = normal != raw_path;
    let row = find(method, &normal, true);
    if let Some(row) = row
        && (row.creates || !raw_differs)
    {
        return row.matched(raw_differs);
    }
    if let Some(row) = creating(method, raw_path, &normal) {
        return row.matched(true);
    }
    if let Some(row) = row {
        return row.matched(raw_differs);
    }
    // Some server may take another method for the one that creates jobs here.
    let near =
        [table::POST, table::PUT, table::PATCH].iter().any(|&method| creating(method, raw_path, &normal).is_some());
    let payload = if near { Payload::MayDefineJobs } else { Payload::Unknown };
    Matched {
        operation: Operation::Unknown,
        class: Class::Other,
        scope: Scope::Local,
        creates_jobs: false,
        payload,
        placeholder: 0,
        raw_differs,
    }
}

/// The creating call that some server may take the path for: in another letter case, or with fewer layers of decoding, it is
/// another path to us and may be the same path to a server.
fn creating(method: u8, raw_path: &str, normal: &str) -> Option<&'static Row> {
    let find_creating = |path: &str| find(method, path, false).filter(|row| row.creates);
    find_creating(normal).or_else(|| {
        if normal == raw_path {
            return None;
        }
        forms_between(raw_path).find_map(|form| find_creating(&form))
    })
}

/// The methods that the federation API knows for a path, as `Allow` lists them; `None` when there is no such path.
#[must_use]
pub fn federation_methods(raw_path: &str) -> Option<&'static str> {
    let normal = normal_path(raw_path);
    let known = |method| find(method, &normal, true).is_some_and(|row| row.operation.is_of_federation());
    match (known(table::GET), known(table::POST)) {
        (true, _) => Some("GET, HEAD"),
        (_, true) => Some("POST"),
        (false, false) => None,
    }
}

fn find(method: u8, path: &str, exact: bool) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.methods & method != 0 && row.fits(path, exact))
}

fn method_bit(method: &Method) -> u8 {
    match method.as_str() {
        "GET" | "HEAD" => table::GET,
        "POST" => table::POST,
        "PUT" => table::PUT,
        "PATCH" => table::PATCH,
        "DELETE" => table::DELETE,
        _ => table::OTHER,
    }
}

#[cfg(test)]
mod tests;
