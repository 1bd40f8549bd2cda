//! The last step: a worker that drains the tour's jobs, in every region.

use std::collections::BTreeMap;

use serde_json::json;

use super::step::{Told, check, post, region, step, text};
use crate::cli::demo::stage::{IDS, Stage};
use crate::cli::out::say;
use ojs_testbed::JobState;

/// The queues that the demo's configuration shares over regions (`workers.remote_fetch`).
const QUEUES: [&str; 2] = ["video", "default"];
/// Far more fetches than the tour's jobs need.
const FETCHES_MAX: usize = 100;

/// Fetches and acknowledges until nothing is left.
pub(super) async fn drain(stage: &Stage) -> Told {
    step(stage, 8, "A worker drains the queues \"video\" and \"default\", whose jobs are in three regions");
    let mut done: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..FETCHES_MAX {
        let jobs = fetch(stage).await?;
        if jobs.is_empty() {
            break;
        }
        for id in jobs {
            let answer = post(stage, "/ojs/v1/workers/ack", json!({"job_id": id, "result": "done"})).await?;
            if answer["state"] != "completed" {
                return Err(format!("the acknowledgement of {id} was answered {answer}"));
            }
            *done.entry(owner(stage, &id)?).or_default() += 1;
        }
    }
    for (id, count) in &done {
        say(format_args!("  {id:<10} {count:>3} jobs acknowledged  {}", "#".repeat(*count)));
    }
    check(
        done.len() == IDS.len(),
        "jobs of all regions were worked off, and each was acknowledged in its own region only",
    )?;
    let left = |place: usize| region(stage, place).map(|region| region.jobs().count_in(JobState::Available));
    say("  The pinned jobs are left: their queue is not shared, so that only a worker in eu-west-1 gets them");
    check((left(0)?, left(1)?, left(2)?) == (0, 2, 0), "nothing else is left anywhere")
}

async fn fetch(stage: &Stage) -> Result<Vec<String>, String> {
    let wanted = json!({"queues": QUEUES, "count": 10, "worker_id": "w1"});
    let fetched = post(stage, "/ojs/v1/workers/fetch", wanted).await?;
    Ok(fetched["jobs"].as_array().into_iter().flatten().map(|job| text(&job["id"]).to_owned()).collect())
}

/// The region where a job is completed.
///
/// Errors: when it is not in exactly one, or when another region has heard of its acknowledgement.
fn owner(stage: &Stage, id: &str) -> Result<&'static str, String> {
    let mut owners = Vec::new();
    for (place, name) in IDS.iter().enumerate() {
        let region = region(stage, place)?;
        let completed = region.jobs().job(id).is_some_and(|job| job.state == JobState::Completed);
        let acknowledgements = region.record().requests_to("/ojs/v1/workers/ack");
        let told = acknowledgements.iter().any(|request| memchr::memmem::find(&request.body, id.as_bytes()).is_some());
        match (completed, told) {
            (true, true) => owners.push(*name),
            (false, false) => {}
            _ => return Err(format!("{name} has job {id} as {completed} and heard of it: {told}")),
        }
    }
    match owners.as_slice() {
        [owner] => Ok(owner),
        _ => Err(format!("job {id} is completed in {owners:?}")),
    }
}
