//! The guard between a client's socket and hyper: it passes no bytes that could be read two ways.
//!
//! Bytes are read straight into hyper's buffer and judged there by [`Framing`]; only an incomplete head is held back,
//! so that hyper sees whole, verified heads and never has a reason for an answer of its own. The end of a connection (a
//! refusal, a timer, the client) reaches hyper as the end of the stream, once hyper awaits a request and has written
//! all its answers; inside a body it is an error. Afterwards the socket goes back to `serve`, which closes it with
//! `farewell`.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::{Framing, Place, Violation};
use super::permit::{Charge, Permit};
use super::refused::Refused;
use super::socket::Socket;
use super::waiting::Waiting;
use timers::Pause;

mod leftover;
mod shared;
mod stall;
mod timers;

pub(super) use leftover::{End, Leftover};
use shared::UNREAD_BYTES;
pub use shared::{ClientSide, Room};
pub(super) use shared::{Phase, Shared};
pub(super) use stall::Stall;
pub(super) use timers::Timers;

/// How much is read at once while a head is incomplete.
const HELD_READ_BYTES: usize = 4096;

/// The memory of a connection in hyper while a request is incomplete, besides the bytes themselves.
const CONNECTION_BYTES: usize = 24 * 1024;
/// The size of hyper's read buffer, as far as it grows with a long body.
const BODY_BYTES: usize = 128 * 1024;
/// A client's socket, read strictly.
#[derive(Debug)]
pub(super) struct Guard {
    /// Present until the guard is dropped.
    socket: Option<Socket>,
    waiting: Waiting,
    shared: Arc<Shared>,
    framing: Framing,
    timers: Timers,
    stall: Stall,
    /// Bytes that were read and not given to hyper: an incomplete head, or the bytes behind it that did not fit hyper's
    /// buffer.
    held: Vec<u8>,
    /// So many of the held bytes may be shown.
    released: usize,
    end: Option<End>,
    told: bool,
    /// The memory of an incomplete head or body.
    incoming: Charge,
    /// So many bytes of the current body have been read.
    body_read: usize,
    /// The memory of an answer that the client does not read.
    outgoing: Charge,
    /// Held here too, because a tunnel outlives the task that served its request.
    _permit: Arc<Permit>,
}

impl Guard {
    pub(super) fn new(
        socket: Socket,
        permit: Arc<Permit>,
        shared: Arc<Shared>,
        framing: Framing,
        (timers, stall): (Timers, Stall),
    ) -> Self {
        Self {
            socket: Some(socket),
            waiting: Waiting::default(),
            shared,
            framing,
            timers,
            stall,
            held: Vec::new(),
            released: 0,
            end: None,
            told: false,
            incoming: permit.incoming(),
            body_read: 0,
            outgoing: permit.outgoing(),
            _permit: permit,
        }
    }

