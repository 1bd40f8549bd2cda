//! Agents: jobs whose steps an operator pauses, branches and joins.
//!
//! Spec: the public cases of agents; no document gives the shapes. A branch is a name and nothing else here.

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{Response, StatusCode};

use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::job::Job;
use crate::members::{Invalid, Members};
use crate::problem::Problem;
use crate::routes::AgentAct as Act;

/// How many branches of a job are kept.
const BRANCHES_MAX: usize = 100;

/// Serves a call about the agent that a job is.
///
/// Errors: [`Problem`], before anything was changed.
pub(super) fn serve(context: &Context, id: &str, act: Act, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = if body.is_empty() { Members::default() } else { Members::parse(body)? };
    let mut store = context.store.lock();
    let job = store.job_mut(id).ok_or_else(|| Problem::NoSuchJob(id.to_owned()))?;
    let object = Object::new().text("job_id", id);
    let answer = match act {
        Act::Pause | Act::Resume => {
            job.notes.is_paused = act == Act::Pause;
            object.text("state", if job.notes.is_paused { "paused" } else { "running" })
        }
        Act::Fork => {
            let branch = format!("br_{}", uuid::Uuid::now_v7());
            if job.notes.branches.len() >= BRANCHES_MAX {
                job.notes.branches.remove(0);
            }
            job.notes.branches.push(branch.clone());
            let content = HEXLOWER.encode(digest(&SHA256, job.document().as_bytes()).as_ref());
            object.text("branch_id", &branch).text("content_id", &format!("sha256:{content}"))
        }
        Act::Merge => {
            for name in ["branch_a", "branch_b"] {
                let rule = "is a branch of this job";
                let branch: Option<String> = members.read(name, rule)?;
                let is_known = branch.is_some_and(|branch| job.notes.branches.contains(&branch));
                is_known.then_some(()).ok_or(Invalid::Member(name, rule))?;
            }
            object.text("merged_id", &format!("mg_{}", uuid::Uuid::now_v7())).raw("conflicts", "[]")
        }
        Act::ToolRetry => {
            let alternate = members.read("use_alternate", "is true or false")?.unwrap_or(false);
            let provider = alternate.then(|| alternate_provider(job)).flatten();
            object.flag("retried", true).maybe_text("provider", provider.as_deref())
        }
        Act::Replay => object.flag("replayed", true).text("state", job.state.as_str()),
    };
    Ok(document(StatusCode::OK, answer.finish()))
}

/// The provider that the job names for when a tool of its usual one fails.
fn alternate_provider(job: &Job) -> Option<String> {
    let (_, agent) = job.envelope.extra.iter().find(|(key, _)| key == "ext_agent_v2")?;
    let retry: Members = Members::parse(agent.get().as_bytes()).ok()?.read("tool_retry", "").ok()??;
    retry.read("alternate_provider", "").ok()?
}
