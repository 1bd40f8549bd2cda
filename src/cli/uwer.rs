//! `ojs-sidecar uwer`: tasks of the legacy orchestration UWER.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use data_encoding::BASE64;
use http::Method;
use serde_json::Value;

use super::arguments::HubArgs;
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::{complain, say, say_bytes};
use super::query::{cell, list, table};
use crate::ojs::path_segment;
use crate::uwer::{self, Flaw, JobShape, Task};

/// The longest file that is read: longer than any task. Units: bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct UwerArgs {
    #[command(subcommand)]
    command: UwerCommand,
}

#[derive(Debug, Subcommand)]
enum UwerCommand {
    /// Check a task, and print it in another form: XML of version 4.2, the same in JSON, or the OJS job that it becomes
    Convert(ConvertArgs),
    /// Show the documents that were refused as tasks and are kept at a hub, the newest first; or one, with its bytes
    Letters(LettersArgs),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
struct LettersArgs {
    /// One of them, in place of the last ones
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Print its bytes as they were sent, to be mended and sent again
    #[arg(long, requires = "id", conflicts_with = "json")]
    raw: bool,
    /// Drop it: its bytes are lost
    #[arg(long, requires_all = ["id", "reason", "ticket"], conflicts_with_all = ["raw", "json"])]
    drop: bool,
    /// Why it is dropped, for the audit trail
    #[arg(long, value_name = "TEXT", requires = "drop")]
    reason: Option<String>,
    /// The ticket of that
    #[arg(long, value_name = "TICKET", requires = "drop")]
    ticket: Option<String>,
    /// The name of the operator; with a token its own name counts
    #[arg(long, value_name = "NAME", requires = "drop")]
    author: Option<String>,
    /// How many, from 1 to 500
    #[arg(long, value_name = "N", default_value = "50", conflicts_with = "id", value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Those behind this place: the `next` of an earlier answer
    #[arg(long, value_name = "NEXT", conflicts_with = "id")]
    cursor: Option<String>,
    /// Print the hub's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hub: HubArgs,
}

#[derive(Debug, Args)]
struct ConvertArgs {
    /// A file with the task as XML or JSON, or the job of one; - for standard input
    file: PathBuf,
    /// The form to print
    #[arg(long, value_enum)]
    to: Form,
    /// With `--to job`: the id of the job
    #[arg(long, value_name = "ID", default_value = "00000000-0000-7000-8000-000000000000", value_parser = name)]
    id: String,
    /// With `--to job`: the type of the job
    #[arg(long = "type", value_name = "TYPE", default_value = "uwer.task", value_parser = name)]
    job_type: String,
    /// With `--to job`: the queue of the job
    #[arg(long, value_name = "QUEUE", default_value = "uwer", value_parser = name)]
    queue: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Xml,
    Json,
    Job,
}

/// Ids, types and queues of OJS jobs are written as they are.
fn name(text: &str) -> Result<String, &'static str> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_');
    let is_name = (1..=255).contains(&text.len()) && text.chars().all(is_plain);
    if is_name { Ok(text.to_owned()) } else { Err("expected 1 to 255 letters, digits, `.`, `-` or `_`") }
}

/// Carries out a command; exit code 1 for a file that holds no task.
pub(super) fn uwer(arguments: &UwerArgs) -> u8 {
    match &arguments.command {
        UwerCommand::Convert(convert) => self::convert(convert),
        UwerCommand::Letters(letters) => match &letters.id {
            Some(id) if letters.drop => drop_letter(letters, id),
            Some(id) => letter(letters, id),
            None => self::letters(letters),
        },
    }
}

/// The path of dead letters at a hub.
const LETTERS: &str = "/v1/hub/uwer/letters";

