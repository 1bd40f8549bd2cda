//! Lines to standard error, as text or JSON, that no slow reader can turn into waiting requests.

#[cfg(test)]
mod tests;
mod writer;

use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Metadata;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::config::{Log, LogFormat};
use crate::telemetry::event;
use crate::telemetry::process_counts::count_panic;
use writer::LineWriter;

/// How long the end of the process waits for the last lines.
const FLUSH_WAIT: Duration = Duration::from_secs(1);

/// The subscriber is one for the process, so its handle is too.
static INSTALLED: OnceLock<LogHandle> = OnceLock::new();

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is neither a level nor a filter.
    #[error("log.level: expected error, warn, info, debug, trace or a filter such as info,ojs_federation=debug")]
    Level(#[source] tracing_subscriber::filter::ParseError),
    /// The thread that writes the lines did not start.
    #[error("the thread that writes log lines did not start")]
    Thread(#[source] std::io::Error),
}

/// Changes of the log while the process runs.
#[derive(Debug, Clone)]
pub struct LogHandle {
    filter: reload::Handle<EnvFilter, Registry>,
    writer: LineWriter,
    levels: Arc<Mutex<Levels>>,
}

/// The levels of the log.
#[derive(Debug, Clone)]
pub struct Levels {
    /// As the configuration has it.
    pub configured: String,
    /// The level in force instead, and until when. Units: milliseconds since the Unix epoch.
    pub passing: Option<(String, u64)>,
    /// Of the last passing level, so that the end of an earlier one does not end it.
    number: u64,
}

impl LogHandle {
    /// Takes the configured level. It decides which lines are written, unless a passing level does for now.
    ///
    /// Errors: [`LogError::Level`], and the level stays as it was.
    pub fn set_level(&self, level: &str) -> Result<(), LogError> {
        let filter = parse_filter(level)?;
        let mut levels = self.levels.lock();
        level.clone_into(&mut levels.configured);
        if levels.passing.is_none() {
            self.put(filter);
        }
        Ok(())
    }

    /// Changes which lines are written, until [`LogHandle::end_passing_level`] is called with the number that this returns.
    ///
    /// Units: milliseconds since the Unix epoch, for display.
    /// Errors: [`LogError::Level`], and the level stays as it was.
    pub fn set_passing_level(&self, level: &str, until_unix_ms: u64) -> Result<u64, LogError> {
        let filter = parse_filter(level)?;
        let mut levels = self.levels.lock();
        levels.passing = Some((level.to_owned(), until_unix_ms));
        levels.number += 1;
        self.put(filter);
        Ok(levels.number)
    }

    /// Returns to the configured level; with a number, only if that passing level is still in force. True when it was.
    pub fn end_passing_level(&self, number: Option<u64>) -> bool {
        let mut levels = self.levels.lock();
        if levels.passing.is_none() || number.is_some_and(|number| number != levels.number) {
            return false;
        }
        levels.passing = None;
        // It was parsed before it was taken.
        if let Ok(filter) = parse_filter(&levels.configured) {
            self.put(filter);
        }
        true
    }

    /// The levels now.
    #[must_use]
    pub fn levels(&self) -> Levels {
        self.levels.lock().clone()
    }

    fn put(&self, filter: EnvFilter) {
        // Fails only where another subscriber was installed first, as in tests: then there is nothing to change.
        let _ = self.filter.reload(filter);
    }

    /// Waits, for at most a second, until the lines so far are written: for the end of the process.
    pub fn flush(&self) {
        self.writer.flush(FLUSH_WAIT);
    }
}

/// From now on a panic is a line of the log that says where, and not with which words: a panic's message may quote a job.
pub fn install_panic_hook(log: &LogHandle) {
    let log = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        panicked(panic);
        if std::thread::current().name() == Some("main") {
            // The process ends with its main thread, before the line would be written.
            log.flush();
        }
    }));
}

fn panicked(panic: &PanicHookInfo<'_>) {
    count_panic();
    let place = panic.location().map(|at| format!("{}:{}", at.file(), at.line()));
    event::panicked(place.as_deref(), std::thread::current().name());
}

/// Sends the lines of this process to standard error.
///
/// A second call keeps the first one's format and takes the new level, so that tests may call it freely.
///
/// Errors: [`LogError`].
pub fn init(config: &Log) -> Result<LogHandle, LogError> {
    let filter = parse_filter(&config.level)?;
    if let Some(installed) = INSTALLED.get() {
        installed.set_level(&config.level)?;
        return Ok(installed.clone());
    }
    let writer = LineWriter::start(std::io::stderr()).map_err(LogError::Thread)?;
    let handle = INSTALLED.get_or_init(|| install(config, filter, writer));
    Ok(handle.clone())
}

fn install(config: &Log, filter: EnvFilter, writer: LineWriter) -> LogHandle {
    let (filter, handle) = reload::Layer::new(filter);
    let lines = lines(config.format, std::io::stderr().is_terminal(), writer.clone());
    // Fails only where another subscriber was installed first, as in tests: theirs stays.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    let levels = Levels { configured: config.level.clone(), passing: None, number: 0 };
    LogHandle { filter: handle, writer, levels: Arc::new(Mutex::new(levels)) }
}

/// The layer that turns events into lines.
fn lines<S, W>(format: LogFormat, terminal: bool, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer);
    match format {
        LogFormat::Json => layer.json().flatten_event(true).with_filter(filter_fn(is_ours_or_coarse)).boxed(),
        LogFormat::Text if terminal => layer.with_filter(filter_fn(is_ours_or_coarse)).boxed(),
        LogFormat::Text => layer.with_ansi(false).with_filter(filter_fn(is_ours_or_coarse)).boxed(),
    }
}

/// At any level, libraries log at `info` and above only: below that, they print frames and handshakes, which may
/// contain tokens.
fn is_ours_or_coarse(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= LevelFilter::INFO || metadata.target().starts_with("ojs_")
}

fn parse_filter(level: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder().parse(level).map_err(LogError::Level)
}
