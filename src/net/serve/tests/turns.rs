//! Many clients that send at once.

use super::*;

const CLIENTS: usize = 100;

/// Connections on which a request was served already, so that each awaits its next one.
async fn served(fixture: &Fixture) -> Vec<TcpStream> {
    let mut sockets = Vec::new();
    for _ in 0..CLIENTS {
        let mut socket = fixture.connect().await;
        socket.write_all(JOB.as_bytes()).await.unwrap();
        read_until(&mut socket, "hello]").await;
        sockets.push(socket);
    }
    fixture.seen.borrow_mut().clear();
    sockets
}

/// Sends on all of them before anybody can read.
fn send_at_once(sockets: &[TcpStream], path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    for socket in sockets {
        assert_eq!(socket.try_write(request.as_bytes()).unwrap(), request.len());
    }
}

#[test]
fn what_is_under_way_goes_on_before_new_requests_are_read() {
    run(async {
        let fixture = Fixture::start(Limits { client_connections: CLIENTS, ..limits() });
        let mut sockets = served(&fixture).await;
        send_at_once(&sockets, "/brief");
        for socket in &mut sockets {
            assert_eq!(status(&read_until(socket, "/brief ]").await), "200");
        }
        let (mut open, mut most) = (0_usize, 0);
        for step in fixture.seen() {
            open = if step == "begun" { open + 1 } else { open - 1 };
            most = most.max(open);
        }
        assert!((2..=CLIENTS / 2).contains(&most), "{most} of {CLIENTS} at once");
    });
}

#[test]
fn calls_that_wait_for_a_region_hold_up_nobody() {
    run(async {
        let fixture = Fixture::start(Limits { client_connections: CLIENTS, ..limits() });
        let mut sockets = served(&fixture).await;
        send_at_once(&sockets, "/long");
        while fixture.seen().len() < CLIENTS {
            tokio::task::yield_now().await;
        }
        fixture.go.notify_waiters();
        for socket in &mut sockets {
            assert_eq!(status(&read_until(socket, "/long ]").await), "200");
        }
    });
}
