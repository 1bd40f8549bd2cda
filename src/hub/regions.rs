//! Orders of operators about the regions that sidecars discover by this hub. Spec: RFC-0001 §3.
//!
//! A hub proves nothing about a region: each sidecar does so, with a handshake, before a region gets anything, and again where its address changes.

use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::Caller;
use super::audit::Entry;
use super::registry::{Put, PutRegion};
use super::response::Refusal;
use super::state::Hub;
use crate::base::RegionId;
use crate::config::RegionSource;
use crate::region::discovery::{FeedRegion, PUT_REGIONS_MAX, of_parts};
use crate::switch::Grounds;
use crate::telemetry::event;

/// All regions that were put at this hub, or at another one on its record. Shape: `{"version": TEXT, "regions": [REGION, ...]}`.
pub(super) async fn list(hub: &Hub) -> Result<Value, Refusal> {
    hub.refresh_in_time().await?;
    let current = hub.current();
    let regions: Vec<Value> = current.regions.iter().map(PutRegion::shown).collect();
    Ok(json!({ "version": current.version.to_string(), "regions": regions }))
}

/// Puts the region of a body, in place of the one with its id. The answer comes once it is on disk.
pub(super) async fn put(hub: Rc<Hub>, caller: &Caller, id: &str, query: &str, body: &[u8]) -> Result<Value, Refusal> {
    let id = named(id)?;
    let grounds = grounds(caller, query)?;
    let region = read(&id, body).map_err(Refusal::bad_request)?;
    let done = hub
        .change(|all, _| {
            let Grounds { reason, ticket, author } = grounds.clone();
            let put = PutRegion { region: region.clone(), put_ms: hub.clock.unix_ms(), reason, ticket, author };
            let done = Arc::make_mut(&mut all.regions).put(put);
            let subject = format!("region {id} at {}", region.url);
            let entry = (done == Put::Changed).then(|| entry(&hub, caller, "region_put", subject, &grounds));
            (done, entry.into_iter().collect())
        })
        .await
        .map_err(Refusal::unchanged)?;
    match done {
        Put::TooMany => {
            let message = format!(
                "a hub has at most {PUT_REGIONS_MAX} regions, as many as `discovery.regions_max` of a sidecar can be; delete one that is not needed"
            );
            return Err(Refusal::new(StatusCode::CONFLICT, "too_many", message));
        }
        Put::Changed => {
            event::hub_region_put(id.as_str(), &region.url, [&grounds.reason, &grounds.ticket, &grounds.author])
        }
        Put::Same => {}
    }
    let current = hub.current();
    let shown = current.regions.get(&id).map(PutRegion::shown);
    Ok(changed(&hub, json!({ "region": shown, "changed": done == Put::Changed })))
}

/// Deletes a region.
pub(super) async fn delete(hub: Rc<Hub>, caller: &Caller, id: &str, query: &str) -> Result<Value, Refusal> {
    let id = named(id)?;
    let grounds = grounds(caller, query)?;
    let deleted = hub
        .change(|all, _| {
            let deleted = Arc::make_mut(&mut all.regions).delete(&id);
            let entry = deleted
                .as_ref()
                .map(|it| entry(&hub, caller, "region_deleted", format!("region {id} at {}", it.region.url), &grounds));
            (deleted, entry.into_iter().collect())
        })
        .await
        .map_err(Refusal::unchanged)?;
    let Some(deleted) = deleted else {
        let message =
            format!("no region {id} was put at this hub; `ojs-sidecar regions list --hub` lists those that were");
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
    };
    event::hub_region_deleted(id.as_str(), [&grounds.reason, &grounds.ticket, &grounds.author]);
    let left = hub.current().regions.iter().count();
    Ok(changed(&hub, json!({ "deleted": deleted.shown(), "left": left })))
}

fn changed(hub: &Hub, mut document: Value) -> Value {
    document["version"] = hub.current().version.to_string().into();
    document["durable"] = hub.record.is_durable().into();
    document
}

fn named(id: &str) -> Result<RegionId, Refusal> {
    RegionId::parse(id).map_err(|error| Refusal::bad_request(format!("`id`, the last part of the path: {error}")))
}

fn grounds(caller: &Caller, query: &str) -> Result<Grounds, Refusal> {
    Grounds::read(caller.author.as_deref(), query).map_err(Refusal::bad_request)
}

fn entry(hub: &Hub, caller: &Caller, action: &'static str, subject: String, grounds: &Grounds) -> Entry {
    let Grounds { reason, ticket, author } = grounds.clone();
    let (unix_ms, caller) = (hub.clock.unix_ms(), caller.name.clone());
    Entry { unix_ms, caller, action, subject, lasts_ms: None, force: false, reason, ticket, author }
}

