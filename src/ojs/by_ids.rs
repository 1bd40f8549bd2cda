//! Calls that name several jobs by their ids: the part of the body for one region, and one answer out of several.
//!
//! Spec: ojs-protocol 2.5; `{"ids":[…]}` of `jobs/results`, `{"job_ids":[…]}` of the bulk calls.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;

use super::fault::Fault;
use super::key::Text;
use super::member::{DEPTH_MAX, text};
use super::scan::{ScanError, Scanner};

/// The most ids in one call. Spec: ojs-protocol 6, bulk examples end at 1 000; a batch may hold this many.
const IDS_MAX: usize = 10_000;

/// The ids in a body and where they stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobIds {
    /// Every id, decoded, in the order of the body.
    pub ids: Vec<String>,
    spans: Vec<(usize, usize)>,
    /// Of the array, brackets included.
    array: (usize, usize),
}

impl JobIds {
    /// Reads the ids of a body; `None` where it has none that are all text, such as where it has a filter.
    ///
    /// Errors: a [`Fault`] for a body that is no JSON object, that lists ids twice, or too many.
    pub fn read(body: &[u8], depth_max: usize) -> Result<Option<Self>, Fault> {
        let mut scanner = Scanner::new(body, depth_max)?;
        if scanner.next() != Some(b'{') {
            scanner.skip()?;
            scanner.end()?;
            return Err(Fault::body_not_an_object());
        }
        let mut found: Option<Self> = None;
        let mut all_text = true;
        scanner.object(|scanner, key| {
            let key = key.decode();
            if !matches!(&*key, "ids" | "job_ids") || scanner.next() != Some(b'[') {
                scanner.skip()?;
                return Ok(());
            }
            if found.is_some() {
                return Err(Fault::ambiguous("job_ids"));
            }
            found = Some(Self::read_array(scanner, &mut all_text)?);
            Ok(())
        })?;
        scanner.end()?;
        Ok(found.filter(|_| all_text))
    }

    fn read_array(scanner: &mut Scanner<'_, '_>, all_text: &mut bool) -> Result<Self, Fault> {
        let mut found = Self { array: (scanner.at(), 0), ..Self::default() };
        scanner.array(|scanner| {
            if found.ids.len() == IDS_MAX {
                return Err(Fault::too_many("ids", IDS_MAX));
            }
            if scanner.next() == Some(b'"') {
                let start = scanner.at();
                found.ids.push(scanner.string()?.decode().into_owned());
                found.spans.push((start, scanner.at()));
            } else {
                *all_text = false;
                scanner.skip()?;
            }
            Ok(())
        })?;
        found.array.1 = scanner.at();
        Ok(found)
    }

    /// The same body with only some of the ids, by their places; everything else stays byte for byte.
    #[must_use]
    pub fn part(&self, body: &Bytes, places: &[usize]) -> Vec<Bytes> {
        let (start, end) = self.array;
        let mut pieces = vec![body.slice(..start), Bytes::from_static(b"[")];
        for (count, &(from, to)) in places.iter().filter_map(|place| self.spans.get(*place)).enumerate() {
            if count > 0 {
                pieces.push(Bytes::from_static(b","));
            }
            pieces.push(body.slice(from..to));
        }
        pieces.extend([Bytes::from_static(b"]"), body.slice(end..)]);
        pieces
    }

    /// One answer out of the regions' answers: numbers summed, lists and `results` united in the order of the ids, everything
    /// else as the first one has it. `None` when an answer is no JSON object.
    #[must_use]
    pub fn merge(&self, answers: &[Bytes]) -> Option<Vec<u8>> {
        let places: HashMap<&str, usize> = self.ids.iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
        let parts: Vec<Vec<Member<'_>>> = answers.iter().map(|answer| members(answer)).collect::<Option<_>>()?;
        let mut merged = String::from("{");
        let mut written: Vec<Cow<'_, str>> = Vec::new();
        for (name, _) in parts.iter().flatten() {
            if written.contains(name) {
                continue;
            }
            let values: Vec<&str> = parts
                .iter()
                .filter_map(|part| part.iter().rev().find(|member| member.0 == *name))
                .map(|m| m.1)
                .collect();
            if !written.is_empty() {
                merged.push(',');
            }
            merged.push_str(&serde_json::Value::from(&**name).to_string());
            merged.push(':');
            merged.push_str(&merge_values(&values, &places)?);
            written.push(name.clone());
        }
        merged.push('}');
        Some(merged.into_bytes())
    }
}

type Member<'b> = (Cow<'b, str>, &'b str);

fn members(object: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut found = Vec::new();
    let mut scanner = Scanner::new(object, DEPTH_MAX).ok()?;
    let text = scanner.text();
    let read = scanner.object(|scanner, key: Text<'_>| {
        let (start, end) = scanner.skip()?;
        found.push((key.decode(), &text[start..end]));
        Ok::<(), ScanError>(())
    });
    read.and_then(|_| scanner.end()).ok()?;
    Some(found)
}

