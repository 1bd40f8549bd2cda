//! What tests ask of a federation: judged at the regions' sockets and stores, and by the numbers that the sidecar exposes.

use ojs_testbed::{Fault, FaultAnswer, When};

use super::Federation;

/// A job without any routing key; `args` tells it from others.
pub fn job(args: &str) -> String {
    format!(r#"{{"type":"email.send","args":["{args}"]}}"#)
}

/// A job pinned to a region; `args` tells it from others.
pub fn pinned(region: &str, args: &str) -> String {
    format!(r#"{{"type":"email.send","args":["{args}"],"meta":{{"ojs.federation.region":"{region}"}}}}"#)
}

impl Federation {
    /// How many enqueues have begun to arrive at a region.
    pub fn enqueues(&self, place: usize) -> usize {
        let requests = self.regions[place].record().requests_to("/ojs/v1/jobs");
        requests.iter().filter(|request| request.method == http::Method::POST).count()
    }

    /// A worker's words about jobs that it has: a heartbeat, that the first is done, that the second has failed. Each must be taken.
    pub async fn speak_of_leased(&self, done: &str, failed: &str) {
        let beat = r#"{"worker_id":"w","active_jobs":[],"state":"running"}"#.to_owned();
        let ack = format!(r#"{{"job_id":"{done}","result":{{}}}}"#);
        let nack = format!(r#"{{"job_id":"{failed}","error":{{"code":"x","message":"y"}}}}"#);
        for (path, body) in [("heartbeat", beat), ("ack", ack), ("nack", nack)] {
            let answer = self.client.post(&format!("/ojs/v1/workers/{path}"), body).await;
            assert_eq!(answer.status, 200, "{path} {answer:?}");
        }
    }

    /// From now on the region says nothing of use when it is asked for a job, so that nobody can find out what became of one.
    pub fn mute(&self, place: usize) {
        let answer = FaultAnswer::error_document(http::StatusCode::INTERNAL_SERVER_ERROR, "internal_error");
        let asked = When::path("/ojs/v1/jobs/").method(http::Method::GET);
        self.regions[place].faults().add(asked, Fault::Answer { answer, store: false });
    }

    /// How many health probes have begun to arrive at a region.
    pub fn probes(&self, place: usize) -> usize {
        self.regions[place].record().requests_to("/ojs/v1/health").len()
    }

    /// Where a job is stored, by place, and how many times it was submitted there.
    pub fn stored(&self, id: &str) -> Vec<(usize, u32)> {
        let times = |place: usize| self.regions[place].jobs().job(id).map(|job| (place, job.stored));
        (0..self.regions.len()).filter_map(times).collect()
    }

    /// The value of a series, such as `failovers_total{from_region="us-east-1",reason="connect"}`, labels in order.
    pub async fn metric(&self, series: &str) -> f64 {
        let text = String::from_utf8(self.admin.get("/metrics").await.body.to_vec()).unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix("ojs_federation_")?.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no series {series}")).parse().unwrap()
    }

    /// Returns when the control thread has looked at everything that was due before the call.
    ///
    /// The admin listener is served by the same thread, behind whatever woke up earlier.
    pub async fn settle(&self) {
        for _ in 0..2 {
            assert_eq!(self.admin.get("/livez").await.status, 200);
        }
    }
}
