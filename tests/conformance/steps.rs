//! Cases that are written as HTTP exchanges.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::Broken;
use super::client::{Answer, Client};
use super::json_path::{length, resolve};
use super::matcher::{has_operators, matches, same};
use super::stage::Stage;
use super::template::{fill, fill_text};

/// A measured time may differ from one that is to be approximate by this part of it, or by this much.
const TIME_PART: f64 = 0.5;
const TIME_MS: f64 = 100.0;

/// Plays a case.
pub async fn run(case: &Value, stage: &Stage) -> Result<(), Broken> {
    let client = stage.client();
    let steps = case["steps"].as_array().unwrap();
    let mut history = json!({ "steps": {} });
    let mut done = vec![false; steps.len()];
    for place in 0..steps.len() {
        if done[place] {
            continue;
        }
        let together = together(steps, place);
        let mut running = JoinSet::new();
        for &place in &together {
            done[place] = true;
            stage.wait(waits(&steps[place]));
            let (step, history) = (steps[place].clone(), history.clone());
            running.spawn(async move { (place, play(&step, client, &history).await) });
        }
        let mut answers: Vec<_> = running.join_all().await;
        answers.sort_by_key(|(place, _)| *place);
        // All answers are on record before the first is judged: each may be compared with the other.
        let mut judged = Vec::new();
        for (place, answer) in answers {
            let step = &steps[place];
            let Some(answer) = answer.map_err(|broken| format!("{}: {broken}", id(step)))? else { continue };
            history["steps"][id(step)] = answer.document();
            judged.push((step, answer));
        }
        for (step, answer) in judged {
            judge(&step["assertions"], &answer, &history).map_err(|broken| format!("{}: {broken}", id(step)))?;
        }
    }
    Ok(())
}

fn id(step: &Value) -> &str {
    step["id"].as_str().unwrap()
}

