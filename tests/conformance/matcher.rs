//! What a value is compared with: a literal, a word for a kind of value, or operators.
//!
//! A matcher that is not known panics: taking it for a literal would fail a case, or pass it, for the wrong reason.

use regex_automata::meta::Regex;
use serde_json::{Map, Value};

use super::json_path::length;

/// How far a number may be from one that is written `~N`, as a part of it.
const ABOUT: f64 = 0.2;

/// Whether a value, or its absence, is what the matcher asks for.
pub fn matches(matcher: &Value, actual: Option<&Value>) -> bool {
    match matcher {
        Value::String(word) => matches_word(word, actual),
        Value::Array(expected) => actual.and_then(Value::as_array).is_some_and(|actual| {
            actual.len() == expected.len()
                && expected.iter().zip(actual).all(|(matcher, item)| matches(matcher, Some(item)))
        }),
        Value::Object(members) if members.keys().any(|key| key.starts_with('$') || key == "range") => {
            members.iter().all(|(operator, operand)| holds(operator, operand, actual))
        }
        Value::Object(expected) => actual.and_then(Value::as_object).is_some_and(|actual| {
            actual.len() == expected.len() && expected.iter().all(|(key, matcher)| matches(matcher, actual.get(key)))
        }),
        literal => actual.is_some_and(|actual| same(literal, actual)),
    }
}

/// Whether two values are the same; numbers by value, however they are written.
pub fn same(expected: &Value, actual: &Value) -> bool {
    match (expected.as_f64(), actual.as_f64()) {
        (Some(expected), Some(actual)) => {
            expected.to_bits() == actual.to_bits() || (expected - actual).abs() < f64::EPSILON
        }
        _ => expected == actual,
    }
}

fn matches_word(word: &str, actual: Option<&Value>) -> bool {
    let text = || actual.and_then(Value::as_str);
    match word {
        "any" => return actual.is_some_and(|actual| !actual.is_null()),
        "exists" => return actual.is_some(),
        "absent" => return actual.is_none(),
        "non_empty" | "string:nonempty" | "string:non_empty" => return text().is_some_and(|text| !text.is_empty()),
        "string:uuid" => return text().is_some_and(|text| uuid::Uuid::try_parse(text).is_ok()),
        "string:uuidv7" => return text().is_some_and(|text| found(UUID7, text)),
        "string:datetime" => return text().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()),
        _ => {}
    }
    if let Some(about) = word.strip_prefix('~').and_then(|about| about.parse::<f64>().ok()) {
        return actual.and_then(Value::as_f64).is_some_and(|actual| (actual - about).abs() <= about.abs() * ABOUT);
    }
    if let Some(part) = word.strip_prefix("string:contains:") {
        return text().is_some_and(|text| text.contains(part));
    }
    if let Some(pattern) = inside(word, "string:pattern") {
        return text().is_some_and(|text| found(pattern, text));
    }
    if let Some(kind) = word.strip_prefix("number:") {
        return matches_number(kind, actual);
    }
    if let Some(part) = inside(word, "contains").or_else(|| word.strip_prefix("contains:")) {
        return contains(part, actual);
    }
    if let Some(part) = word.strip_prefix("not_contains:") {
        return actual.is_some() && !contains(part, actual);
    }
    if let Some(size) = inside(word, "length") {
        return actual.and_then(length) == Some(whole(size));
    }
    if let Some(kind) = word.strip_prefix("array:") {
        return matches_array(kind, actual);
    }
    assert!(!word.starts_with("string:"), "this matcher is not known: {word}");
    text() == Some(word)
}

const UUID7: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";

fn matches_number(kind: &str, actual: Option<&Value>) -> bool {
    let Some(number) = actual.and_then(Value::as_f64) else { return false };
    match kind {
        "positive" => number > 0.0,
        "non_negative" => number >= 0.0,
        _ => {
            let bounds = inside(kind, "range").and_then(|bounds| bounds.split_once(','));
            let (low, high) = bounds.unwrap_or_else(|| panic!("this matcher is not known: number:{kind}"));
            let bound = |text: &str| text.trim().parse::<f64>().unwrap();
            (bound(low)..=bound(high)).contains(&number)
        }
    }
}

