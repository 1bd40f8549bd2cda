//! The part of JSONPath that the cases use: `$.a.b[0].c`, `[*]`, `[?(@.k=='v')]` (the first match), `length()`.

use serde_json::Value;

/// What a path leads to; `[*]` leads to an array of what it finds.
///
/// Panics on a path that is not of this form: reading it otherwise would test something else.
pub fn resolve(root: &Value, path: &str) -> Option<Value> {
    let path = path.strip_prefix('$').unwrap_or(path);
    follow(root, path.strip_prefix('.').unwrap_or(path), path)
}

fn follow(value: &Value, rest: &str, whole: &str) -> Option<Value> {
    if rest.is_empty() {
        return Some(value.clone());
    }
    if let Some(inner) = rest.strip_prefix('[') {
        // A filter may hold a bracket in its text; none of the cases' does.
        let (inside, after) = inner.split_once(']').unwrap_or_else(|| panic!("a bracket is open in {whole}"));
        let after = after.strip_prefix('.').unwrap_or(after);
        return match inside {
            "*" => Some(value.as_array()?.iter().filter_map(|item| follow(item, after, whole)).collect()),
            _ if inside.starts_with('?') => follow(filtered(value.as_array()?, inside, whole)?, after, whole),
            _ => {
                let index: usize = inside.parse().unwrap_or_else(|_| panic!("{inside} is no index in {whole}"));
                follow(value.as_array()?.get(index)?, after, whole)
            }
        };
    }
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let after = after.strip_prefix('.').unwrap_or(after);
    if name == "length()" {
        return length(value).map(Value::from);
    }
    follow(value.get(name)?, after, whole)
}

fn filtered<'v>(items: &'v [Value], inside: &str, whole: &str) -> Option<&'v Value> {
    let condition = inside.strip_prefix("?(@.").and_then(|inside| inside.strip_suffix(')'));
    let (key, text) = condition.and_then(|condition| condition.split_once("==")).unwrap_or_else(|| panic!("{whole}"));
    let text = text.trim().trim_matches(['\'', '"']);
    items.iter().find(|item| item.get(key.trim()).and_then(Value::as_str) == Some(text))
}

/// The length of an array, an object or a text.
pub fn length(value: &Value) -> Option<usize> {
    match value {
        Value::Array(items) => Some(items.len()),
        Value::Object(members) => Some(members.len()),
        Value::String(text) => Some(text.chars().count()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_members_items_filters_and_lengths() {
        let root = json!({"a": {"b-c": [{"k": "v", "n": 1}, {"k": "w", "n": 2}]}, "t": "äb"});
        for (path, expected) in [
            ("$", Some(root.clone())),
            ("$.a.b-c[1].n", Some(json!(2))),
            ("a.b-c[0].k", Some(json!("v"))),
            ("$.a.b-c[*].n", Some(json!([1, 2]))),
            ("$.a.b-c[?(@.k=='w')].n", Some(json!(2))),
            ("$.a.b-c[?(@.k=='x')]", None),
            ("$.a.b-c.length()", Some(json!(2))),
            ("$.t.length()", Some(json!(2))),
            ("$.a.b-c[2]", None),
            ("$.a.none.deeper", None),
            ("$.t[0]", None),
        ] {
            assert_eq!(resolve(&root, path), expected, "{path}");
        }
    }
}