/// The step at a place, and those that run at the same time.
fn together(steps: &[Value], place: usize) -> Vec<usize> {
    let names = |step: &Value| match &step["parallel_with"] {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let own = (id(&steps[place]).to_owned(), names(&steps[place]));
    let joins = |step: &Value| own.1.iter().any(|name| name == id(step)) || names(step).contains(&own.0);
    let later = (place + 1..steps.len()).filter(|&other| joins(&steps[other]));
    std::iter::once(place).chain(later).collect()
}

/// How long a step waits, before it does anything or instead of doing anything.
fn waits(step: &Value) -> Duration {
    let named = ["delay_ms", "duration_ms"].map(|name| step[name].as_u64().unwrap_or(0));
    Duration::from_millis(named.iter().sum())
}

/// Does what a step says once its wait is over; a step that only waits or compares has no answer.
async fn play(step: &Value, client: Client, history: &Value) -> Result<Option<Answer>, Broken> {
    match step["action"].as_str().unwrap() {
        "WAIT" => Ok(None),
        "ASSERT" => compare(&step["assertions"], history).map(|()| None),
        method @ ("GET" | "POST" | "PUT" | "PATCH" | "DELETE") => {
            let path = fill_text(step["path"].as_str().unwrap(), history)?;
            let headers = fill(&step["headers"], history)?;
            let body = match (&step["raw_body"], &step["body"]) {
                (Value::String(raw), _) => raw.clone().into_bytes(),
                (_, Value::Null) => Vec::new(),
                (_, body) => fill(body, history)?.to_string().into_bytes(),
            };
            let headers = headers.as_object().cloned().unwrap_or_default();
            Ok(Some(client.call(method, path.as_str().unwrap(), &headers, body).await))
        }
        other => panic!("this action is not known: {other}"),
    }
}

/// Holds an answer against a step's assertions.
fn judge(assertions: &Value, answer: &Answer, history: &Value) -> Result<(), Broken> {
    // The status first: it says most of what went wrong.
    let mut asserted: Vec<_> = assertions.as_object().into_iter().flatten().collect();
    asserted.sort_by_key(|(kind, _)| !kind.starts_with("status"));
    for (kind, expected) in asserted {
        match kind.as_str() {
            "status" | "status_in" => {
                if !matches_status(expected, answer.status) {
                    return Err(format!("status {} where {expected} is expected", answer.status));
                }
            }
            "headers" => judge_headers(expected, answer, history)?,
            "body" => judge_body(expected.as_object().unwrap(), answer, history)?,
            "body_absent" => {
                for path in expected.as_array().unwrap().iter().filter_map(Value::as_str) {
                    if value_at(answer, path, history)?.is_some() {
                        return Err(format!("`{path}` is there"));
                    }
                }
            }
            "body_contains" => {
                for part in expected.as_array().unwrap() {
                    let part = fill(part, history)?;
                    if !answer.text.contains(part.as_str().unwrap()) {
                        return Err("the body lacks a text".to_owned());
                    }
                }
            }
            "timing_ms" => judge_time(expected, answer.took)?,
            other => panic!("this assertion is not known: {other}"),
        }
    }
    Ok(())
}

fn matches_status(expected: &Value, status: u16) -> bool {
    match expected {
        Value::Array(all) => all.iter().any(|one| matches_status(one, status)),
        Value::String(words) if words.starts_with("one_of:") => {
            words["one_of:".len()..].split(',').any(|word| word.trim().parse() == Ok(status))
        }
        matcher => matches(matcher, Some(&status.into())),
    }
}

fn judge_headers(expected: &Value, answer: &Answer, history: &Value) -> Result<(), Broken> {
    for (name, matcher) in expected.as_object().unwrap() {
        let value = answer.headers.get(name).map(|value| Value::from(String::from_utf8_lossy(value.as_bytes())));
        if !matches(&fill(matcher, history)?, value.as_ref()) {
            return Err(format!("header `{name}` is not {matcher}"));
        }
    }
    Ok(())
}

fn judge_body(expected: &Map<String, Value>, answer: &Answer, history: &Value) -> Result<(), Broken> {
    if has_operators(expected) {
        let holds = matches(&Value::Object(expected.clone()), answer.body.as_ref());
        return if holds { Ok(()) } else { Err("the body is not empty".to_owned()) };
    }
    for (path, matcher) in expected {
        if path == "$or" {
            let mut ways = matcher.as_array().unwrap().iter();
            if !ways.any(|way| judge_body(way.as_object().unwrap(), answer, history).is_ok()) {
                return Err("none of the alternatives for the body holds".to_owned());
            }
        } else if !matches(&fill(matcher, history)?, value_at(answer, path, history)?.as_ref()) {
            return Err(format!("`{path}` is not {matcher}"));
        }
    }
    Ok(())
}

fn value_at(answer: &Answer, path: &str, history: &Value) -> Result<Option<Value>, Broken> {
    let path = fill_text(path, history)?;
    Ok(answer.body.as_ref().and_then(|body| resolve(body, path.as_str().unwrap())))
}

fn judge_time(expected: &Value, took: Duration) -> Result<(), Broken> {
    let took_ms = took.as_secs_f64() * 1_000.0;
    for (kind, bound) in expected.as_object().unwrap() {
        let bound = bound.as_f64().unwrap();
        let holds = match kind.as_str() {
            "less_than" => took_ms < bound,
            "greater_than" => took_ms > bound,
            "approximate" => (took_ms - bound).abs() <= (bound * TIME_PART).max(TIME_MS),
            other => panic!("this assertion about time is not known: {other}"),
        };
        if !holds {
            return Err(format!("the answer did not take {kind} {bound} ms"));
        }
    }
    Ok(())
}

/// Compares the answers of earlier steps.
fn compare(assertions: &Value, history: &Value) -> Result<(), Broken> {
    for (kind, expected) in assertions.as_object().into_iter().flatten() {
        match kind.as_str() {
            "equality" => {
                for (path, other) in expected.as_object().unwrap() {
                    let one = resolve(history, path).ok_or_else(|| format!("`{path}` leads to nothing"))?;
                    if !same(&fill(other, history)?, &one) {
                        return Err(format!("`{path}` is not {other}"));
                    }
                }
            }
            "exclusive_claim" => check_claim(expected, history)?,
            other => panic!("this comparison is not known: {other}"),
        }
    }
    Ok(())
}

fn check_claim(expected: &Value, history: &Value) -> Result<(), Broken> {
    let job = fill(&expected["job_id"], history)?;
    let fetches = fill(&expected["fetches"], history)?;
    let fetches = fetches.as_array().unwrap();
    let has_job = |jobs: &&Value| jobs.as_array().into_iter().flatten().any(|one| one["id"] == job);
    let with_job = fetches.iter().filter(has_job).count();
    if expected["exactly_one_has_job"] == true && with_job != 1 {
        return Err(format!("{with_job} fetches got the job"));
    }
    let empty = fetches.iter().filter(|jobs| length(jobs) == Some(0)).count();
    if expected["exactly_one_empty"] == true && empty != 1 {
        return Err(format!("{empty} fetches got nothing"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn check(assertions: Value, status: u16, text: &str, holds: bool) {
        let mut headers = HeaderMap::new();
        headers.insert("ojs-version", "1.0".parse().unwrap());
        let body = serde_json::from_str(text).ok();
        let answer = Answer { status, headers, text: text.to_owned(), body, took: Duration::from_millis(200) };
        let judged = judge(&assertions, &answer, &json!({"steps": {}}));
        assert_eq!(judged.is_ok(), holds, "{assertions} {status} {text}: {judged:?}");
    }

    #[test]
    fn an_answer_is_held_against_every_assertion() {
        for (status, holds) in [(json!(200), true), (json!(201), false), (json!("one_of:200,204"), true)] {
            check(json!({"status": status}), 200, "", holds);
        }
        check(json!({"status": {"$in": [400, 422]}}), 422, "", true);
        check(json!({"status": "number:range(400,422)"}), 500, "", false);
        check(json!({"status_in": [200, 204]}), 204, "", true);
        check(json!({"headers": {"OJS-Version": "1.0"}}), 200, "", true);
        check(json!({"headers": {"OJS-Version": "2.0"}}), 200, "", false);
        check(json!({"headers": {"X-None": "1"}}), 200, "", false);
        check(json!({"body": {"$.a": 1, "$.b": "absent"}}), 200, r#"{"a":1}"#, true);
        check(json!({"body": {"$.a": 1, "$.b": "exists"}}), 200, r#"{"a":1}"#, false);
        let either = json!({"body": {"$or": [{"$.jobs": {"$size": 0}}, {"$empty": true}]}});
        for (text, holds) in [(r#"{"jobs":[]}"#, true), ("", true), (r#"{"jobs":[1]}"#, false)] {
            check(either.clone(), 200, text, holds);
        }
        check(json!({"body_absent": ["$.a"]}), 200, r#"{"b":1}"#, true);
        check(json!({"body_absent": ["$.b"]}), 200, r#"{"b":1}"#, false);
        check(json!({"body_contains": ["page not"]}), 200, "404 page not found", true);
        check(json!({"body_contains": ["nothing"]}), 200, "404 page not found", false);
        for (timing, holds) in [
            (json!({"less_than": 300}), true),
            (json!({"greater_than": 300}), false),
            (json!({"approximate": 290}), true),
            (json!({"approximate": 500}), false),
        ] {
            check(json!({"timing_ms": timing}), 200, "", holds);
        }
    }

    #[test]
    fn earlier_answers_are_compared_with_each_other() {
        let history = json!({"steps": {"a": {"response": {"body": {"jobs": [{"id": "j"}]}}},
                                       "b": {"response": {"body": {"jobs": []}}}}});
        let claim = |second: &str| {
            json!({"exclusive_claim": {"job_id": "{{steps.a.response.body.jobs[0].id}}", "exactly_one_has_job": true,
                   "exactly_one_empty": true, "fetches": ["{{steps.a.response.body.jobs}}", second]}})
        };
        assert_eq!(compare(&claim("{{steps.b.response.body.jobs}}"), &history), Ok(()));
        assert!(compare(&claim("{{steps.a.response.body.jobs}}"), &history).is_err());
        let equal = |step: &str| json!({"equality": {"$.steps.a.response.body": format!("{{{{steps.{step}.response.body}}}}")}});
        assert_eq!(compare(&equal("a"), &history), Ok(()));
        assert!(compare(&equal("b"), &history).is_err());
    }

    #[test]
    fn steps_that_name_each_other_run_together() {
        let steps =
            [json!({"id": "1"}), json!({"id": "2", "parallel_with": "3"}), json!({"id": "3", "parallel_with": ["2"]})];
        assert_eq!(together(&steps, 0), [0]);
        assert_eq!(together(&steps, 1), [1, 2]);
    }
}
