//! `ojs-sidecar healthcheck`: for images that hold no other program to ask with.

use std::time::Duration;

use bytes::Bytes;
use http::Method;

use super::arguments::HealthcheckArgs;
use super::client::ask;
use super::exit::{DONE, FAILED};
use super::out::complain;
use super::runtime::runtime;

/// The admin listener answers from memory.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Exit code 0 if the sidecar lives, or is ready where that is asked; else 1 with a line on standard error.
pub(super) fn healthcheck(arguments: &HealthcheckArgs) -> u8 {
    let path = if arguments.ready { "/readyz" } else { "/livez" };
    let asked = async {
        let answer = ask(&arguments.address, Method::GET, path, Bytes::new());
        tokio::time::timeout(TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| Err(format!("no answer in {} s", TIMEOUT.as_secs())))
    };
    let answer = match runtime() {
        Ok(runtime) => runtime.block_on(asked),
        Err(error) => Err(format!("the system refuses a runtime: {error}")),
    };
    match answer {
        Ok((parts, _)) if parts.status.is_success() => DONE,
        Ok((parts, body)) => {
            complain(format_args!("{path} answered {}: {}", parts.status.as_u16(), String::from_utf8_lossy(&body)));
            FAILED
        }
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}
