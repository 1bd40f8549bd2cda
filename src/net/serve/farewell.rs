//! The end of a connection: the last word is said, and said so that it arrives.
//!
//! A socket that is closed with unread bytes resets the connection, and the reset destroys an answer on its way: Ruby's
//! client then repeats its POST. So our side is closed first, and the client's further bytes are read for a while.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::net::body_scheduler::Turns;
use crate::net::guard::{End, Leftover};
use crate::net::refused::Refused;
use crate::net::socket::Socket;

/// How long a client may take to read its last answer and to close.
const LINGER: Duration = Duration::from_secs(2);
/// Connections over the bound that get an answer at the same time; more are closed without one, because each holds a
/// descriptor.
const BUSY_MAX: usize = 64;

/// Ends a connection that hyper is done with; `cut` means that its last answer is incomplete.
pub(super) async fn say(leftover: Leftover, cut: bool, document: &Rc<dyn Fn(Refused) -> Bytes>) {
    let Leftover { socket, end, told } = leftover;
    match end {
        _ if cut => socket.reset_on_close(),
        Some(End::Refused(refused)) if told => linger(socket, &document(refused)).await,
        Some(End::Closed | End::Idle | End::Failed(_)) => {}
        Some(End::Refused(_) | End::Resting(_)) | None => linger(socket, &[]).await,
    }
}

/// Answers a client over the bound, without delaying the others.
pub(super) fn busy(socket: Socket, document: &Rc<dyn Fn(Refused) -> Bytes>) {
    thread_local! {
        static SAYING: Rc<Cell<usize>> = Rc::default();
    }
    let saying = SAYING.with(Rc::clone);
    if saying.get() >= BUSY_MAX {
        return;
    }
    saying.set(saying.get() + 1);
    let document = document(Refused::Busy);
    drop(tokio::task::spawn_local(async move {
        linger(socket, &document).await;
        saying.set(saying.get() - 1);
    }));
}

/// Says the last word, closes our side, and reads on until the client closes its own.
async fn linger(mut socket: Socket, word: &[u8]) {
    let farewell = async {
        socket.write_all(word).await?;
        socket.shutdown().await?;
        let mut unread = [0; 4096];
        let mut turns = Turns::default();
        loop {
            // Many that send on and on would take all of the thread's time between them.
            poll_fn(|cx| turns.poll(cx)).await;
            match socket.read(&mut unread).await? {
                0 => return Ok::<_, std::io::Error>(()),
                read => turns.moved(read),
            }
        }
    };
    // A client that fails or dawdles now has nothing more to gain.
    let _ = tokio::time::timeout(LINGER, farewell).await;
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use socket2::SockRef;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;
    use crate::net::raw_tcp::RawTcp;

    const PEERS: usize = 4;
    const BYTES: usize = 160 << 20;
    /// What a turn moves, and a little.
    const TURN_BYTES: usize = 36 * 1024;
    /// What may be on its way to one socket, in the system's buffers at both ends, and what moves before a body takes turns.
    const ON_THE_WAY_BYTES: usize = 8 << 20;
    const BUFFER_BYTES: usize = 256 * 1024;

    #[tokio::test]
    async fn clients_that_send_on_after_the_last_word_leave_others_their_turn() {
        let sent = Arc::new(AtomicUsize::new(0));
        let mut calls = 0;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        LocalSet::new()
            .run_until(async {
                let mut farewells = Vec::new();
                for _ in 0..PEERS {
                    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap().into_std().unwrap();
                    client.set_nonblocking(false).unwrap();
                    let (socket, _) = listener.accept().await.unwrap();
                    // Set, the system does not let them grow.
                    SockRef::from(&client).set_send_buffer_size(BUFFER_BYTES).unwrap();
                    SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES).unwrap();
                    flood(client, Arc::clone(&sent));
                    farewells
                        .push(spawn_local(async move { linger(Socket::Tcp(RawTcp::new(socket, None)), b"bye").await }));
                }
                // Each time everybody else may do one thing. A machine that is too slow for so many bytes comes to the end of the time.
                while sent.load(Relaxed) < BYTES && farewells.iter().any(|farewell| !farewell.is_finished()) {
                    yield_now().await;
                    calls += 1;
                }
            })
            .await;
        let bytes = sent.load(Relaxed);
        assert!(bytes < calls * TURN_BYTES + PEERS * ON_THE_WAY_BYTES, "{bytes} bytes between {calls} calls");
    }

    fn flood(mut client: std::net::TcpStream, sent: Arc<AtomicUsize>) {
        std::thread::spawn(move || {
            let piece = [b'x'; 64 * 1024];
            while client.write_all(&piece).is_ok() {
                sent.fetch_add(piece.len(), Relaxed);
            }
        });
    }
}
