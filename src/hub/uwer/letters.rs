//! Dead letters: documents that were refused, with their bytes sealed. Spec: UWER §4, 0xFF.

use std::rc::Rc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER};
use http::StatusCode;
use serde_json::{Value, json};

use super::super::access::Caller;
use super::super::audit::Entry;
use super::super::cursor::{cursor, read_cursor};
use super::super::keys::in_time;
use super::super::record::SavedLetter;
use super::super::response::Refusal;
use super::super::state::Hub;
use super::super::uwer_store::Uwer;
use crate::base::text::rfc3339;
use crate::fleet::{LETTER_CONTENT_MAX, LetterKept, LetterRequest};
use crate::ojs::query_text;
use crate::replica::is_text;
use crate::switch::Grounds;

/// Letters in one answer.
const PAGE_MAX: u64 = 500;
/// Letters in an answer to a query that does not say how many.
const PAGE_USUAL: u64 = 50;
/// The digits of the digest that are the name of a letter.
const NAME_DIGITS: usize = 32;

/// Keeps a document; it is durable when this returns. The same one again is counted.
///
/// Errors: 400, 507 where there is no room, 503: it may have been kept.
pub(super) async fn keep(hub: &Rc<Hub>, store: &Uwer, caller: &Caller, body: &[u8]) -> Result<Value, Refusal> {
    let wrong = |message: &str| Refusal::bad_request(message.to_owned());
    let mut request: LetterRequest = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("expected a document that was refused: {error}")))?;
    if let Some(mistake) = request.mistake() {
        return Err(wrong(mistake));
    }
    let content = match request.content.take() {
        None => None,
        Some(content) => {
            let bytes = BASE64.decode(content.as_bytes()).map_err(|_| wrong("`content`: expected base64"))?;
            let is_whole = HEXLOWER.encode(digest(&SHA256, &bytes).as_ref()) == request.digest;
            if !is_whole || bytes.len() > LETTER_CONTENT_MAX {
                return Err(wrong("`content`: expected at most 1048576 bytes with the SHA-256 of `digest`"));
            }
            Some(bytes)
        }
    };
    let id = request.digest.get(..NAME_DIGITS).unwrap_or(&request.digest).to_owned();
    let sealed = match content {
        None => None,
        Some(bytes) => {
            Some(store.sealed(&id, bytes).ok_or_else(|| Refusal::unreadable("the random bytes of this machine"))?)
        }
    };
    let mut document = json!(request);
    document["sidecar"] = json!(caller.name);
    let now_ms = hub.clock.unix_ms();
    let letter = SavedLetter {
        id: id.clone(),
        first_ms: now_ms,
        last_ms: now_ms,
        count: 1,
        document: document.to_string(),
        sealed,
    };
    let it = Rc::clone(hub);
    if in_time(hub, async move { it.record.keep_letter(letter).await }).await? {
        return Ok(json!(LetterKept { id }));
    }
    let message = "there are as many dead letters as are kept: an operator drops some, or they end by `uwer.retention`";
    Err(Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "letters_full", message.to_owned()))
}

/// A page of letters without their bytes, the newest first. Query: `limit=N`, `cursor=NEXT`.
///
/// Errors: 400, 503.
pub(super) async fn list(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let wrong = |name: &str, expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
    let (mut limit, mut behind) = (PAGE_USUAL, (i64::MAX as u64, String::new()));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = query_text(value);
        match name {
            "limit" => {
                let number = value.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
                limit = number.ok_or_else(|| wrong(name, &format!("1 to {PAGE_MAX}")))?;
            }
            "cursor" => behind = read_cursor(&value).ok_or_else(|| wrong(name, "the `next` of an answer"))?,
            _ => return Err(wrong(name, "`limit` and `cursor` only")),
        }
    }
    let saved = hub.record.letters(behind, limit).await?;
    let is_full = u64::try_from(saved.len()).is_ok_and(|len| len == limit);
    let next = saved.last().filter(|_| is_full).map(|last| cursor(last.first_ms, &last.id));
    Ok(json!({ "letters": saved.iter().map(shown).collect::<Vec<_>>(), "next": next }))
}

fn shown(saved: &SavedLetter) -> Value {
    // Written by this program.
    let mut letter: Value = serde_json::from_str(&saved.document).unwrap_or_else(|_| json!({}));
    letter["id"] = json!(saved.id);
    letter["first_at"] = json!(rfc3339(saved.first_ms));
    letter["last_at"] = json!(rfc3339(saved.last_ms));
    letter["count"] = json!(saved.count);
    letter
}

/// One letter with its bytes in base64; `content` is null where they were not kept.
///
/// Errors: 400, 404, 503; 500 where the bytes were sealed with another key.
pub(super) async fn show(hub: &Hub, store: &Uwer, id: &str, query: &str) -> Result<Value, Refusal> {
    if !query.is_empty() {
        return Err(Refusal::bad_request("expected no query".to_owned()));
    }
    let id = query_text(id);
    let saved = if is_text(&id) { hub.record.letter(&id).await? } else { None };
    let saved = saved.ok_or_else(absent)?;
    let content = match &saved.sealed {
        None => None,
        Some(sealed) => {
            let bytes = store.seal.open(saved.id.as_bytes(), sealed);
            Some(bytes.ok_or_else(|| {
                Refusal::unreadable("the bytes, which were sealed with another key than that of `uwer.key_file`")
            })?)
        }
    };
    Ok(json!({ "letter": shown(&saved), "content": content.map(|bytes| BASE64.encode(&bytes)) }))
}

/// Drops a letter by the order of an operator, with a row in the audit trail. Query: `reason`, `ticket` and, with a certificate, `author`.
///
/// Errors: 400, 404, 503: it may have been dropped.
pub(super) async fn drop(hub: &Rc<Hub>, caller: &Caller, id: &str, query: &str) -> Result<Value, Refusal> {
    let grounds = Grounds::read(caller.author.as_deref(), query).map_err(Refusal::bad_request)?;
    let id = query_text(id);
    if !is_text(&id) || hub.record.letter(&id).await?.is_none() {
        return Err(absent());
    }
    let entry = || Entry {
        unix_ms: hub.clock.unix_ms(),
        caller: caller.name.clone(),
        action: "uwer_letter_dropped",
        subject: format!("letter {id}"),
        lasts_ms: None,
        force: false,
        reason: grounds.reason.clone(),
        ticket: grounds.ticket.clone(),
        author: grounds.author.clone(),
    };
    hub.change(|_, _| ((), vec![entry()])).await.map_err(Refusal::unchanged)?;
    let is_dropped = hub.record.drop_letter(&id).await?;
    Ok(json!({ "letter": id, "dropped": is_dropped }))
}

fn absent() -> Refusal {
    let message = "there is no such dead letter; `ojs-sidecar uwer letters` lists those that there are".to_owned();
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
}
