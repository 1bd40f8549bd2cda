//! Cases that are written as operations on jobs: `push`, `get`, `fetch`, `ack`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::Broken;
use super::client::{Answer, Client};
use super::matcher::same;

/// Plays a case.
pub async fn run(case: &Value, client: Client) -> Result<(), Broken> {
    let mut stored = HashMap::new();
    for (number, step) in (1..).zip(case["steps"].as_array().unwrap()) {
        let action = step["action"].as_str().unwrap();
        let request = filled(&step["request"], &stored);
        let answer = play(action, &request, client).await;
        let broken = |what: String| format!("step {number} ({action}): {what}");
        let status = &step["expect"]["status"];
        if *status != answer.status {
            return Err(broken(format!("status {} where {status} is expected", answer.status)));
        }
        let body = body(action, &answer);
        if let Some(missing) = step["expect"].get("body").and_then(|expected| missing(expected, &body)) {
            return Err(broken(format!("`{missing}` is not what is expected")));
        }
        for (name, path) in step["store"].as_object().into_iter().flatten() {
            let value = find(&body, path.as_str().unwrap()).ok_or_else(|| broken(format!("there is no {path}")))?;
            stored.insert(name.clone(), value.clone());
        }
    }
    Ok(())
}

async fn play(action: &str, request: &Value, client: Client) -> Answer {
    let (method, path, body) = match action {
        "push" => ("POST", "/ojs/v1/jobs".to_owned(), request.clone()),
        "get" => ("GET", format!("/ojs/v1/jobs/{}", request["id"].as_str().unwrap()), Value::Null),
        "fetch" => ("POST", "/ojs/v1/workers/fetch".to_owned(), request.clone()),
        "ack" => {
            let mut body = request.clone();
            body["job_id"] = body.as_object_mut().unwrap().remove("id").unwrap();
            ("POST", "/ojs/v1/workers/ack".to_owned(), body)
        }
        other => panic!("this action is not known: {other}"),
    };
    let mut headers = Map::new();
    headers.insert("content-type".to_owned(), "application/openjobspec+json".into());
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    client.call(method, &path, &headers, bytes).await
}

/// The cases expect bare jobs, and servers wrap them.
fn body(action: &str, answer: &Answer) -> Value {
    let body = answer.body.clone().unwrap_or(Value::Null);
    match body.get("job") {
        Some(job) if matches!(action, "push" | "get") => job.clone(),
        _ => body,
    }
}

/// Puts what was stored in the place of `$ref.name`.
fn filled(value: &Value, stored: &HashMap<String, Value>) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("$ref.") {
            Some(name) => stored.get(name).unwrap_or_else(|| panic!("nothing is stored as {name}")).clone(),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(|item| filled(item, stored)).collect(),
        Value::Object(members) => members.iter().map(|(key, member)| (key.clone(), filled(member, stored))).collect(),
        _ => value.clone(),
    }
}

/// The first key of what is expected that the body does not have so.
fn missing(expected: &Value, actual: &Value) -> Option<String> {
    let Some(members) = expected.as_object() else { return (!same(expected, actual)).then(String::new) };
    members.iter().find_map(|(key, expected)| {
        let Some(value) = find(actual, key) else { return Some(key.clone()) };
        missing(expected, value).map(|below| if below.is_empty() { key.clone() } else { format!("{key}: {below}") })
    })
}

/// The value under a dotted key, whose dots may belong to a name: at each level the longest name is tried first.
fn find<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    if key.is_empty() {
        return Some(value);
    }
    if let Some((index, rest)) = key.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        return find(value.get(index.parse::<usize>().ok()?)?, rest.strip_prefix('.').unwrap_or(rest));
    }
    let ends = key.char_indices().filter(|(_, letter)| matches!(letter, '.' | '[')).map(|(end, _)| end);
    let ends: Vec<usize> = ends.chain([key.len()]).collect();
    ends.into_iter().rev().find_map(|end| {
        let (name, rest) = key.split_at(end);
        find(value.get(name)?, rest.strip_prefix('.').unwrap_or(rest))
    })
}

#[test]
fn dots_of_a_key_belong_to_the_longest_name_that_is_there() {
    let body = json!({"jobs": [{"meta": {"a.b": {"c": 1}, "a": {"b": {"c.d": 2}}}}], "x.y": 3});
    for (key, expected) in [
        ("jobs[0].meta.a.b.c", Some(1)),
        ("jobs[0].meta.a.b.c.d", Some(2)),
        ("x.y", Some(3)),
        ("jobs[1].meta", None),
        ("x.z", None),
    ] {
        assert_eq!(find(&body, key), expected.map(Value::from).as_ref(), "{key}");
    }
    assert_eq!(missing(&json!({"jobs[0].meta": {"a.b.c": 1}}), &body), None);
    assert_eq!(missing(&json!({"jobs[0].meta": {"a.b.c": 9}}), &body), Some("jobs[0].meta: a.b.c".to_owned()));
    assert_eq!(missing(&json!({"y": 1}), &body), Some("y".to_owned()));
}
