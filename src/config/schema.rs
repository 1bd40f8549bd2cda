//! The JSON Schema of a configuration file, for editors and for machines that write one.
//!
//! Built from the table of keys, so that it cannot differ from the reader. It has the rules of one key and its
//! neighbours; rules between sections, such as that a rule names registered regions, are left to `ojs-sidecar check`.

use serde_json::{Value, json};

use super::key::Key;
use super::keys::{ALIASES, keys};
use super::kind::Kind;
use crate::base::Strategy;

/// A length of time as jiff reads it: numbers with units, `1h 30m`, `1.5s`, `7d`; days have no fractions. Or as ISO 8601 has it: `PT30S`.
const DURATION: &str = "^(([0-9]+[ \\t]*(d|day|days)|[0-9]+([.,][0-9]+)?[ \\t]*(h|hr|hrs|hour|hours|m|min|mins|minute|minutes|s|sec|secs|second|seconds\
    |ms|msec|msecs|milli|millis|millisecond|milliseconds|us|µs|usec|usecs|micro|micros|microsecond|microseconds\
    |ns|nsec|nsecs|nano|nanos|nanosecond|nanoseconds)),?[ \\t]*)+$\
    |^PT([0-9]+H([0-9]+M)?([0-9]+S)?|[0-9]+M([0-9]+S)?|[0-9]+S)$";
const SIZE: &str = "^[0-9]+ *(KiB|MiB|GiB)?$";
const MODE: &str = "^(0o)?0*[0-7]{1,3}$";

/// Rules within one section beyond the kinds of its keys; `""` is the document.
const RULES: &[Rule] = &[
    ("", || json!({ "required": ["regions"] })),
    ("regions", || json!({ "minItems": 1, "maxItems": 256 })),
    ("regions[]", || json!({ "required": ["id", "url"] })),
    ("regions[].id", || json!({ "pattern": "^[a-z0-9-]{1,64}$", "not": { "const": "none" } })),
    ("regions[].url", || json!({ "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^@?#]+$" })),
    ("regions[].tls", || {
        json!({
            "dependentRequired": { "cert": ["key"], "key": ["cert"] },
            "not": { "type": "object", "required": ["server_name", "uri_san"] },
        })
    }),
    ("routing.rules", || json!({ "maxItems": 1024 })),
    ("routing.rules[].target.regions", || json!({ "minItems": 1 })),
    ("tenants", || json!({ "maxItems": 1024 })),
    ("tenants[]", || json!({ "required": ["match"] })),
    ("tenants[].regions", || json!({ "minItems": 1 })),
    ("limits.fleet[]", || json!({ "required": ["region", "on_hub_loss"] })),
    ("scheduling.pools", || json!({ "maxItems": 64 })),
    ("scheduling.pools[]", || json!({ "required": ["name", "queues"] })),
    ("scheduling.pools[].queues", || json!({ "minItems": 1 })),
    ("scheduling.tenant_queues", || json!({ "maxItems": 8 })),
    ("scheduling.tenant_queues[]", || json!({ "required": ["queue"] })),
    ("scheduling.tenant_queues[].priority_bands", || json!({ "maxItems": 3 })),
    ("uwer.origins", || json!({ "maxItems": 256 })),
    ("uwer.origins[]", || json!({ "required": ["origin"] })),
    ("routing.geographic", || json!({ "required": ["meta_key", "regions"] })),
    ("routing.geographic.regions", || json!({ "minProperties": 1 })),
    ("health_check.accepted_status", || json!({ "minItems": 1 })),
];

/// Where it holds, and the members that it adds to the schema there.
type Rule = (&'static str, fn() -> Value);

/// The schema of one whole configuration file.
///
/// Shape: draft 2020-12; every object is closed but for members that begin with `x-`; `null` stands for an absent key, as it does when read.
#[must_use]
pub fn schema() -> Value {
    let mut root = object();
    for key in keys() {
        insert(&mut root, key.path, of_key(key));
    }
    for alias in ALIASES {
        let mut schema = nullable(of_kind(alias.kind));
        set(&mut schema, "description", format!("Another spelling of `{}`", alias.key).into());
        insert(&mut root, alias.written, schema);
    }
    for (path, rule) in RULES {
        apply(&mut root, path, rule());
    }
    forbid_two_spellings(&mut root);
    set(&mut root, "$schema", "https://json-schema.org/draft/2020-12/schema".into());
    set(&mut root, "$id", "urn:ojs-sidecar:configuration".into());
    set(&mut root, "title", "Configuration of ojs-sidecar".into());
    let whole =
        "One whole configuration. Where several files are layered, a later one may leave out what an earlier one has.";
    set(&mut root, "description", whole.into());
    root
}

fn object() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {}, "patternProperties": { "^x-": {} } })
}

