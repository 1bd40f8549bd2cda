//! A bounded queue between the logging threads and the thread that writes.
//!
//! A log collector that stops reading fills the pipe, and a plain write would then stop a data thread and every request on it.
//! So lines go through a bounded queue; when it is full a line is given up and counted.
//!
//! Waking the thread for each line takes longer than the rest of logging it, on a core that serves requests meanwhile.
//! So the thread rests when it has written all lines: lines that arrive meanwhile are written together, and later ones
//! at once.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::telemetry::process_counts::count_dropped_line;

/// Lines that wait to be written: at about 400 bytes a line, some 3 MiB when standard error is not read.
const LINES_MAX: usize = 8_192;

/// How long the thread rests: few enough lines come meanwhile, some hundreds where tens of thousands come in a second.
const REST: Duration = Duration::from_millis(5);

/// The most bytes of one write, if no line is longer: the kernel never mixes so many with the bytes that another
/// process writes to the same pipe, such as our successor.
const WRITE_BYTES: usize = 4_096;

enum Message {
    Line(Vec<u8>),
    Flush(Sender<()>),
}

/// The end of the queue that takes lines; never waits.
#[derive(Clone)]
pub(super) struct LineWriter(Arc<Queue>);

struct Queue {
    /// Bounded by the count of lines: a channel with a bound of its own keeps room for all of them, a quarter of a megabyte, from the start.
    messages: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    writer: Thread,
}

impl LineWriter {
    /// Starts the thread that writes to `out`.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (messages, receiver) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let lines = Lines { messages: receiver, waiting: Arc::clone(&waiting) };
        let writer = std::thread::Builder::new().name("ojs-log".to_owned()).spawn(move || write_all(&lines, out))?;
        Ok(Self(Arc::new(Queue { messages, waiting, writer: writer.thread().clone() })))
    }

    /// Waits until everything before this call is written, at most `wait`.
    pub(super) fn flush(&self, wait: Duration) {
        let (done, written) = channel();
        // It comes behind the lines, and needs no place among them: few wait for the last line.
        if self.0.messages.send(Message::Flush(done)).is_ok() {
            self.0.writer.unpark();
            let _ = written.recv_timeout(wait);
        }
    }
}

/// The end of the queue that lines are taken from.
struct Lines {
    messages: Receiver<Message>,
    waiting: Arc<AtomicUsize>,
}

impl Lines {
    /// The next message, waiting for one; `None` once all senders are closed.
    fn next(&self) -> Option<Message> {
        self.messages.recv().ok().map(|message| self.taken(message))
    }

    /// The next message that is there.
    fn next_at_hand(&self) -> Option<Message> {
        self.messages.try_recv().ok().map(|message| self.taken(message))
    }

    fn taken(&self, message: Message) -> Message {
        if let Message::Line(_) = message {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        message
    }
}

fn write_all(messages: &Lines, mut out: impl Write) {
    let mut lines = Vec::with_capacity(WRITE_BYTES);
    while let Some(first) = messages.next() {
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
                    let _ = done.send(());
                }
            }
            next = messages.next_at_hand().or_else(|| {
                write_out(&mut lines, &mut out);
                // As many may have come while the reader let it wait as there is room for.
                messages.next_at_hand()
            });
        }
        // Shorter when a thread waits for the last line, or by a spurious wake-up.
        std::thread::park_timeout(REST);
    }
}

/// Writes these whole lines, and forgets them.
fn write_out(lines: &mut Vec<u8>, out: &mut impl Write) {
    if !lines.is_empty() {
        // With a closed standard error there is no place to report this.
        let _ = out.write_all(lines);
        lines.clear();
    }
}

impl Write for LineWriter {
    /// Takes one whole line: the formatter writes each event at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Queue { messages, waiting, .. } = &*self.0;
        let has_room = waiting.fetch_add(1, Ordering::Relaxed) < LINES_MAX;
        if !has_room || messages.send(Message::Line(line.to_vec())).is_err() {
            waiting.fetch_sub(1, Ordering::Relaxed);
            count_dropped_line();
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