fn matches_array(kind: &str, actual: Option<&Value>) -> bool {
    let size = actual.and_then(Value::as_array).map(Vec::len);
    let exactly = kind.strip_prefix("length:").or_else(|| inside(kind, "length"));
    let at_least = kind.strip_prefix("min_length:").or_else(|| kind.strip_prefix("min:"));
    match (kind, exactly, at_least) {
        ("nonempty" | "non_empty", ..) => size.is_some_and(|size| size > 0),
        ("empty", ..) => size == Some(0),
        (_, Some(exactly), _) => size == Some(whole(exactly)),
        (_, _, Some(at_least)) => size.is_some_and(|size| size >= whole(at_least)),
        _ => panic!("this matcher is not known: array:{kind}"),
    }
}

fn contains(part: &str, actual: Option<&Value>) -> bool {
    match actual {
        Some(Value::String(text)) => text.contains(part),
        Some(Value::Array(items)) => items.iter().any(|item| match item {
            Value::String(text) => text == part,
            other => serde_json::from_str(part).is_ok_and(|part: Value| same(&part, other)),
        }),
        _ => false,
    }
}

fn holds(operator: &str, operand: &Value, actual: Option<&Value>) -> bool {
    match operator {
        "$exists" => actual.is_some() == operand.as_bool().unwrap(),
        "$type" => actual.is_some_and(|actual| is_type(operand.as_str().unwrap(), actual)),
        "$match" => actual.and_then(Value::as_str).is_some_and(|text| found(operand.as_str().unwrap(), text)),
        "$in" | "$or" => operand.as_array().unwrap().iter().any(|one| matches(one, actual)),
        "$size" => actual.and_then(length).is_some_and(|size| has_size(operand, size)),
        "$empty" => is_empty(actual) == operand.as_bool().unwrap(),
        "range" => {
            let bound = |name: &str| operand.get(name).map(|bound| bound.as_f64().unwrap());
            let low = bound("min").unwrap_or(f64::NEG_INFINITY);
            let high = bound("max").unwrap_or(f64::INFINITY);
            actual.and_then(Value::as_f64).is_some_and(|number| (low..=high).contains(&number))
        }
        _ => panic!("this operator is not known: {operator}"),
    }
}

fn is_empty(actual: Option<&Value>) -> bool {
    actual.is_none_or(|actual| actual.is_null() || length(actual) == Some(0))
}

fn is_type(name: &str, actual: &Value) -> bool {
    match name {
        "string" => actual.is_string(),
        "number" => actual.is_number(),
        "integer" => actual.is_i64() || actual.is_u64(),
        "boolean" => actual.is_boolean(),
        "array" => actual.is_array(),
        "object" => actual.is_object(),
        "null" => actual.is_null(),
        _ => panic!("this type is not known: {name}"),
    }
}

fn has_size(operand: &Value, size: usize) -> bool {
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let Some(bounds) = operand.as_object() else { return size == number(operand) };
    bounds.iter().all(|(operator, bound): (&String, &Value)| match operator.as_str() {
        "$gte" => size >= number(bound),
        "$gt" => size > number(bound),
        "$lte" => size <= number(bound),
        "$lt" => size < number(bound),
        _ => panic!("this operator is not known: {operator}"),
    })
}

/// The operators of a whole body, where a body is matched by alternatives.
pub fn has_operators(members: &Map<String, Value>) -> bool {
    members.keys().any(|key| key == "$empty")
}

/// The text within the brackets of `name(text)`.
fn inside<'w>(word: &'w str, name: &str) -> Option<&'w str> {
    word.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

fn whole(text: &str) -> usize {
    text.trim().parse().unwrap_or_else(|_| panic!("{text} is no length"))
}

