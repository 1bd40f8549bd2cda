//! How queues and tenants share workers, without and with `scheduling`, on a region that knows nothing of it.

use http::Method;
use serde_json::{Value, json};

use super::step::{Told, ask, check, post, step, text};
use crate::cli::demo::stage::{SCHEDULING, Stage};
use crate::cli::out::say;

/// Jobs of the queue, or the tenant, that takes all workers, and those of the other one.
const MANY: usize = 40;
const FEW: usize = 5;

/// Shows a starving queue, a loud tenant and an isolated pool.
pub(super) async fn share(stage: &Stage) -> Told {
    step(stage, 9, "Queues and tenants share workers (scheduling), on servers that serve queues strictly in order");
    for line in SCHEDULING.lines() {
        say(format_args!("  {line}"));
    }
    starving_queue(stage).await?;
    loud_tenant(stage).await?;
    isolated_pool(stage).await
}

async fn starving_queue(stage: &Stage) -> Told {
    say(format_args!("  A queue behind another one that always has jobs, {MANY} FETCHes of one job:"));
    let mut shares = Vec::new();
    for [first, second] in [["plain-orders", "plain-newsletters"], ["orders", "newsletters"]] {
        fill(stage, first, None, MANY).await?;
        fill(stage, second, None, MANY).await?;
        let queues = json!([first, second]);
        let mut came = 0;
        for _ in 0..MANY {
            let job = fetch(stage, &queues).await?;
            came += usize::from(job["queue"] == second);
        }
        say(format_args!("    {first:<12} {:>3}   {second:<17} {came:>3}", MANY - came));
        shares.push(came);
    }
    check(shares[0] == 0 && shares[1] >= MANY / 5, "with a floor of 0.2, a fifth of the jobs are newsletters")
}

async fn loud_tenant(stage: &Stage) -> Told {
    say(format_args!(
        "  A tenant with {MANY} reports before one with {FEW}: the FETCHes until the second one is served"
    ));
    let mut calls = Vec::new();
    for queue in ["plain-reports", "reports"] {
        fill(stage, queue, Some("loud"), MANY).await?;
        fill(stage, queue, Some("small"), FEW).await?;
        let (mut count, mut left) = (0, FEW);
        while left > 0 && count < 2 * (MANY + FEW) {
            let job = fetch(stage, &json!([queue])).await?;
            check_queue(&job, queue)?;
            left -= usize::from(job["meta"]["tenant_id"] == "small");
            count += 1;
        }
        say(format_args!("    {queue:<14} {count:>3}"));
        calls.push(count);
    }
    check(
        calls[0] == MANY + FEW && calls[1] <= 2 * FEW + 1,
        "the small tenant waits for its own jobs, and not for the other's",
    )
}

fn check_queue(job: &Value, queue: &str) -> Told {
    if job["queue"] == queue { Ok(()) } else { Err(format!("a job of the queue {queue} is shown in {}", job["queue"])) }
}

async fn isolated_pool(stage: &Stage) -> Told {
    fill(stage, "payments", None, 1).await?;
    let foreign = json!({"queues": ["payments"], "pool": "shop", "count": 1, "worker_id": "w2"});
    let (head, body) = ask(stage, Method::POST, "/ojs/v1/workers/fetch", Some(foreign)).await?;
    say(format_args!("  A worker of the pool shop asks for payments: HTTP {}", head.status.as_u16()));
    say(format_args!("    {}", String::from_utf8_lossy(&body)));
    check(head.status == 403, "the isolated queue gives it nothing")?;
    let job = fetch(stage, &json!(["payments"])).await?;
    check(text(&job["queue"]) == "payments", "a worker of the pool payments gets the job")
}

async fn fill(stage: &Stage, queue: &str, tenant: Option<&str>, jobs: usize) -> Told {
    for number in 0..jobs {
        let mut job = json!({"type": "shop.work", "args": [number], "options": {"queue": queue}});
        if let Some(tenant) = tenant {
            job["meta"] = json!({"tenant_id": tenant});
        }
        let (head, body) = ask(stage, Method::POST, "/ojs/v1/jobs", Some(job)).await?;
        if head.status != 201 {
            return Err(format!("a job was answered {}: {}", head.status, String::from_utf8_lossy(&body)));
        }
    }
    Ok(())
}

/// Fetches one job of these queues and acknowledges it.
async fn fetch(stage: &Stage, queues: &Value) -> Result<Value, String> {
    let wanted = json!({"queues": queues, "count": 1, "worker_id": "w1"});
    let fetched = post(stage, "/ojs/v1/workers/fetch", wanted).await?;
    let job = fetched["jobs"][0].clone();
    if job.is_null() {
        return Err(format!("no job came of {queues}"));
    }
    post(stage, "/ojs/v1/workers/ack", json!({"job_id": job["id"], "result": "done"})).await?;
    Ok(job)
}
