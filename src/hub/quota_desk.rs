//! Grants of tokens of quotas. The ledgers are in the record, so that hubs which share it grant from one limit, and a restart forgets nothing.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::record::{Kept, Record, RecordError};
use crate::policy::{Block, BlockAsk, Ledger, Quota, QuotaRefused, QuotaUse, Rate};

/// Requests that wait for the record. A full queue means that it is stuck.
const WAITING_MAX: usize = 4_096;
/// Tries of a change while other hubs change the same ledger.
const TRIES_MAX: usize = 8;
/// For grants to be durable; shorter than the sidecar's wait for the answer.
const GRANT_WAIT: Duration = Duration::from_secs(4);
/// Between two changes of the ledgers: one change is for all requests that have come meanwhile.
const PAUSE: Duration = Duration::from_millis(10);

/// A block with the time of the record's clock by which it was granted, in milliseconds.
type Granted = Result<(Block, u64), QuotaRefused>;

/// A request that waits for the record.
#[derive(Debug)]
struct Waiting {
    key: String,
    rate: Rate,
    ask: BlockAsk,
    answer: oneshot::Sender<Result<Granted, Rc<RecordError>>>,
}

/// The ledgers of a hub.
#[derive(Debug)]
pub(super) struct QuotaDesk {
    send: mpsc::Sender<Waiting>,
    receive: Mutex<mpsc::Receiver<Waiting>>,
}

impl Default for QuotaDesk {
    fn default() -> Self {
        let (send, receive) = mpsc::channel(WAITING_MAX);
        Self { send, receive: Mutex::new(receive) }
    }
}

/// The place of a ledger in the record. The id of a region has no slash.
fn place(key: &str) -> String {
    format!("quota/{key}")
}

fn read(text: &str) -> Result<Ledger, RecordError> {
    serde_json::from_str(text).map_err(|_| RecordError::Later)
}

impl QuotaDesk {
    /// Grants the tokens that are asked for, for ever.
    pub(super) async fn grant(&self, record: &Record) {
        let mut receive = self.receive.lock().await;
        let mut batch = Vec::new();
        loop {
            // The sender lives as long as this.
            receive.recv_many(&mut batch, WAITING_MAX).await;
            let mut by_key: BTreeMap<String, Vec<Waiting>> = BTreeMap::new();
            for it in batch.drain(..) {
                by_key.entry(it.key.clone()).or_default().push(it);
            }
            join_all(by_key.into_iter().map(|(key, waiting)| answer(record, key, waiting))).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The tokens of one process, once the record has them.
    ///
    /// Errors: [`RecordError`]; the record may have them all the same.
    pub(super) async fn ask(&self, quota: &Quota, ask: BlockAsk) -> Result<Granted, Rc<RecordError>> {
        let (answer, granted) = oneshot::channel();
        let waiting = Waiting { key: quota.key(), rate: quota.rate(), ask, answer };
        self.send.try_send(waiting).map_err(|_| RecordError::Busy)?;
        let granted = tokio::time::timeout(GRANT_WAIT, granted).await.map_err(|_| RecordError::Slow)?;
        granted.map_err(|_| RecordError::Ended)?
    }
}

/// Answers the requests for one quota, once the record has the change.
async fn answer(record: &Record, key: String, waiting: Vec<Waiting>) {
    let granted = change(record, &place(&key), &waiting).await.map_err(Rc::new);
    for (at, it) in waiting.into_iter().enumerate() {
        // A sidecar that disconnected waits for nothing.
        let _ = it.answer.send(granted.as_ref().map(|all| all[at].clone()).map_err(Rc::clone));
    }
}

async fn change(record: &Record, place: &str, waiting: &[Waiting]) -> Result<Vec<Granted>, RecordError> {
    for _ in 0..TRIES_MAX {
        let saved = record.limit(place).await?;
        let mut ledger = read(&saved.holders)?;
        let mut granted = Vec::with_capacity(waiting.len());
        for it in waiting {
            granted.push(ledger.ask(it.rate, &it.ask, saved.now_ms).map(|block| (block, saved.now_ms)));
            // Each may take some milliseconds of the thread that serves the other sidecars.
            tokio::task::yield_now().await;
        }
        if record.change_limit(place, saved.version, json!(ledger).to_string()).await? == Kept::Kept {
            return Ok(granted);
        }
    }
    Err(RecordError::Contended)
}

/// The use of a quota, and the time of the record's clock.
///
/// Errors: [`RecordError`].
pub(super) async fn usage(record: &Record, quota: &Quota) -> Result<(QuotaUse, u64), RecordError> {
    let saved = record.limit(&place(&quota.key())).await?;
    Ok((read(&saved.holders)?.shown(quota.rate(), saved.now_ms), saved.now_ms))
}
