use std::io::{self, Write};
use std::sync::{Arc, mpsc};

use parking_lot::Mutex;
use tracing::subscriber::with_default;

use super::*;
use crate::base::RegionId;
use crate::config::AccessLog;
use crate::telemetry::{FailoverReason, Metrics, dropped_lines, event};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u8>>>);

impl Seen {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Seen {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

fn written(format: LogFormat, level: &str, log: impl FnOnce()) -> String {
    let seen = Seen::default();
    let subscriber =
        tracing_subscriber::registry().with(parse_filter(level).unwrap()).with(lines(format, false, seen.clone()));
    with_default(subscriber, log);
    seen.text()
}

fn two_regions() -> Arc<Metrics> {
    Metrics::new(&["us-east-1", "eu-west-1"].map(|id| RegionId::parse(id).unwrap()), &["enqueue"])
}

#[test]
fn a_failover_is_one_json_line_with_the_names_of_the_specification() {
    let metrics = two_regions();
    let text = written(LogFormat::Json, "info", || {
        event::failover(metrics.region(0), metrics.region(1), FailoverReason::Connect, 0);
    });
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["event"], "ojs.federation.failover");
    assert_eq!(line["from_region"], "us-east-1");
    assert_eq!(line["to_region"], "eu-west-1");
    assert_eq!(line["reason"], "connect");
    assert_eq!(line["target"], "ojs_federation");
    let time = line["timestamp"].as_str().unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok() && time.ends_with('Z'), "{time}");
}

#[test]
fn a_request_id_with_a_line_break_cannot_forge_a_line() {
    for format in [LogFormat::Json, LogFormat::Text] {
        let metrics = two_regions();
        let text =
            written(format, "info", || event::unknown_outcome(metrics.region(0), None, "a\nERROR forged \x1b[31m"));
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains('\x1b'), "{text:?}");
    }
}

#[test]
fn libraries_are_heard_at_info_even_when_the_level_is_trace() {
    let text = written(LogFormat::Text, "trace", || {
        tracing::trace!(target: "h2::hpack", "authorization: Bearer canary");
        tracing::info!(target: "h2::hpack", "coarse");
        tracing::trace!(target: "ojs_sidecar::proxy", "ours");
    });
    assert!(!text.contains("canary") && text.contains("coarse") && text.contains("ours"), "{text}");
}

#[test]
fn a_panic_is_a_line_that_says_where_and_never_with_which_words() {
    let text = written(LogFormat::Json, "info", || {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(panicked));
        let ended = std::panic::catch_unwind(|| panic!("byte 3 of `canary`"));
        std::panic::set_hook(before);
        assert!(ended.is_err());
    });
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["event"], "ojs.federation.panic");
    assert!(line["place"].as_str().unwrap().contains("log/tests.rs:"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn a_setting_that_hides_access_events_writes_nothing() {
    let event = crate::telemetry::AccessEvent {
        request_id: b"r",
        method: "GET",
        operation: "health",
        status: 200,
        region: None,
        moved_from: None,
        strategy: None,
        attempts: 0,
        outcome: None,
        refusal: None,
        duration: Duration::ZERO,
        upstream: Duration::ZERO,
    };
    let rations = crate::telemetry::Rations::new(crate::base::Clock::system());
    let check = |setting, lines: usize| {
        let text = written(LogFormat::Text, "info", || {
            if let Some(line) = event.line(setting, &rations) {
                event.write(line, &crate::telemetry::AccessJob::default());
            }
        });
        assert_eq!(text.lines().count(), lines, "{setting:?}: {text}");
    };
    check(AccessLog::Off, 0);
    check(AccessLog::Errors, 0);
    check(AccessLog::All, 1);
}

#[test]
fn init_may_be_called_twice_and_a_wrong_level_is_an_error() {
    let config = |level: &str| Log { format: LogFormat::Text, level: level.to_owned(), access: AccessLog::Errors };
    init(&config("off")).unwrap();
    let handle = init(&config("off")).unwrap();
    assert!(handle.set_level("ojs_federation=noise").is_err());
    assert!(init(&config("a=b=c")).is_err());
    handle.flush();
}

/// A reader that takes nothing until it is let go.
struct Stuck(mpsc::Receiver<()>, Seen);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_stops_costs_lines_and_never_blocks_the_writer() {
    let (let_go, stuck) = mpsc::channel();
    let seen = Seen::default();
    let mut writer = LineWriter::start(Stuck(stuck, seen.clone())).unwrap();
    let before = dropped_lines();
    for _ in 0..10_000 {
        writer.write_all(b"line\n").unwrap();
    }
    assert!(dropped_lines() > before);
    writer.flush(Duration::ZERO);
    assert_eq!(seen.text(), "", "whoever waits for the last line waits no longer than it will");
    drop(let_go);
    writer.flush(Duration::from_secs(60));
    assert!(seen.text().lines().count() >= 8_192);
}

/// A reader that notes what it was given at once, and waits to be let go before it takes the first.
struct Slices(Option<mpsc::Receiver<()>>, Arc<Mutex<Vec<String>>>);

impl Write for Slices {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(gate) = self.0.take() {
            let _ = gate.recv();
        }
        self.1.lock().push(String::from_utf8(bytes.to_vec()).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.lock().push("flushed\n".to_owned());
        Ok(())
    }
}

#[test]
fn lines_that_come_together_are_written_together_and_whole() {
    let (let_go, gate) = mpsc::channel();
    let slices = Arc::default();
    let mut writer = LineWriter::start(Slices(Some(gate), Arc::clone(&slices))).unwrap();
    // Where the first write ends, which waits, is up to the thread.
    let long = "x".repeat(5_000);
    let lines: Vec<String> =
        (0..200).map(|number| format!("line {number:3} {}\n", if number == 150 { &long } else { "" })).collect();
    for line in &lines {
        writer.write_all(line.as_bytes()).unwrap();
    }
    drop(let_go);
    writer.flush(Duration::from_secs(60));
    let slices = slices.lock();
    assert_eq!(slices.concat(), lines.concat() + "flushed\n");
    assert!(slices.iter().all(|slice| slice.ends_with('\n')), "{slices:?}");
    // What a pipe takes without mixing it with what others write.
    assert!(slices.iter().all(|slice| slice.len() <= 4_096 || slice.contains(&long) && slice.lines().count() == 1));
    assert!(slices.len() <= 6, "{} writes", slices.len());
}
