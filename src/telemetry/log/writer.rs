//! A bounded queue between those who log and the thread that writes.
//!
//! A log collector that stops reading fills the pipe, and a plain write would then stop a data thread and every request on it.
//! So lines go through a bounded queue; when it is full a line is given up and counted.
//!
//! To wake the thread for each line takes longer than all else about it, on a core that serves requests meanwhile. So it rests when it
//! has written all that there is: what comes meanwhile is written together, and what comes later at once.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written: at about 400 bytes a line, some 3 MiB when nobody reads.
const LINES_MAX: usize = 8_192;

/// How long the thread rests: few enough lines come meanwhile, some hundreds where tens of thousands come in a second.
const REST: Duration = Duration::from_millis(5);

/// So much is written at once, at most, if no line is longer: what the system never mixes with what another process writes to the same
/// pipe, as the one does that takes our place.
const WRITE_BYTES: usize = 4_096;

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines given up since the process started.
#[must_use]
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// The end of the queue that takes lines; never waits.
#[derive(Clone)]
pub(super) struct LineWriter(Arc<Queue>);

struct Queue {
    messages: SyncSender<Message>,
    writer: Thread,
}

impl LineWriter {
    /// Starts the thread that writes to `out`.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (messages, receiver) = sync_channel(LINES_MAX);
        let writer = std::thread::Builder::new().name("ojs-log".to_owned()).spawn(move || write_all(&receiver, out))?;
        Ok(Self(Arc::new(Queue { messages, writer: writer.thread().clone() })))
    }

    /// Waits until everything before this call is written, at most `wait`.
    pub(super) fn flush(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let (done, written) = sync_channel(1);
        let mut message = Message::Flush(done);
        // There is room as soon as the thread goes on.
        while let Err(TrySendError::Full(unsent)) = self.0.messages.try_send(message) {
            if Instant::now() >= until {
                return;
            }
            message = unsent;
            std::thread::park_timeout(REST.min(wait));
        }
        self.0.writer.unpark();
        let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

fn write_all(messages: &Receiver<Message>, mut out: impl Write) {
    let mut lines = Vec::with_capacity(WRITE_BYTES);
    while let Ok(first) = messages.recv() {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => {
                    if lines.len() + line.len() > WRITE_BYTES {
                        write_out(&mut lines, &mut out);
                    }
                    lines.extend_from_slice(&line);
                }
                Message::Flush(done) => {
                    write_out(&mut lines, &mut out);
                    let _ = out.flush();
                    let _ = done.try_send(());
                }
            }
            next = messages.try_recv().ok().or_else(|| {
                write_out(&mut lines, &mut out);
                // As many may have come while the reader let it wait as there is room for.
                messages.try_recv().ok()
            });
        }
        // Shorter when somebody waits for the last line, or for no reason.
        std::thread::park_timeout(REST);
    }
}

/// Writes these whole lines, and forgets them.
fn write_out(lines: &mut Vec<u8>, out: &mut impl Write) {
    if !lines.is_empty() {
        // A standard error that is closed leaves nobody to tell.
        let _ = out.write_all(lines);
        lines.clear();
    }
}

impl Write for LineWriter {
    /// Takes one whole line: the formatter writes each event at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.messages.try_send(Message::Line(line.to_vec())).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for LineWriter {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

impl std::fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LineWriter")
    }
}
