//! One call of a client, and who may know of the job in it.

use tokio::io::AsyncWriteExt as _;

use super::body::{flexible_job, pinned_job};
use super::script::{Script, text_of};
use super::{disguise, several};
use crate::support::{Client, IDS};

/// Who may see the mark of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Anyone,
    Only(usize),
    Nobody,
}

/// One call.
pub struct Call {
    /// The marks of its jobs, and who may see each.
    pub marks: Vec<(u64, Sight)>,
    /// Whether a 201 means that the jobs with these marks are stored.
    pub is_enqueue: bool,
    /// Whether the client goes away without reading the answer.
    pub vanishes: bool,
    pub method: &'static str,
    pub target: String,
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Vec<u8>,
    pub chunk: Option<usize>,
}

impl Call {
    pub fn new(script: &mut Script, mark: u64, sight: Sight, call: (&'static str, &str), body: Vec<u8>) -> Self {
        let headers = match script.below(8) {
            0 => vec![],
            1 => vec![("Content-Type", "application/json")],
            _ => vec![("Content-Type", "application/openjobspec+json; charset=utf-8")],
        };
        Self {
            marks: vec![(mark, sight)],
            is_enqueue: ["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/ojs/v1/jobs/bulk"].contains(&call.1),
            vanishes: script.one_in(20),
            method: call.0,
            target: call.1.to_owned(),
            headers,
            body,
            chunk: script.one_in(3).then(|| 1 + script.below(64)),
        }
    }

    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Nobody may see any of it.
    pub fn hidden(mut self) -> Self {
        self.marks.iter_mut().for_each(|(_, sight)| *sight = Sight::Nobody);
        self
    }

    /// Whether nobody may see any of it.
    pub fn is_hidden(&self) -> bool {
        self.marks.iter().all(|(_, sight)| *sight == Sight::Nobody)
    }

    /// The whole request as it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let mut request = format!("{} {} HTTP/1.1\r\nHost: localhost\r\n", self.method, self.target);
        if !self.headers.iter().any(|(name, _)| *name == "Connection") {
            request.push_str("Connection: close\r\n");
        }
        for (name, value) in &self.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let Some(chunk) = self.chunk else {
            request.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
            return [request.as_bytes(), &self.body].concat();
        };
        request.push_str("Transfer-Encoding: chunked\r\n\r\n");
        let mut request = request.into_bytes();
        for part in self.body.chunks(chunk) {
            request.extend([format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat());
        }
        request.extend(b"0\r\n\r\n");
        request
    }
}

/// Draws one call.
pub fn draw(script: &mut Script) -> Call {
    let mark = script.mark();
    match script.below(26) {
        0..8 => {
            let region = script.below(IDS.len());
            let body = pinned_job(script, mark, region);
            Call::new(script, mark, Sight::Only(region), ("POST", "/ojs/v1/jobs"), body.into())
        }
        8..11 => {
            let body = flexible_job(script, mark);
            Call::new(script, mark, Sight::Anyone, ("POST", "/ojs/v1/jobs"), body.into())
        }
        11..13 => creating(script, mark),
        13 => disguise::odd_path(script, mark),
        14 => disguise::odd_encoding(script, mark),
        15 => disguise::odd_job(script, mark),
        16 => disguise::odd_call(script, mark),
        17 => dry_run(script, mark),
        18..22 => several::batch(script, mark),
        22..24 => several::workflow(script, mark),
        _ => worker(script, mark),
    }
}

/// A batch, a bulk enqueue, a cron entry or a workflow with one pin at a random place: whole to its region.
fn creating(script: &mut Script, mark: u64) -> Call {
    let region = script.below(IDS.len());
    let call = script.pick(&[
        ("POST", "/ojs/v1/jobs/batch"),
        ("POST", "/ojs/v1/jobs/bulk"),
        ("POST", "/ojs/v1/cron"),
        ("PUT", "/ojs/v1/cron/nightly"),
        ("PATCH", "/ojs/v1/workflows/wf_1"),
        ("POST", "/ojs/v1/workflows"),
        ("POST", "/ojs/v1/dead-letter/0190/retry"),
    ]);
    let (pinned, plain) = (pinned_job(script, mark, region), r#"{"type":"plain","args":[]}"#);
    let body = match script.below(6) {
        0 => format!(r#"{{"jobs":[{pinned}]}}"#),
        1 => format!(r#"{{"jobs":[{plain},{plain},{pinned}]}}"#),
        2 => format!(r#"{{"name":"{}","expression":"@hourly","job_template":{pinned}}}"#, text_of(mark)),
        3 => format!(r#"{{"type":"chain","name":"{}","steps":[{plain},{pinned}]}}"#, text_of(mark)),
        4 => format!(r#"{{"type":"batch","jobs":[{plain}],"callbacks":{{"on_complete":{pinned}}}}}"#),
        _ => format!(r#"{{"x":[[{{"y":{pinned}}}]],"jobs":[{plain}]}}"#),
    };
    // What is made out of another job is made where that is, and nobody has this one.
    let stays = call.1.ends_with("/retry");
    let sight = if stays && region != 0 { Sight::Nobody } else { Sight::Only(region) };
    let call = Call::new(script, mark, sight, call, body.clone().into());
    // The mark is not always that of a job.
    Call { is_enqueue: call.is_enqueue && body.starts_with(r#"{"jobs""#), ..call }
}

fn dry_run(script: &mut Script, mark: u64) -> Call {
    let region = script.below(IDS.len());
    let body = if script.one_in(4) { flexible_job(script, mark) } else { pinned_job(script, mark, region) };
    let target = script.pick(&["/v1/federation/route", "/ojs/v1/federation/route", "/ojs/federation/route/"]);
    Call::new(script, mark, Sight::Nobody, ("POST", target), body.into())
}

/// What workers and consoles ask in between.
fn worker(script: &mut Script, mark: u64) -> Call {
    let (method, target, body) = script.pick(&[
        ("POST", "/ojs/v1/workers/fetch", r#"{"queues":["default","plain"],"count":5,"worker_id":"w"}"#),
        ("POST", "/ojs/v1/workers/ack", r#"{"job_id":"0190","result":{"meta":{"ojs.federation.region":"eu-west-1"}}}"#),
        ("POST", "/ojs/v1/workers/heartbeat", r#"{"worker_id":"w","active_jobs":[]}"#),
        ("GET", "/ojs/v1/queues", ""),
        ("GET", "/ojs/v1/jobs/0190", ""),
        ("GET", "/ojs/v1/health", ""),
        ("GET", "/v1/federation/health", ""),
        ("GET", "/v1/federation/regions", ""),
    ]);
    Call::new(script, mark, Sight::Anyone, (method, target), body.into())
}

/// Makes a call and returns the answer; nothing when the client goes away.
pub async fn make(client: Client, bytes: &[u8], vanishes: bool) -> Vec<u8> {
    if vanishes {
        let _ = client.connect().await.write_all(bytes).await;
        return Vec::new();
    }
    client.raw(bytes).await
}
