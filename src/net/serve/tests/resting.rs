//! Connections that pause.

use super::*;

const SOON: Duration = Duration::from_millis(1);

#[test]
fn a_client_that_pauses_is_heard_again_byte_for_byte() {
    run(async {
        let fixture = Fixture::resting_after(limits(), SOON);
        let mut socket = fixture.connect().await;
        // The offer of an upgrade makes hyper keep one in mind, and an empty line may come before a request.
        let offer = "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        for round in 0..3 {
            for (request, end) in [(offer, "[GET /1 ]"), (JOB, "[POST /jobs hello]")] {
                socket.write_all(request.as_bytes()).await.unwrap();
                assert_eq!(status(&read_until(&mut socket, end).await), "200");
                fixture.rest().await;
                assert_eq!(fixture.permits.open(), 1, "round {round}");
            }
        }
        // A head in two parts, two requests at once.
        socket.write_all(&JOB.as_bytes()[..3]).await.unwrap();
        tokio::task::yield_now().await;
        socket.write_all(&JOB.as_bytes()[3..]).await.unwrap();
        socket.write_all(offer.as_bytes()).await.unwrap();
        let answers = read_until(&mut socket, "[GET /1 ]").await;
        assert!(answers.contains("[POST /jobs hello]"), "{answers}");
        assert_eq!(fixture.seen().len(), 8);
    });
}

#[test]
fn a_client_that_pauses_may_leave_or_be_refused_as_any_other() {
    run(async {
        let fixture = Fixture::resting_after(limits(), SOON);
        for (then, expected) in [("", ""), ("G", "400"), ("\x16\x03\x01\x02\x00", "400"), ("GET / HTTP/1.1\n", "400")] {
            let mut socket = fixture.connect().await;
            socket.write_all(JOB.as_bytes()).await.unwrap();
            read_until(&mut socket, "hello]").await;
            fixture.rest().await;
            socket.write_all(then.as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
            assert_eq!(status(&read_all(&mut socket).await), expected, "{then:?}");
        }
        while fixture.permits.open() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_pause_that_is_too_long_ends_the_connection() {
    run(async {
        let fixture = Fixture::resting_after(Limits { idle_timeout: 50 * SOON, ..limits() }, SOON);
        let mut used = fixture.connect().await;
        used.write_all(JOB.as_bytes()).await.unwrap();
        read_until(&mut used, "hello]").await;
        for mut socket in [used, fixture.connect().await] {
            assert_eq!(read_all(&mut socket).await, "");
        }
    });
}

#[test]
fn nothing_that_is_under_way_counts_as_a_pause() {
    run(async {
        let fixture = Fixture::resting_after(limits(), SOON);
        let mut waiting = fixture.connect().await;
        waiting.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        // An empty line may come before a request, but only one.
        let mut begun = fixture.connect().await;
        begun.write_all(b"\r\n").await.unwrap();
        let mut other = fixture.connect().await;
        for _ in 0..3 {
            other.write_all(JOB.as_bytes()).await.unwrap();
            read_until(&mut other, "hello]").await;
            fixture.rest().await;
        }
        fixture.go.notify_one();
        assert_eq!(status(&read_until(&mut waiting, "/wait ]").await), "200");
        begun.write_all(b"\r\n").await.unwrap();
        assert_eq!(status(&read_all(&mut begun).await), "400");
    });
}