    fn socket(&mut self) -> io::Result<Pin<&mut Socket>> {
        self.socket.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn poll_socket(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Some(socket) => self.waiting.poll_read(socket, cx, buf),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// A write's result; an error when the client has taken nothing for too long. Tunnels may rest.
    fn unless_stalled(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() && self.outgoing.is_nothing() {
            self.stall.took();
            return written;
        }
        let is_tunnel = self.shared.is_tunnel();
        let is_unread = written.is_pending() && !is_tunnel && !self.shared.has_room();
        let fits = self.outgoing.set(if is_unread { UNREAD_BYTES } else { 0 });
        if is_tunnel || fits && self.stall.poll(cx, written.is_pending()).is_pending() {
            return written;
        }
        if let Some(socket) = &self.socket {
            socket.reset_on_close();
        }
        self.end = Some(End::Failed(io::ErrorKind::TimedOut));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Shows held bytes, as many as are released and fit.
    fn show_held(&mut self, buf: &mut ReadBuf<'_>) {
        let shown = self.released.min(buf.remaining());
        buf.put_slice(&self.held[..shown]);
        self.held.drain(..shown);
        self.released -= shown;
    }

    /// Reads into hyper's buffer; bytes that hyper must not see yet are taken out again.
    fn poll_direct(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(self.poll_socket(cx, buf))?;
        let new = &buf.filled()[before..];
        if new.is_empty() {
            self.closed();
            return Poll::Ready(Ok(()));
        }
        self.timers.head_came();
        let length = new.len();
        let settled = match self.framing.feed(new) {
            Ok(settled) => {
                self.held.extend_from_slice(&new[settled..]);
                self.count(length);
                settled
            }
            Err(breach) => {
                self.end = Some(End::Refused(Refused::Malformed(breach.violation)));
                breach.settled
            }
        };
        buf.set_filled(before + settled);
        if let Some(alone) = self.framing.alone(length) {
            // Bytes that arrive while a request is open may not be HTTP, after an upgrade: they are left as they are.
            self.shared.beside().put(buf, before, alone, self.shared.is_in(Phase::Idle));
        }
        Poll::Ready(Ok(()))
    }

    /// Reads on behind an incomplete head.
    fn poll_behind_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; HELD_READ_BYTES];
        let mut buf = ReadBuf::new(&mut bytes);
        ready!(self.poll_socket(cx, &mut buf))?;
        let new = buf.filled();
        if new.is_empty() {
            self.closed();
            return Poll::Ready(Ok(()));
        }
        let head_bytes = self.held.len();
        let length = new.len();
        self.held.extend_from_slice(new);
        let settled = match self.framing.feed(new) {
            Ok(settled) => {
                self.count(length);
                settled
            }
            Err(breach) => {
                self.end = Some(End::Refused(Refused::Malformed(breach.violation)));
                self.held.truncate(head_bytes + breach.settled);
                breach.settled
            }
        };
        if settled > 0 {
            self.released = head_bytes + settled;
            self.timers.head_came();
        }
        Poll::Ready(Ok(()))
    }

    /// Counts the held bytes of an incomplete message, of which `length` have just arrived, and refuses it where there
    /// is no room.
    fn count(&mut self, length: usize) {
        let bytes = match self.framing.place() {
            Place::Between | Place::Tunnel => {
                self.body_read = 0;
                0
            }
            Place::Head => CONNECTION_BYTES + self.held.capacity(),
            Place::Body => {
                self.body_read = self.body_read.saturating_add(length);
                CONNECTION_BYTES + self.body_read.min(BODY_BYTES)
            }
        };
        if !self.incoming.set(bytes) {
            self.end = Some(End::Refused(Refused::Malformed(Violation::NoRoom)));
        }
    }

    /// The client closed its side.
    fn closed(&mut self) {
        self.shared.client_disconnected();
        self.end = Some(match self.framing.place() {
            Place::Head => End::Refused(Refused::Malformed(Violation::HeadTruncated)),
            Place::Between | Place::Body | Place::Tunnel => End::Closed,
        });
    }

    /// Reports the end of the stream to hyper, once it is ready for it.
    fn poll_end(&mut self) -> Poll<io::Result<()>> {
        let place = self.framing.place();
        let in_message = matches!(place, Place::Body | Place::Tunnel);
        // While a request is open the end would make hyper drop it: an enqueue on the wire is finished all the same.
        if !in_message && !self.shared.is_in(Phase::Idle) {
            return Poll::Pending;
        }
        // Inside a body the request fails and is answered by the service; elsewhere the guard answers.
        self.told = !in_message;
        match &self.end {
            Some(End::Refused(Refused::Malformed(violation))) if in_message => {
                self.shared.breach();
                Poll::Ready(Err((*violation).into()))
            }
            Some(End::Failed(kind)) => Poll::Ready(Err((*kind).into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The deadlines of a connection that waits for its client.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.framing.place() {
            Place::Head => {
                ready!(self.timers.poll_head(cx));
                self.end = Some(End::Refused(Refused::HeadTimeout));
            }
            Place::Between => {
                let busy = !self.shared.is_in(Phase::Idle);
                let may_rest = self.framing.is_untouched() && self.held.is_empty();
                self.end = Some(match ready!(self.timers.poll_idle(cx, busy, may_rest)) {
                    Pause::Rest(since) => End::Resting(since),
                    Pause::TooLong => End::Idle,
                });
            }
            Place::Body | Place::Tunnel => return Poll::Pending,
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Guard {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if this.shared.is_tunnel() && this.framing.place() != Place::Tunnel {
            this.framing.tunnel();
            this.released = this.held.len();
        }
        loop {
            if this.released > 0 {
                this.show_held(buf);
                return Poll::Ready(Ok(()));
            }
            if this.end.is_some() {
                return this.poll_end();
            }
            let read = if this.held.is_empty() { this.poll_direct(cx, buf) } else { this.poll_behind_held(cx) };
            match read {
                Poll::Ready(Ok(())) if buf.filled().len() > before => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    this.shared.client_disconnected();
                    this.end = Some(End::Failed(error.kind()));
                }
                Poll::Pending => ready!(this.poll_timers(cx)),
            }
        }
    }
}

impl AsyncWrite for Guard {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.socket()?.poll_write(cx, buf);
        this.unless_stalled(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.socket()?.poll_write_vectored(cx, bufs);
        this.unless_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = this.socket()?.poll_flush(cx).map_ok(|()| 0);
        ready!(this.unless_stalled(cx, flushed))?;
        // hyper flushes the socket only when its own buffer is empty: a complete answer is now on its way.
        if this.shared.is_in(Phase::Answered) {
            this.shared.enter(Phase::Idle);
            this.timers.idle_begins();
            // hyper reads again only when it is woken, and there may be nothing left that would.
            if this.end.is_some() || this.poll_timers(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.shared.is_tunnel() {
            return this.socket()?.poll_shutdown(cx);
        }
        // The farewell is `serve`'s: there may be a refusal to say first.
        Poll::Ready(Ok(()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take().filter(|_| !self.shared.is_tunnel()) {
            self.shared.leave(Leftover { socket, end: self.end.take(), told: self.told });
        }
    }
}
