//! One object out of those of several regions: counts are added up, other members are those of the first region.

use std::collections::HashMap;

use bytes::Bytes;

use super::count::is_count;
use super::object::{Kind, elements, find, members, push_quoted, text_of, whole};

/// Structures below this depth are taken from the first region as they are: aggregates nest two or three levels.
const DEPTH_MAX: usize = 16;

/// The most rows of one array that are united by name; more are put one behind the other.
const ROWS_MAX: usize = 10_000;

/// The names that identify a row of a table, the most specific first.
const ROW_NAMES: &[&str] =
    &["name", "queue", "timestamp", "time", "bucket", "date", "hour", "day", "state", "type", "code"];

/// Those of them that are a time: rows by these come in its order, whichever region has them.
const TIMES: &[&str] = &["timestamp", "time", "bucket", "date", "hour", "day"];

/// One region's answer to a question for figures.
#[derive(Debug, Clone, Copy)]
pub struct Part<'b> {
    /// The region's id.
    pub region: &'b str,
    /// Its answer.
    pub body: &'b [u8],
}

/// Whether an answer is something that can be added up.
#[must_use]
pub fn is_object(body: &[u8]) -> bool {
    whole(body).is_some()
}

/// Adds up the objects that regions answered, with each region's own under `x-ojs-federation`.
///
/// `None` when no answer is an object. Those that are none are left out of the sum.
#[must_use]
pub fn summed(parts: &[Part<'_>]) -> Option<Vec<u8>> {
    let readable: Vec<(&str, &str)> = parts.iter().filter_map(|part| Some((part.region, whole(part.body)?))).collect();
    let objects: Vec<&str> = readable.iter().map(|(_, object)| *object).collect();
    let json = object(&objects, 0)?;
    Some(with_parts(json, &readable).into_bytes())
}

/// Adds up objects without naming the regions; `None` without any.
#[must_use]
pub fn added_up(bodies: &[&[u8]]) -> Option<Vec<u8>> {
    let objects: Vec<&str> = bodies.iter().filter_map(|body| whole(body)).collect();
    object(&objects, 0).map(String::into_bytes)
}

/// An object with those that it is made of.
fn with_parts(json: String, parts: &[(&str, &str)]) -> String {
    let mut json = json.strip_suffix('}').unwrap_or_default().to_owned();
    json.push_str(if json.len() > 1 { "," } else { "" });
    json.push_str(r#""x-ojs-federation":{"regions":{"#);
    for (place, (region, object)) in parts.iter().enumerate() {
        json.push_str(if place > 0 { "," } else { "" });
        push_quoted(&mut json, region);
        json.push(':');
        json.push_str(object);
    }
    json.push_str("}}}");
    json
}

/// The union of the regions' named items, such as queues: those of the same name are added up. With `parts`, each holds every
/// region's own under `x-ojs-federation`.
///
/// Items that have no name in common are put one behind the other.
#[must_use]
pub fn united(items: &[Part<'_>], parts: bool) -> Vec<Bytes> {
    let rows: Vec<(&str, &str)> =
        items.iter().filter_map(|item| Some((item.region, std::str::from_utf8(item.body).ok()?))).collect();
    let objects: Vec<&str> = rows.iter().map(|row| row.1).collect();
    let Some(name) = row_name(&objects) else {
        return items.iter().map(|item| Bytes::copy_from_slice(item.body)).collect();
    };
    let unite = |group: Vec<usize>| {
        let rows: Vec<(&str, &str)> = group.iter().filter_map(|place| rows.get(*place).copied()).collect();
        let objects: Vec<&str> = rows.iter().map(|row| row.1).collect();
        let json = object(&objects, 0)?;
        Some(Bytes::from(if parts { with_parts(json, &rows) } else { json }))
    };
    grouped(&objects, name).into_iter().filter_map(unite).collect()
}

/// Adds up objects member by member; `None` for no objects.
fn object(objects: &[&str], depth: usize) -> Option<String> {
    if objects.is_empty() || depth >= DEPTH_MAX {
        return objects.first().map(|first| (*first).to_owned());
    }
    let mut names: Vec<String> = Vec::new();
    let mut values: HashMap<String, Vec<&str>> = HashMap::new();
    for object in objects {
        let all = members(object);
        for member in all.iter().filter(|member| member.name != "x-ojs-federation") {
            let of_name = values.entry(member.name.to_string()).or_insert_with(|| {
                names.push(member.name.to_string());
                Vec::new()
            });
            of_name.push(member.value);
        }
    }
    let mut json = "{".to_owned();
    for name in &names {
        json.push_str(if json.len() > 1 { "," } else { "" });
        push_quoted(&mut json, name);
        json.push(':');
        let of_name = values.get(name).map(Vec::as_slice).unwrap_or_default();
        json.push_str(&value(name, of_name, depth + 1));
    }
    json.push('}');
    Some(json)
}

fn value(name: &str, values: &[&str], depth: usize) -> String {
    // A `null` of one region does not contradict the value of another.
    let known: Vec<&str> = values.iter().copied().filter(|value| Kind::of(value) != Kind::Null).collect();
    let Some(first) = known.first() else { return "null".to_owned() };
    let kind = Kind::of(first);
    let alike: Vec<&str> = known.iter().copied().filter(|value| Kind::of(value) == kind).collect();
    match kind {
        Kind::Number if is_count(name, &alike) => added(&alike),
        Kind::Number => largest(&alike),
        Kind::Object => object(&alike, depth).unwrap_or_default(),
        Kind::Array => array(&alike, depth),
        // A switch that is on in one region, such as its maintenance, must not look off.
        Kind::Flag if name == "enabled" => alike.contains(&"true").to_string(),
        // A queue stands still only where it does everywhere.
        Kind::Flag if name == "paused" => alike.iter().all(|value| *value == "true").to_string(),
        Kind::Text if name == "status" => {
            let moves = alike.iter().find(|value| text_of(value).as_deref() != Some("paused"));
            (*moves.unwrap_or(first)).to_owned()
        }
        Kind::Flag | Kind::Text | Kind::Null => (*first).to_owned(),
    }
}

/// The sum. Whole numbers stay whole and exact as long as 128 bits hold them, which no count leaves.
fn added(values: &[&str]) -> String {
    let whole: Option<Vec<i128>> = values.iter().map(|value| value.parse().ok()).collect();
    let sum = whole.and_then(|whole| whole.into_iter().try_fold(0, i128::checked_add));
    if let Some(sum) = sum {
        return sum.to_string();
    }
    written(values.iter().filter_map(|value| value.parse::<f64>().ok()).sum(), values)
}

fn largest(values: &[&str]) -> String {
    let number = |value: &&str| value.parse::<f64>().unwrap_or(f64::NEG_INFINITY);
    let largest = values.iter().copied().max_by(|left, right| number(left).total_cmp(&number(right)));
    largest.unwrap_or("0").to_owned()
}

/// JSON has no infinity: where a sum leaves the numbers, the first region's stands.
fn written(sum: f64, values: &[&str]) -> String {
    match serde_json::Number::from_f64(sum) {
        Some(number) => number.to_string(),
        None => values.first().copied().unwrap_or("0").to_owned(),
    }
}

/// Rows of the same name are added up; elements without a name, or of their own kind, are appended.
fn array(arrays: &[&str], depth: usize) -> String {
    let mut rows: Vec<&str> = Vec::new();
    for array in arrays {
        let places = elements(array, 0, usize::MAX).unwrap_or_default();
        rows.extend(places.iter().filter_map(|(start, end)| array.get(*start..*end)));
    }
    let groups = row_name(&rows).map(|name| in_order(grouped(&rows, name), &rows, name));
    match groups {
        Some(groups) => {
            let of_group = |group: &Vec<usize>| -> Vec<&str> {
                group.iter().filter_map(|place| rows.get(*place).copied()).collect()
            };
            let rows: Vec<String> = groups.iter().filter_map(|group| object(&of_group(group), depth)).collect();
            format!("[{}]", rows.join(","))
        }
        None => format!("[{}]", rows.join(",")),
    }
}

/// The member by which all rows are distinguished.
fn row_name(rows: &[&str]) -> Option<&'static str> {
    if rows.is_empty() || rows.len() > ROWS_MAX {
        return None;
    }
    let has =
        |row: &str, name: &str| find(&members(row), name).is_some_and(|member| Kind::of(member.value).is_scalar());
    if rows.iter().any(|row| Kind::of(row) != Kind::Object || has(row, "id") || has(row, "job_id")) {
        return None;
    }
    ROW_NAMES.iter().copied().find(|name| rows.iter().all(|row| has(row, name)))
}

/// The places of rows with the same value under `name`, in the order in which each first came.
fn grouped(rows: &[&str], name: &str) -> Vec<Vec<usize>> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let all = members(row);
        let key = find(&all, name).map_or("", |member| member.value);
        let key = text_of(key).map_or_else(|| key.to_owned(), std::borrow::Cow::into_owned);
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        if let Some(group) = groups.get_mut(place) {
            group.push(number);
        }
    }
    groups
}

/// Groups of rows in the order of their time, where that is their name; numbers by size, texts letter by letter, as RFC 3339 sorts.
fn in_order(mut groups: Vec<Vec<usize>>, rows: &[&str], name: &str) -> Vec<Vec<usize>> {
    if !TIMES.contains(&name) {
        return groups;
    }
    groups.sort_by_cached_key(|group| {
        let row = group.first().and_then(|place| rows.get(*place)).copied().unwrap_or("{}");
        let all = members(row);
        let value = find(&all, name).map_or("", |member| member.value);
        (value.parse::<u64>().ok(), value.to_owned())
    });
    groups
}

#[cfg(test)]
mod tests;
