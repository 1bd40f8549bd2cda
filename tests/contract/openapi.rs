//! `docs/openapi.yaml` against the running program: every status of every operation is provoked, and what comes back is held
//! against what is written, headers and body.

mod world;

use std::collections::BTreeSet;

use jsonschema::Validator;
use ojs_sidecar::base::Reason;
use serde_json::{Value, json};

use crate::files::{document, read};
use crate::support::{Answer, Setup};
use world::World;

const FILE: &str = "docs/openapi.yaml";

/// The document, and what is looked up in it.
struct Description(Value);

impl Description {
    fn read() -> Self {
        Self(document(FILE))
    }

    /// What a value stands for: itself, or what it refers to.
    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let Some(reference) = value["$ref"].as_str() else { return value };
        let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} is not within the document"));
        self.resolve(self.0.pointer(pointer).unwrap_or_else(|| panic!("{reference} does not exist")))
    }

    /// Path, method and operation, for all of them.
    fn operations(&self) -> Vec<(String, String, &Value)> {
        let mut operations = Vec::new();
        for (path, item) in self.0["paths"].as_object().unwrap() {
            for (method, operation) in self.resolve(item).as_object().unwrap() {
                // Orders about spooled jobs need such jobs, which the tests of `spool` make.
                if matches!(method.as_str(), "get" | "post") && !path.starts_with("/spool/") {
                    operations.push((path.clone(), method.to_uppercase(), operation));
                }
            }
        }
        operations
    }

    fn validator(&self, schema: &Value) -> Validator {
        // References are to the components, so those travel along.
        let whole = json!({ "allOf": [schema], "components": { "schemas": self.0["components"]["schemas"] } });
        jsonschema::draft202012::options().should_validate_formats(true).build(&whole).unwrap()
    }

    /// Holds an answer against a response object.
    fn check(&self, response: &Value, answer: &Answer, place: &str) {
        let response = self.resolve(response);
        let described = response["headers"].as_object().cloned().unwrap_or_default();
        for (name, header) in &described {
            let header = self.resolve(header);
            let Some(value) = answer.header(&name.to_lowercase()) else {
                assert!(header["required"] != true, "{place}: {name} is missing: {answer:?}");
                continue;
            };
            assert!(self.validator(&header["schema"]).is_valid(&json!(value)), "{place}: {name}: {value}");
        }
        // What is particular to this program is described wherever it is sent.
        for name in answer.headers.keys().map(http::HeaderName::as_str) {
            let ours = name.starts_with("ojs-") || matches!(name, "x-request-id" | "retry-after" | "allow");
            let known = described.keys().any(|known| known.eq_ignore_ascii_case(name));
            assert!(!ours || known, "{place}: {name} is not described");
        }
        let media = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let Some(content) = response["content"].get(media) else { panic!("{place}: {media} is not described") };
        let body = if media.ends_with("json") { answer.json() } else { json!(String::from_utf8_lossy(&answer.body)) };
        let validator = self.validator(&content["schema"]);
        let wrong: Vec<String> =
            validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(wrong.is_empty(), "{place}: {wrong:#?} in {body:#}");
        if let Some(error) = body.get("error").filter(|error| error["details"].get("reason").is_some()) {
            let ids = [error["request_id"].as_str(), answer.header("x-request-id")];
            assert!(body.get("status").is_some() || ids[0] == ids[1], "{place}: {ids:?}");
        }
    }
}

#[tokio::test]
async fn every_status_of_every_operation_is_answered_as_it_is_described() {
    let (description, world) = (Description::read(), World::start().await);
    for (path, method, operation) in description.operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let place = format!("{method} {path} {status}");
            let answers = world.provoke(&method, &path, status).await;
            for answer in answers {
                let found = answer.status.as_str();
                let undescribed = operation["responses"].get(found).is_none();
                assert!(found == status || (status == "default" && undescribed), "{place}: {answer:?}");
                description.check(response, &answer, &place);
            }
        }
    }
}

#[tokio::test]
async fn other_methods_and_other_paths_are_refused_as_described() {
    let (description, federation) = (Description::read(), Setup::default().regions(1).start().await);
    let responses = &description.0["components"]["responses"];
    for (path, method, _) in description.operations() {
        // Other methods on paths of regions are for the region to judge.
        let admin = matches!(path.as_str(), "/metrics" | "/livez" | "/readyz" | "/state" | "/config" | "/spool");
        // Those of operators are set and ended on the path that shows them.
        if path.starts_with("/ojs/v1/jobs") || path.starts_with("/ojs/v1/health") || path == "/switches" {
            continue;
        }
        for other in [http::Method::DELETE, http::Method::PUT, http::Method::TRACE] {
            let client = if admin { &federation.admin } else { &federation.client };
            let answer = client.call(other, &path, "").await;
            assert_eq!(answer.status, 405, "{path}");
            let allow = if method == "POST" { "POST" } else { "GET, HEAD" };
            assert_eq!(answer.header("allow"), Some(allow), "{path}");
            if !admin {
                description.check(&responses["MethodNotAllowed"], &answer, &path);
            }
        }
    }
    for path in ["/", "/jobs", "/v1/federation/", "/v1/federation/nothing", "/v2/federation/regions"] {
        let answer = federation.client.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        description.check(&responses["NotFound"], &answer, path);
    }
}

#[test]
fn every_reference_is_used_and_leads_somewhere() {
    let description = Description::read();
    let text = read(FILE);
    let references: BTreeSet<&str> = text.split("$ref: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for reference in &references {
        description.resolve(&json!({ "$ref": reference }));
    }
    for (kind, members) in description.0["components"].as_object().unwrap() {
        for name in members.as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(text.matches(&reference).count() > 0, "{reference} is not used");
        }
    }
}

#[test]
fn every_schema_is_valid_and_the_reasons_are_those_of_the_code() {
    let description = Description::read();
    for (name, schema) in description.0["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}");
        description.validator(schema);
    }
    for job in description.0["components"]["schemas"]["Job"]["examples"].as_array().unwrap() {
        assert!(description.validator(&json!({ "$ref": "#/components/schemas/Job" })).is_valid(job));
    }
    let described = description.0["components"]["schemas"]["Reason"]["enum"].as_array().unwrap();
    let described: BTreeSet<&str> = described.iter().map(|reason| reason.as_str().unwrap()).collect();
    assert_eq!(described, Reason::ALL.iter().map(|reason| reason.as_str()).collect());
}
