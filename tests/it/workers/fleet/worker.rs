//! A worker's loop as SDKs have it: fetch, heartbeat, acknowledge, and a last heartbeat at the end.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::super::sdk::Sdk;
use super::super::{ACK, BEAT, FETCH, NACK, ids};
use super::Run;
use crate::support::{Answer, Client};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// How often a worker says something again. Spec: ojs-clients 4.
const TRIES: usize = 3;
/// Free slots of a worker.
const SLOTS: usize = 10;

/// A client with one connection that it keeps as long as it is good.
pub struct KeepAlive {
    client: Client,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl KeepAlive {
    pub fn new(client: Client) -> Self {
        Self { client, sender: None }
    }

    pub async fn post(&mut self, path: &str, body: String) -> Result<Answer, Failed> {
        let answer = self.try_post(path, body).await;
        if answer.is_err() {
            self.sender = None;
        }
        answer
    }

    async fn try_post(&mut self, path: &str, body: String) -> Result<Answer, Failed> {
        if self.sender.as_ref().is_none_or(SendRequest::is_closed) {
            let socket = TcpStream::connect(self.client.address()).await?;
            socket.set_nodelay(true)?;
            let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        let sender = self.sender.as_mut().ok_or("connected")?;
        sender.ready().await?;
        let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
        let (parts, body) = sender.send_request(request.body(Full::new(body.into()))?).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}

/// Works until the run is over.
pub async fn work(sdk: Sdk, client: Client, name: String, queues: &'static [&'static str], run: Arc<Run>) {
    let mut client = KeepAlive::new(client);
    let mut round = 0;
    while !run.is_over() {
        run.fetched();
        round += 1;
        let count = sdk.count(SLOTS);
        let fetched = client.post(FETCH, sdk.fetch(queues, count, &name)).await.unwrap();
        // While the region is down there is nothing to do but to ask again.
        let said = if fetched.status == 200 { fetched.json()["jobs"].take() } else { serde_json::json!([]) };
        let jobs = ids(&said);
        assert!(jobs.len() <= count, "more than was asked for");
        if round % 5 == 0 {
            beat(sdk, &mut client, &name, &jobs).await;
        }
        for (id, job) in jobs.iter().zip(said.as_array().unwrap()) {
            settle(sdk, &mut client, id, job["attempt"] == 1 && is_unlucky(id)).await;
        }
        if jobs.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
    beat(sdk, &mut client, &name, &[]).await;
}

/// Whether a job's first attempt fails: about one in thirty.
fn is_unlucky(id: &str) -> bool {
    id.bytes().map(usize::from).sum::<usize>() % 30 == 0
}

async fn beat(sdk: Sdk, client: &mut KeepAlive, name: &str, jobs: &[String]) {
    let answer = client.post(BEAT, sdk.heartbeat(name, jobs)).await.unwrap();
    // What no region hears is told again with the next one.
    assert!(matches!(answer.status.as_u16(), 200 | 503 | 504), "{answer:?}");
}

/// Says what became of a job, again where nobody has heard it; then its lease ends and it is done once more.
async fn settle(sdk: Sdk, client: &mut KeepAlive, id: &str, fails: bool) {
    let (path, body) = if fails { (NACK, sdk.nack(id)) } else { (ACK, sdk.ack(id)) };
    for _ in 0..TRIES {
        let answer = client.post(path, body.clone()).await.unwrap();
        match answer.status.as_u16() {
            200 | 404 | 409 => return,
            503 | 504 => {}
            _ => panic!("{answer:?}"),
        }
    }
}
