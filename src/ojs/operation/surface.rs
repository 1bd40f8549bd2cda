//! The table of operations for people: the source of `docs/reference/endpoints.md`.

use super::kinds::{Class, Operation, Payload};
use super::scope::Scope;
use super::table::{self, ROWS, Row};

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The methods, as requests spell them; empty for all.
    pub methods: Vec<&'static str>,
    /// The path; `{}` stands for one segment, `{*}` for one or more.
    pub path: &'static str,
    /// The operation.
    pub operation: Operation,
    /// Its routing class.
    pub class: Class,
    /// Where it goes.
    pub scope: Scope,
    /// The body, in a few words.
    pub body: &'static str,
}

/// Every line of the table, in its order.
pub fn surface() -> impl Iterator<Item = Endpoint> {
    ROWS.iter().map(|row| Endpoint {
        methods: methods(row.methods),
        path: row.pattern,
        operation: row.operation,
        class: row.class,
        scope: row.scope,
        body: body(row),
    })
}

fn methods(bits: u8) -> Vec<&'static str> {
    let all = [
        (table::GET, "GET"),
        (table::POST, "POST"),
        (table::PUT, "PUT"),
        (table::PATCH, "PATCH"),
        (table::DELETE, "DELETE"),
    ];
    if bits & table::OTHER != 0 {
        return Vec::new();
    }
    all.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| name).collect()
}

const fn body(row: &Row) -> &'static str {
    match (row.creates, row.scope, row.payload) {
        (true, Scope::Enqueue, _) => "one job",
        (true, Scope::Batch | Scope::Bulk, _) => "jobs",
        (true, Scope::Define, _) => "a definition with jobs",
        (true, ..) => "may change the job that it creates anew",
        _ if row.methods == table::GET => "none",
        (_, _, Payload::Data) => "data, never a job",
        (_, _, Payload::MayDefineJobs | Payload::Unknown) => "read for routing keys before it goes on",
    }
}