fn of_key(key: &Key) -> Value {
    let mut schema = of_kind(key.kind);
    let required = matches!(key.path, "regions[].id" | "regions[].url");
    if !required {
        schema = nullable(schema);
    }
    let doc = match (key.honoured, key.unit) {
        (false, _) => format!("Accepted and not honoured: {}", key.doc),
        (true, "" | "duration" | "bytes") => key.doc.to_owned(),
        (true, unit) => format!("{} ({unit})", key.doc),
    };
    set(&mut schema, "description", doc.into());
    if !key.honoured {
        set(&mut schema, "deprecated", true.into());
    }
    let default = key.default.and_then(|text| serde_json::to_value(key.kind.read(text)).ok());
    if let Some(default) = default {
        set(&mut schema, "default", default);
    }
    schema
}

fn of_kind(kind: Kind) -> Value {
    match kind {
        Kind::Text(max) => json!({ "type": "string", "minLength": 1, "maxLength": max }),
        Kind::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Integer(min, u64::MAX) => json!({ "type": "integer", "minimum": min }),
        Kind::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number(min, max) => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Duration(..) => json!({ "type": "string", "pattern": DURATION, "$comment": kind.expected() }),
        Kind::Seconds => json!({ "type": "number", "minimum": 0 }),
        Kind::Size(min, max) => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": SIZE, "$comment": kind.expected() },
        ] }),
        Kind::Choice(names) => json!({ "enum": names }),
        Kind::Strategy => {
            let names = Strategy::ALL.map(Strategy::as_str).into_iter();
            let names: Vec<&str> = names.chain(Strategy::ALIASES.iter().copied()).collect();
            json!({ "enum": names })
        }
        Kind::Address => json!({ "type": "string", "pattern": "^.+:[0-9]{1,5}$" }),
        Kind::Path => json!({ "type": "string", "minLength": 1, "maxLength": 4096 }),
        // YAML turns bare digits into a number before an editor sees them.
        Kind::Mode => json!({ "anyOf": [
            { "type": "string", "pattern": MODE },
            { "type": "integer", "minimum": 0, "maximum": 777 },
        ] }),
        Kind::Texts(max) => json!({ "type": "array", "items": { "type": "string", "maxLength": max } }),
        Kind::Integers(min, max) => {
            json!({ "type": "array", "items": { "type": "integer", "minimum": min, "maximum": max } })
        }
        Kind::TextMap => json!({ "type": "object", "additionalProperties": of_kind(Kind::Scalar) }),
    }
}

/// The same, and `null`.
fn nullable(mut schema: Value) -> Value {
    let Some(members) = schema.as_object_mut() else { return schema };
    if let Some(kind) = members.get_mut("type") {
        let mut kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]);
        kinds.push("null".into());
        *kind = kinds.into();
    } else if let Some(choices) = members.get_mut("enum").and_then(Value::as_array_mut) {
        choices.push(Value::Null);
    } else if let Some(kinds) = members.get_mut("anyOf").and_then(Value::as_array_mut) {
        kinds.push(json!({ "type": "null" }));
    }
    schema
}

/// Puts a key's schema where its path says; sections and lists on the way are made.
fn insert(section: &mut Value, path: &str, schema: Value) {
    let Some((name, rest)) = path.split_once('.') else {
        set(&mut section["properties"], path, schema);
        return;
    };
    let (name, is_list) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
    let place = &mut section["properties"][name];
    if place.is_null() && is_list {
        *place = json!({ "type": ["array", "null"], "items": object() });
    } else if place.is_null() {
        *place = nullable(object());
    }
    insert(if is_list { &mut place["items"] } else { place }, rest, schema);
}

/// Adds members to the schema at a path.
fn apply(section: &mut Value, path: &str, members: Value) {
    if path.is_empty() {
        for (name, member) in members.as_object().into_iter().flatten() {
            set(section, name, member.clone());
        }
        return;
    }
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, is_list) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
    let place = &mut section["properties"][name];
    apply(if is_list { &mut place["items"] } else { place }, rest, members);
}

/// A key may stand once, in any spelling.
fn forbid_two_spellings(root: &mut Value) {
    for (at, alias) in ALIASES.iter().enumerate() {
        let Some((section, name)) = alias.written.rsplit_once('.') else { continue };
        let others = ALIASES.iter().skip(at + 1).filter(|other| other.key == alias.key).map(|other| other.written);
        for other in others.chain([alias.key]) {
            let Some(other) = other.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')) else { continue };
            let place = &mut root["properties"][section];
            let mut all = place["allOf"].as_array().cloned().unwrap_or_default();
            all.push(json!({ "not": { "type": "object", "required": [name, other] } }));
            set(place, "allOf", all.into());
        }
    }
}

fn set(schema: &mut Value, name: &str, value: Value) {
    if let Some(members) = schema.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}
