//! Orders to a sidecar's admin listener or to a hub, and the document of the answer.

use std::borrow::Cow;

use bytes::Bytes;
use clap::{ArgGroup, Args};
use http::Method;
use serde_json::Value;

use super::arguments::{AtArgs, HubArgs};
use super::client::{ask, ask_hub};
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::query::list;
use super::runtime::runtime;
use crate::ojs::path_segment;

/// The receiver of an order.
#[derive(Debug, Clone, Copy)]
pub(super) enum To<'a> {
    /// A sidecar on this machine.
    Sidecar(&'a AtArgs),
    /// A hub.
    Hub(&'a HubArgs),
}

impl<'a> To<'a> {
    /// The hub where `--hub` is given, else the sidecar.
    pub(super) const fn of(hub: &'a HubArgs, at: &'a AtArgs) -> Self {
        if hub.hub.is_some() { Self::Hub(hub) } else { Self::Sidecar(at) }
    }

    fn name(self) -> Cow<'a, str> {
        match self {
            Self::Sidecar(at) => at.address(),
            Self::Hub(hub) => hub.hub.as_deref().unwrap_or("the hub").into(),
        }
    }
}

/// The grounds of an order at a hub.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
pub(super) struct OrderedBy {
    /// Why, for the log and the audit trail
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: String,
    /// The ticket of the change
    #[arg(long, value_name = "TICKET")]
    pub(super) ticket: String,
    /// The name of the operator; with a token its own name counts
    #[arg(long, value_name = "NAME", required_unless_present = "token_file")]
    pub(super) author: Option<String>,
    #[command(flatten)]
    pub(super) hub: HubArgs,
}

impl OrderedBy {
    /// The grounds as they stand in the query of a call.
    pub(super) fn query(&self) -> String {
        let [reason, ticket] = [&self.reason, &self.ticket].map(|text| path_segment(text));
        let author = self.author.as_ref().map(|author| format!("&author={}", path_segment(author)));
        format!("reason={reason}&ticket={ticket}{}", author.unwrap_or_default())
    }
}

/// Sends an order, and returns the document of a success. Otherwise the reason is printed and `None` is returned: nothing answers, it
/// refuses, or the document is not the one that `is_ours` expects.
pub(super) fn order(to: To<'_>, method: Method, path: &str, is_ours: impl FnOnce(&Value) -> bool) -> Option<Value> {
    order_with(to, method, path, Bytes::new(), is_ours)
}

/// The same with a body.
pub(super) fn order_with(
    to: To<'_>,
    method: Method,
    path: &str,
    body: Bytes,
    is_ours: impl FnOnce(&Value) -> bool,
) -> Option<Value> {
    let answer = match runtime() {
        Ok(runtime) => runtime.block_on(async {
            match to {
                To::Sidecar(at) => ask(&at.address(), method, path, body).await,
                To::Hub(hub) => ask_hub(hub, method, path, body).await,
            }
        }),
        Err(error) => Err(format!("the system refuses a runtime: {error}")),
    };
    let (parts, body) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            complain(error);
            return None;
        }
    };
    let document: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if !parts.status.is_success() || !is_ours(&document) {
        let message = document["error"]["message"].as_str().unwrap_or(match to {
            To::Sidecar(_) => "it is no ojs-sidecar's admin listener",
            To::Hub(_) => "it is no hub",
        });
        complain(format_args!("{} answered {}: {message}", to.name(), parts.status.as_u16()));
        return None;
    }
    Some(document)
}

/// The options of a list of what operators have put at a hub.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
pub(super) struct ListArgs {
    /// Print the hub's JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hub: HubArgs,
}

/// Shows the list that a hub has at a path, in this member: as its JSON, by `show`, or by the sentence for an empty one. Returns the exit code.
pub(super) fn listed(
    arguments: &ListArgs,
    (path, member): (&str, &str),
    empty: &str,
    show: impl FnOnce(&[Value]),
) -> u8 {
    let answer = order(To::Hub(&arguments.hub), Method::GET, path, |it| it[member].is_array());
    let Some(document) = answer else { return FAILED };
    match list(&document[member]) {
        _ if arguments.json => say(format_args!("{document:#}")),
        [] => say(empty),
        items => show(items),
    }
    DONE
}

/// Warns where a hub has an order in memory only.
pub(super) fn say_durable(document: &Value) {
    if document["durable"] != true {
        say("this is not on disk: a restart forgets it");
    }
}
