//! Answers that flow on, on a thread that sends short messages together.

use super::*;
use crate::net::keep_sending;

/// A body without an end that has its next short piece whenever it is asked a second time.
pub(super) struct Flow(bool);

impl Flow {
    pub(super) const fn new() -> Self {
        Self(false)
    }
}

impl Body for Flow {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0 = !self.0;
        if self.0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"more")))))
    }
}

#[test]
fn an_answer_that_flows_on_ends_when_its_client_has_gone() {
    run(async {
        drop(tokio::task::spawn_local(keep_sending()));
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        socket.write_all(b"GET /flow HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        read_until(&mut socket, "more").await;
        // Closed with bytes unread, it resets the connection.
        drop(socket);
        while fixture.permits.open() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_client_that_reads_nothing_of_a_flowing_answer_is_given_up() {
    run(async {
        drop(tokio::task::spawn_local(keep_sending()));
        let fixture = Fixture::start(Limits { stream_idle_timeout: Duration::from_millis(50), ..limits() });
        let mut socket = fixture.connect().await;
        socket.write_all(b"GET /flow HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        read_until(&mut socket, "more").await;
        while fixture.permits.open() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(socket.read_to_end(&mut Vec::new()).await.is_err(), "it ended cleanly");
    });
}