/// The members of a body, as in a file of `discovery.directory`. A member that comes twice is an error of the parser.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    id: Option<Value>,
    url: Option<Value>,
    weight: Option<Value>,
    tags: Option<Value>,
}

/// Reads the body that puts a region with this id.
///
/// Errors: a sentence that names the member, the expected form, and a way out.
fn read(id: &RegionId, body: &[u8]) -> Result<FeedRegion, String> {
    let body: Body = serde_json::from_slice(body).map_err(|error| {
        format!("expected a JSON object with url, and perhaps id, weight and tags, and no other member: {error}")
    })?;
    if body.id.as_ref().is_some_and(|it| it.as_str() != Some(id.as_str())) {
        return Err(format!(
            "`id`: expected {id}, as in the path, or no such member; another id is another region, with a path of its own"
        ));
    }
    let url = body.url.as_ref().and_then(Value::as_str);
    let url = url.ok_or(
        "`url`: expected the base URL of the region as a text, such as https://ojs.eu-west-1.example.com:8443",
    )?;
    let weight =
        body.weight.as_ref().map(|it| it.as_u64().and_then(|it| u32::try_from(it).ok()).ok_or(WEIGHT_EXPECTED));
    let tags = body.tags.map(|tags| serde_json::from_value::<Vec<String>>(tags).map_err(|_| TAGS_EXPECTED));
    let seen =
        of_parts(RegionSource::Hub, id.as_str(), url, weight.transpose()?, tags.transpose()?.unwrap_or_default());
    seen.map(FeedRegion::of).map_err(|error| match error.key {
        "weight" => WEIGHT_EXPECTED.to_owned(),
        "tags" => TAGS_EXPECTED.to_owned(),
        key => format!("`{key}`: {}", error.rule),
    })
}

const WEIGHT_EXPECTED: &str = "`weight`: expected a whole number from 1 to 1000000; leave it out for that of `discovery.defaults`, and drain a region that \
                               is to get no jobs";
const TAGS_EXPECTED: &str =
    "`tags`: expected a list of at most 32 texts of 1 to 256 bytes, without commas; leave it out for none";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_that_of_a_file_and_every_error_names_its_member() {
        let id = RegionId::parse("eu-west-1").unwrap();
        let read = |body: &str| read(&id, body.as_bytes());
        let whole = r#"{"id":"eu-west-1","url":"https://eu.example.com/ojs","weight":2,"tags":["b","a","b"]}"#;
        let region = read(whole).unwrap();
        assert_eq!((region.weight, region.tags), (Some(2), vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(read(r#"{"url":"https://eu.example.com"}"#).unwrap().weight, None);
        let none = RegionId::parse("none").unwrap();
        assert!(super::read(&none, br#"{"url":"https://a.b"}"#).unwrap_err().starts_with("`id`: "));
        for (body, words) in [
            ("", ["JSON object", "url"]),
            ("[]", ["JSON object", "url"]),
            (r#"{"url":"https://a.b","url":"https://a.c"}"#, ["duplicate field `url`", "JSON object"]),
            (r#"{"url":"https://a.b","tls":{}}"#, ["unknown field `tls`", "no other member"]),
            (r#"{"url":"https://a.b","id":"eu-west-2"}"#, ["`id`: expected eu-west-1", "another region"]),
            (r#"{"url":"https://a.b","id":7}"#, ["`id`: expected eu-west-1", "path"]),
            (r#"{}"#, ["`url`: expected", "such as https://"]),
            (r#"{"url":7}"#, ["`url`: expected", "such as https://"]),
            (r#"{"url":"http://a.b"}"#, ["`url`: ", "https"]),
            (r#"{"url":"https://u:p@a.b"}"#, ["`url`: ", "no user"]),
            (r#"{"url":"https://a.b","weight":0}"#, ["`weight`: expected", "drain"]),
            (r#"{"url":"https://a.b","weight":-1}"#, ["`weight`: expected", "drain"]),
            (r#"{"url":"https://a.b","weight":"2"}"#, ["`weight`: expected", "leave it out"]),
            (r#"{"url":"https://a.b","tags":"a,b"}"#, ["`tags`: expected", "list"]),
            (r#"{"url":"https://a.b","tags":["a,b"]}"#, ["`tags`: expected", "commas"]),
        ] {
            let why = read(body).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{body}: {why}");
        }
    }
}
