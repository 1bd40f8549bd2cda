use std::future::Future;
use std::io::{ErrorKind, IoSlice, Read as _};
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::*;
use crate::net::raw_tcp::RawTcp;

/// Longer than any test takes: what hangs fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test on a thread on which somebody sends.
fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        drop(spawn_local(keep_sending()));
        yield_now().await;
        tokio::time::timeout(PATIENCE, test).await.expect("the test hangs")
    })
}

/// A socket that goes by the outbox, and its peer, which does not and reads without the runtime.
async fn pair() -> (RawTcp, std::net::TcpStream) {
    pair_with(None).await
}

async fn pair_with(evidence: Option<Arc<Evidence>>) -> (RawTcp, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let peer = listener.accept().await.unwrap().0.into_std().unwrap();
    peer.set_nonblocking(false).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    (RawTcp::new(socket, evidence), peer)
}

fn has_nothing(mut peer: &std::net::TcpStream) -> bool {
    peer.set_nonblocking(true).unwrap();
    let read = peer.read(&mut [0; 1]);
    peer.set_nonblocking(false).unwrap();
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn read_exactly(mut peer: &std::net::TcpStream, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    peer.read_exact(&mut read).unwrap();
    read
}

/// Writes short messages until no more is taken.
async fn fill(socket: &mut RawTcp) {
    let message = [b'x'; MESSAGE_BYTES_MAX];
    loop {
        let taken = poll_fn(|cx| Poll::Ready(Pin::new(&mut *socket).poll_write(cx, &message).is_ready())).await;
        if !taken {
            return;
        }
        yield_now().await;
    }
}

#[test]
fn short_messages_wait_for_what_is_ready_and_go_out_in_their_order() {
    run(async {
        let (mut one, peer_of_one) = pair().await;
        let (mut two, peer_of_two) = pair().await;
        let seen = peer_of_one.try_clone().unwrap();
        let ready = spawn_local(async move { has_nothing(&seen) });
        one.write_all(b"a").await.unwrap();
        two.write_all(b"b").await.unwrap();
        one.write_all(b"c").await.unwrap();
        one.write_all(b"d").await.unwrap();
        assert!(has_nothing(&peer_of_one) && has_nothing(&peer_of_two));
        assert!(ready.await.unwrap(), "sent before a task that was ready");
        yield_now().await;
        assert_eq!(read_exactly(&peer_of_one, 3), b"acd");
        assert_eq!(read_exactly(&peer_of_two, 1), b"b");
    });
}

#[test]
fn what_is_long_or_too_much_to_wait_is_sent_at_once_and_in_order() {
    run(async {
        // Nobody else has a turn between writing and reading, as nothing is awaited that is not ready.
        let (mut socket, peer) = pair().await;
        for _ in 0..MESSAGES_MAX - 1 {
            socket.write_all(b"x").await.unwrap();
        }
        assert!(has_nothing(&peer));
        socket.write_all(b"y").await.unwrap();
        assert!(read_exactly(&peer, MESSAGES_MAX).ends_with(b"xy"));
        for _ in 0..BYTES_MAX / MESSAGE_BYTES_MAX {
            socket.write_all(&[b'z'; MESSAGE_BYTES_MAX]).await.unwrap();
        }
        assert_eq!(read_exactly(&peer, BYTES_MAX).len(), BYTES_MAX);
        socket.write_all(b"short").await.unwrap();
        socket.write_all(&[b'l'; MESSAGE_BYTES_MAX + 1]).await.unwrap();
        assert!(read_exactly(&peer, "short".len() + MESSAGE_BYTES_MAX + 1).starts_with(b"shortl"));
    });
}

#[test]
fn everything_arrives_in_order_however_slowly_it_is_read() {
    run(async {
        let (mut socket, mut peer) = pair().await;
        // More than the system takes at once, in messages that go by the outbox and others that do not.
        let sent: Vec<u8> = (0..8_u32 << 20).map(|place| place.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let expected = sent.clone();
        let writing = spawn_local(async move {
            for (place, part) in sent.chunks(3000).enumerate() {
                match place % 5 {
                    0 => {
                        let pieces = [IoSlice::new(&part[..part.len() / 3]), IoSlice::new(&part[part.len() / 3..])];
                        let taken = socket.write_vectored(&pieces).await.unwrap();
                        socket.write_all(&part[taken..]).await.unwrap();
                    }
                    1 => {
                        socket.flush().await.unwrap();
                        socket.write_all(part).await.unwrap();
                    }
                    _ => socket.write_all(part).await.unwrap(),
                }
            }
            socket.shutdown().await.unwrap();
        });
        let reading = tokio::task::spawn_blocking(move || {
            let (mut received, mut part) = (Vec::new(), [0; 5000]);
            loop {
                match peer.read(&mut part).unwrap() {
                    0 => return received,
                    bytes => received.extend_from_slice(&part[..bytes]),
                }
            }
        });
        writing.await.unwrap();
        assert!(reading.await.unwrap() == expected);
    });
}

#[test]
fn a_socket_that_is_dropped_or_shut_down_says_all_before_it_ends() {
    run(async {
        for shut_down in [false, true] {
            let (mut socket, mut peer) = pair().await;
            socket.write_all(b"the last word").await.unwrap();
            if shut_down {
                socket.shutdown().await.unwrap();
            } else {
                drop(socket);
                yield_now().await;
            }
            let mut said = Vec::new();
            peer.read_to_end(&mut said).unwrap();
            assert_eq!(said, b"the last word");
        }
    });
}

#[test]
fn a_request_that_is_given_up_before_all_was_taken_does_not_end_cleanly() {
    run(async {
        let (mut socket, mut peer) = pair_with(Some(Arc::default())).await;
        fill(&mut socket).await;
        assert!(!poll_fn(|cx| Poll::Ready(Pin::new(&mut socket).poll_flush(cx).is_ready())).await);
        drop(socket);
        let reading = tokio::task::spawn_blocking(move || peer.read_to_end(&mut Vec::new()));
        assert_eq!(reading.await.unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn an_answer_that_nobody_waits_to_finish_is_read_to_its_end_by_a_slow_client() {
    run(async {
        let (mut socket, mut peer) = pair().await;
        fill(&mut socket).await;
        drop(socket);
        let read = tokio::task::spawn_blocking(move || peer.read_to_end(&mut Vec::new())).await.unwrap();
        assert!(read.unwrap().is_multiple_of(MESSAGE_BYTES_MAX));
    });
}

#[test]
fn a_socket_whose_peer_has_gone_says_so_to_who_writes_on() {
    run(async {
        let (mut socket, peer) = pair().await;
        fill(&mut socket).await;
        // Closed with bytes unread, it resets the connection.
        drop(peer);
        let error = loop {
            let written = socket.write_all(b"into the void").await;
            yield_now().await;
            if let Err(error) = written.and(socket.flush().await) {
                break error;
            }
        };
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
        socket.shutdown().await.unwrap();
    });
}

#[test]
fn what_is_in_the_outbox_when_its_thread_ends_is_sent_and_what_comes_later_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = LocalSet::new();
    let (mut socket, peer) = local.block_on(&runtime, async {
        let (mut socket, peer) = pair().await;
        let sending = spawn_local(keep_sending());
        yield_now().await;
        socket.write_all(b"before").await.unwrap();
        assert!(has_nothing(&peer));
        sending.abort();
        let _ = sending.await;
        (socket, peer)
    });
    assert_eq!(read_exactly(&peer, 6), b"before");
    local.block_on(&runtime, async { socket.write_all(b"after").await.unwrap() });
    assert_eq!(read_exactly(&peer, 5), b"after");
}
