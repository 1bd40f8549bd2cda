//! `ojs-sidecar await`: holds back the start of other processes until regions can be used.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::arguments::AwaitArgs;
use super::client::ask;
use super::exit::{DONE, FAILED};
use super::out::complain;
use super::runtime::runtime;

/// Between two questions: probes are no more frequent by default.
const PAUSE: Duration = Duration::from_millis(500);

/// Exit code 0 once the regions are healthy; 1 with a line on standard error when the time is over.
pub(super) fn wait(arguments: &AwaitArgs) -> u8 {
    let waited = match runtime() {
        Ok(runtime) => runtime.block_on(healthy_in_time(arguments)),
        Err(error) => Err(format!("the kernel refuses what a runtime needs: {error}")),
    };
    match waited {
        Ok(()) => DONE,
        Err(why) => {
            complain(why);
            FAILED
        }
    }
}

/// Errors: the missing regions of the last look.
async fn healthy_in_time(arguments: &AwaitArgs) -> Result<(), String> {
    let mut missing = "the sidecar was not asked yet".to_owned();
    let looking = async {
        while let Err(why) = look(arguments).await {
            missing = why;
            tokio::time::sleep(PAUSE).await;
        }
    };
    let in_time = tokio::time::timeout(arguments.timeout, looking).await;
    in_time.map_err(|_| format!("not there after {:?}: {missing}", arguments.timeout))
}

/// One look at the sidecar's regions. A sidecar that does not answer may still be starting.
///
/// Errors: the missing regions.
async fn look(arguments: &AwaitArgs) -> Result<(), String> {
    let (parts, body) = ask(&arguments.address, Method::GET, "/v1/federation/regions", Bytes::new()).await?;
    let document: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let Some(regions) = document["regions"].as_array().filter(|_| parts.status.is_success()) else {
        return Err(format!(
            "the server at {} is no ojs-sidecar; name its client listener with --address",
            arguments.address
        ));
    };
    let status = |id: &str| regions.iter().find(|region| region["id"] == id).map(|region| &region["status"]);
    if arguments.regions.is_empty() {
        let one = regions.iter().any(|region| region["status"] == "healthy");
        return if one { Ok(()) } else { Err("no region is healthy".to_owned()) };
    }
    for id in &arguments.regions {
        match status(id.as_str()) {
            Some(status) if status == "healthy" => {}
            Some(status) => return Err(format!("region {id} is {}", status.as_str().unwrap_or("unknown"))),
            None => return Err(format!("region {id} is not registered; `ojs-sidecar regions` shows those that are")),
        }
    }
    Ok(())
}
