//! A bounded queue between those who log and the thread that writes.
//!
//! A log collector that stops reading fills the pipe, and a plain write would then stop a data thread and every request on it.
//! So lines go through a bounded queue; when it is full a line is given up and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written: at about 400 bytes a line, some 3 MiB when nobody reads.
const LINES_MAX: usize = 8_192;

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
pub(super) struct LineWriter(SyncSender<Message>);

impl LineWriter {
    /// Starts the thread that writes to `out`.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(LINES_MAX);
        std::thread::Builder::new().name("ojs-log".to_owned()).spawn(move || write_all(&receiver, out))?;
        Ok(Self(sender))
    }

    /// Waits until everything before this call is written, at most `wait`.
    pub(super) fn flush(&self, wait: Duration) {
        let (done, written) = sync_channel(1);
        if self.0.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(wait);
        }
    }
}

fn write_all(messages: &Receiver<Message>, mut out: impl Write) {
    for message in messages {
        match message {
            // A standard error that is closed leaves nobody to tell.
            Message::Line(line) => {
                let _ = out.write_all(&line);
            }
            Message::Flush(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
    }
}

impl Write for LineWriter {
    /// Takes one whole line: the formatter writes each event at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.try_send(Message::Line(line.to_vec())).is_err() {
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