fn merge_values(values: &[&str], places: &HashMap<&str, usize>) -> Option<String> {
    let first = *values.first()?;
    match first.as_bytes().first()? {
        b'{' => {
            let mut all = Vec::new();
            for value in values.iter().filter(|value| value.starts_with('{')) {
                all.extend(members(value.as_bytes())?);
            }
            all.sort_by_key(|(id, _)| places.get(&**id).copied().unwrap_or(usize::MAX));
            let member = |(id, value): &Member<'_>| format!("{}:{value}", serde_json::Value::from(&**id));
            Some(format!("{{{}}}", all.iter().map(member).collect::<Vec<_>>().join(",")))
        }
        b'[' => {
            let mut all = Vec::new();
            for value in values.iter().filter(|value| value.starts_with('[')) {
                all.extend(items(value)?);
            }
            all.sort_by_key(|item| place_of(item, places));
            Some(format!("[{}]", all.join(",")))
        }
        _ => {
            let numbers: Option<Vec<i128>> = values.iter().map(|value| value.parse().ok()).collect();
            let sum = numbers.and_then(|numbers| numbers.into_iter().try_fold(0_i128, i128::checked_add));
            Some(sum.map_or_else(|| first.to_owned(), |sum| sum.to_string()))
        }
    }
}

fn items(array: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut scanner = Scanner::new(array.as_bytes(), DEPTH_MAX).ok()?;
    let read = scanner.array(|scanner| {
        let (start, end) = scanner.skip()?;
        found.push(&array[start..end]);
        Ok::<(), ScanError>(())
    });
    read.ok()?;
    Some(found)
}

/// Items of bulk answers name their job in one of two ways; a bare id is an item, too.
fn place_of(item: &str, places: &HashMap<&str, usize>) -> usize {
    let id = match item.as_bytes().first() {
        Some(b'{') => text(item.as_bytes(), "id").or_else(|| text(item.as_bytes(), "job_id")),
        Some(b'"') => Some(Text::quoted(item, 0).decode()),
        _ => None,
    };
    id.and_then(|id| places.get(&*id).copied()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<JobIds> {
        JobIds::read(body.as_bytes(), 64).unwrap()
    }

    #[test]
    fn ids_are_found_and_a_filter_is_none() {
        assert_eq!(read(r#"{"ids":["a","b\n"]}"#).unwrap().ids, ["a", "b\n"]);
        assert_eq!(read(r#"{"x":1,"job_ids":[]}"#).unwrap().ids, Vec::<String>::new());
        assert_eq!(read(r#"{"filter":{"ids":["a"]},"confirm":true}"#), None);
        assert_eq!(read(r#"{"ids":["a",7]}"#), None);
        assert_eq!(read(r#"{"ids":null}"#), None);
        for body in ["[]", "{", r#"{"ids":["a"],"job_ids":["b"]}"#] {
            assert!(JobIds::read(body.as_bytes(), 64).is_err(), "{body}");
        }
        let many = format!(r#"{{"ids":[{}"x"]}}"#, r#""x","#.repeat(IDS_MAX));
        assert_eq!(JobIds::read(many.as_bytes(), 64).unwrap_err().reason.as_str(), "too_many_objects");
    }

    #[test]
    fn a_part_has_its_ids_and_everything_else_as_it_was() {
        let body = Bytes::from_static(br#" {"a": 1E400, "job_ids" : ["x", "y" , "\u007a"],"b":[ ]}"#);
        let ids = JobIds::read(&body, 64).unwrap().unwrap();
        assert_eq!(ids.ids, ["x", "y", "z"]);
        let part = |places: &[usize]| String::from_utf8(ids.part(&body, places).concat()).unwrap();
        assert_eq!(part(&[2, 0]), r#" {"a": 1E400, "job_ids" : ["\u007a","x"],"b":[ ]}"#);
        assert_eq!(part(&[]), r#" {"a": 1E400, "job_ids" : [],"b":[ ]}"#);
    }

    #[test]
    fn answers_become_one_in_the_order_of_the_ids() {
        let ids = JobIds { ids: ["a", "b", "c"].map(str::to_owned).to_vec(), ..JobIds::default() };
        let merge = |answers: &[&'static str]| {
            let answers: Vec<Bytes> = answers.iter().map(|answer| Bytes::from_static(answer.as_bytes())).collect();
            ids.merge(&answers).map(|merged| String::from_utf8(merged).unwrap())
        };
        assert_eq!(
            merge(&[r#"{"results":{"c":{"result": 1.0}}}"#, r#"{"results":{"b":{},"a":7}}"#]).unwrap(),
            r#"{"results":{"a":7,"b":{},"c":{"result": 1.0}}}"#
        );
        assert_eq!(
            merge(&[
                r#"{"total_matched":1,"cancelled":1,"items":[{"id":"b","x":1E9}]}"#,
                r#"{"total_matched":2,"cancelled":1,"skipped":1,"items":[{"job_id":"c"},{"id":"a"}],"note":"n"}"#,
            ])
            .unwrap(),
            r#"{"total_matched":3,"cancelled":2,"items":[{"id":"a"},{"id":"b","x":1E9},{"job_id":"c"}],"skipped":1,"note":"n"}"#
        );
        assert_eq!(merge(&["{}", "[]"]), None);
    }
}
