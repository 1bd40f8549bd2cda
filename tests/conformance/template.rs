//! `{{steps.ID.response.body.PATH}}`: what earlier steps were answered, in the words of later ones.

use serde_json::{Map, Value};

use super::json_path::resolve;

/// Fills a text. One that is nothing but a template becomes the value itself, whatever its type.
///
/// Errors: the template that leads to nothing.
pub fn fill_text(text: &str, history: &Value) -> Result<Value, String> {
    if let Some(inside) = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"))
        && !inside.contains("{{")
    {
        return look_up(inside, history);
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, after) = after.split_once("}}").ok_or_else(|| format!("an open template in {text}"))?;
        filled.push_str(before);
        match look_up(inside, history)? {
            Value::String(text) => filled.push_str(&text),
            other => filled.push_str(&other.to_string()),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(Value::String(filled))
}

/// Fills every text within, names of members included.
///
/// Errors: the first template that leads to nothing.
pub fn fill(value: &Value, history: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => fill_text(text, history)?,
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, history)).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let mut filled = Map::new();
            for (name, member) in members {
                let name = fill_text(name, history)?;
                filled.insert(name.as_str().unwrap_or_default().to_owned(), fill(member, history)?);
            }
            Value::Object(filled)
        }
        other => other.clone(),
    })
}

fn look_up(inside: &str, history: &Value) -> Result<Value, String> {
    let inside = inside.trim();
    // Names of headers have no case.
    let path = match inside.split_once(".response.headers.") {
        Some((step, name)) => format!("{step}.response.headers.{}", name.to_ascii_lowercase()),
        None => inside.to_owned(),
    };
    resolve(history, &path).ok_or_else(|| format!("{{{{{inside}}}}} leads to nothing"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_filled_in_texts_names_and_as_whole_values() {
        let history = json!({"steps": {"s-1": {"response": {"headers": {"x-id": "h"}, "body": {"jobs": [{"id": "i", "n": 4}]}}}}});
        for (value, expected) in [
            (json!("a/{{steps.s-1.response.body.jobs[0].id}}/b"), json!("a/i/b")),
            (json!("{{steps.s-1.response.body.jobs[0].n}}"), json!(4)),
            (json!("{{steps.s-1.response.body.jobs}}"), json!([{"id": "i", "n": 4}])),
            (json!(["{{steps.s-1.response.headers.X-Id}}"]), json!(["h"])),
            (json!({"$.x[?(@.id=='{{steps.s-1.response.body.jobs[0].id}}')]": 1}), json!({"$.x[?(@.id=='i')]": 1})),
            (json!(7), json!(7)),
        ] {
            assert_eq!(fill(&value, &history), Ok(expected), "{value}");
        }
        assert!(fill(&json!("{{steps.s-2.response.body}}"), &history).is_err());
    }
}