fn found(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(matcher: Value, good: &[Value], bad: &[Value]) {
        for value in good {
            assert!(matches(&matcher, Some(value)), "{matcher} refuses {value}");
        }
        for value in bad {
            assert!(!matches(&matcher, Some(value)), "{matcher} takes {value}");
        }
    }

    #[test]
    fn literals_and_lists_are_compared_whole_and_numbers_by_value() {
        check(json!("available"), &[json!("available")], &[json!("active"), json!(1), json!(null)]);
        check(json!(2), &[json!(2), json!(2.0)], &[json!(3), json!("2")]);
        check(json!(null), &[json!(null)], &[json!(0), json!("")]);
        check(json!(["a", {"k": "any"}]), &[json!(["a", {"k": 1}])], &[json!(["a"]), json!(["a", {"k": 1, "l": 2}])]);
    }

    #[test]
    fn words_stand_for_kinds_of_values() {
        check(json!("any"), &[json!(0), json!("")], &[json!(null)]);
        assert!(matches(&json!("absent"), None) && !matches(&json!("absent"), Some(&json!(null))));
        assert!(!matches(&json!("any"), None) && !matches(&json!("exists"), None));
        check(json!("exists"), &[json!(null)], &[]);
        for word in ["string:nonempty", "non_empty"] {
            check(json!(word), &[json!("a")], &[json!(""), json!(1)]);
        }
        let (v4, v7) = ("550e8400-e29b-41d4-a716-446655440000", "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f");
        check(json!("string:uuid"), &[json!(v4), json!(v7)], &[json!("x")]);
        check(json!("string:uuidv7"), &[json!(v7)], &[json!(v4)]);
        check(json!("string:datetime"), &[json!("2026-01-01T00:00:00.000Z")], &[json!("2026-01-01"), json!(1)]);
        check(json!("string:contains:ack"), &[json!("back")], &[json!("bag")]);
        check(json!("string:pattern(^a+$)"), &[json!("aa")], &[json!("ab")]);
        check(json!("~1000"), &[json!(1000), json!(1200), json!(800)], &[json!(1201), json!(2000), json!("1000")]);
    }

    #[test]
    fn numbers_and_arrays_have_words_of_their_own() {
        check(json!("number:positive"), &[json!(1)], &[json!(0), json!("1")]);
        check(json!("number:non_negative"), &[json!(0)], &[json!(-1)]);
        check(json!("number:range(400,422)"), &[json!(400), json!(422)], &[json!(399), json!(500)]);
        check(json!("array:nonempty"), &[json!([1])], &[json!([]), json!("a")]);
        check(json!("array:empty"), &[json!([])], &[json!([1]), json!("")]);
        for word in ["array:length:2", "array:length(2)", "length(2)"] {
            check(json!(word), &[json!([1, 2])], &[json!([1])]);
        }
        for word in ["array:min_length:2", "array:min:2"] {
            check(json!(word), &[json!([1, 2]), json!([1, 2, 3])], &[json!([1])]);
        }
        for word in ["contains:a", "contains(a)"] {
            check(json!(word), &[json!(["b", "a"]), json!("bar")], &[json!(["bar"]), json!("x")]);
        }
        check(json!("not_contains:a"), &[json!(["b"])], &[json!(["a"])]);
    }

    #[test]
    fn operators_hold_together() {
        assert!(matches(&json!({"$exists": false}), None) && !matches(&json!({"$exists": true}), None));
        check(json!({"$exists": true, "$type": "string"}), &[json!("a")], &[json!(1)]);
        check(json!({"$match": "^a"}), &[json!("ab")], &[json!("ba"), json!(1)]);
        check(json!({"$in": ["a", 2]}), &[json!("a"), json!(2)], &[json!("b")]);
        check(json!({"$or": ["absent", {"$type": "null"}]}), &[json!(null)], &[json!(1)]);
        check(json!({"$size": 0}), &[json!([])], &[json!([1]), json!(1)]);
        check(json!({"$size": {"$gte": 1, "$lt": 3}}), &[json!([1]), json!([1, 2])], &[json!([]), json!([1, 2, 3])]);
        check(json!({"$empty": true}), &[json!([]), json!({}), json!("")], &[json!([1])]);
        check(json!({"range": {"min": 1000, "max": 3000}}), &[json!(1000), json!(2500)], &[json!(999), json!("2000")]);
    }

    #[test]
    #[should_panic(expected = "not known")]
    fn a_word_that_nobody_knows_is_not_taken_for_a_literal() {
        matches(&json!("string:palindrome"), Some(&json!("abba")));
    }
}