fn letters(arguments: &LettersArgs) -> u8 {
    let cursor = arguments.cursor.as_ref().map(|cursor| format!("&cursor={}", path_segment(cursor)));
    let path = format!("{LETTERS}?limit={}{}", arguments.limit, cursor.unwrap_or_default());
    let answer = order(To::Hub(&arguments.hub), Method::GET, &path, |it| it["letters"].is_array());
    let Some(document) = answer else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let letters = list(&document["letters"]);
    if letters.is_empty() {
        say("there is no dead letter");
        return DONE;
    }
    let row =
        |it: &Value| ["id", "last_at", "count", "why", "field", "line", "origin", "key"].map(|key| cell(&it[key]));
    let head = ["ID", "LAST", "TIMES", "WHY", "FIELD", "LINE", "SERVICE", "IDEMPOTENCY KEY"];
    table(head, letters.iter().map(row).collect());
    if let Some(next) = document["next"].as_str() {
        say(format_args!("more: --cursor {next}"));
    }
    DONE
}

fn drop_letter(arguments: &LettersArgs, id: &str) -> u8 {
    let named = [("reason", &arguments.reason), ("ticket", &arguments.ticket), ("author", &arguments.author)];
    let pair = |(name, text): (&str, &Option<String>)| Some(format!("{name}={}", path_segment(text.as_deref()?)));
    let query: Vec<String> = named.into_iter().filter_map(pair).collect();
    let path = format!("{LETTERS}/{}?{}", path_segment(id), query.join("&"));
    match order(To::Hub(&arguments.hub), Method::DELETE, &path, |it| it["letter"].is_string()) {
        Some(_) => {
            say(format_args!("dropped: {id}"));
            DONE
        }
        None => FAILED,
    }
}

fn letter(arguments: &LettersArgs, id: &str) -> u8 {
    let path = format!("{LETTERS}/{}", path_segment(id));
    let answer = order(To::Hub(&arguments.hub), Method::GET, &path, |it| it["letter"]["id"].is_string());
    let Some(document) = answer else { return FAILED };
    if !arguments.raw {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let Some(content) = document["content"].as_str() else {
        complain("the hub does not have its bytes: they may not be in its region, or were too many");
        return FAILED;
    };
    match BASE64.decode(content.as_bytes()) {
        Ok(bytes) => {
            say_bytes(&bytes);
            DONE
        }
        Err(_) => {
            complain("the answer of the hub cannot be read");
            FAILED
        }
    }
}

fn convert(convert: &ConvertArgs) -> u8 {
    let bytes = match content(&convert.file) {
        Ok(bytes) => bytes,
        Err(error) => {
            complain(format_args!("{}: {error}", convert.file.display()));
            return FAILED;
        }
    };
    match task(&bytes) {
        Ok(task) => {
            say(format_args!("{}", converted(&task, convert).trim_end()));
            DONE
        }
        Err(flaw) => {
            complain(format_args!("{}: {flaw}", convert.file.display()));
            FAILED
        }
    }
}

fn content(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let read = if file == Path::new("-") {
        std::io::stdin().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).map_err(unreadable)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    read.map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("expected at most {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

/// The task of a file in any of the forms: XML begins with `<`, and of the JSON ones only a job has `args`.
fn task(bytes: &[u8]) -> Result<Task, Flaw> {
    let is_json = bytes.iter().find(|it| !it.is_ascii_whitespace()) == Some(&b'{');
    if !is_json {
        return uwer::read_xml(bytes);
    }
    let is_job = serde_json::from_slice::<Value>(bytes).is_ok_and(|it| it.get("args").is_some());
    if is_job { uwer::task_of(bytes) } else { uwer::read_json(bytes) }
}

fn converted(task: &Task, arguments: &ConvertArgs) -> String {
    match arguments.to {
        Form::Xml => uwer::write_xml(task),
        Form::Json => uwer::write_json(task),
        Form::Job => {
            let shape = JobShape { job_type: &arguments.job_type, queue: &arguments.queue };
            uwer::job_of(task, &arguments.id, &shape)
        }
    }
}
