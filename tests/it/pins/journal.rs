//! Our own log lines, at every level, while the test runs.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What was logged so far.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<u8>>>);

impl Journal {
    pub fn text(&self) -> Vec<u8> {
        self.0.lock().clone()
    }

    /// The text without the fields that name a job and its queue, which access lines have for the operator of this pod.
    pub fn without_routing(&self) -> Vec<u8> {
        let text = String::from_utf8(self.text()).unwrap();
        let names = ["queue=", "job_type=", "type=", "job_id=", "federation_id="];
        let kept = |word: &&str| !names.iter().any(|name| word.starts_with(name));
        text.split_whitespace().filter(kept).collect::<Vec<_>>().join(" ").into_bytes()
    }
}

impl Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Listens to the program's own targets. None where another test of the process has installed a subscriber before.
pub fn install() -> Option<Journal> {
    let journal = Journal::default();
    let writer = journal.clone();
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    let ours = lines.with_filter(filter_fn(|metadata| metadata.target().starts_with("ojs_")));
    tracing_subscriber::registry().with(ours).try_init().is_ok().then_some(journal)
}
