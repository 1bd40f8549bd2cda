//! Requests whose bodies come whole with their heads, and what only looks like one.

use super::*;

#[test]
fn every_request_has_its_own_body_however_the_bytes_are_cut() {
    const REQUESTS: [(&str, &str); 5] = [
        ("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-A: 5\r\n\r\nfirst", "POST /1 first"),
        ("POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: \t12 \r\n\r\nsecond, long", "POST /2 second, long"),
        ("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /3"),
        ("POST /4 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfourth\r\n0\r\n\r\n", "POST /4 fourth"),
        ("POST /5 HTTP/1.1\r\nContent-Length: 5\r\nHost: a\r\n\r\nfifth", "POST /5 fifth"),
    ];
    let bytes = REQUESTS.map(|(request, _)| request).concat();
    let ends: Vec<usize> = REQUESTS
        .iter()
        .scan(0, |end, (request, _)| {
            *end += request.len();
            Some(*end)
        })
        .collect();
    run(async {
        // Each way to cut between the messages, and at two more places.
        for mask in 0..16_u32 {
            for more in [0, 60, 75, 110, 150, 210] {
                let fixture = Fixture::start(limits());
                let mut socket = fixture.connect().await;
                let between = (0..4).filter(|end| mask & (1 << end) != 0).map(|end| ends[end]);
                let mut cuts: Vec<usize> = between.chain([0, more, more / 2, bytes.len()]).collect();
                cuts.sort_unstable();
                for slice in cuts.windows(2) {
                    socket.write_all(&bytes.as_bytes()[slice[0]..slice[1]]).await.unwrap();
                    for _ in 0..(mask + 2) % 5 {
                        tokio::task::yield_now().await;
                    }
                }
                read_until(&mut socket, "[POST /5 fifth]").await;
                assert_eq!(fixture.seen(), REQUESTS.map(|(_, seen)| seen), "{cuts:?}");
            }
        }
    });
}

#[test]
fn a_body_that_nobody_read_is_not_that_of_the_next_request() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        for path in ["/early", "/2", "/early", "/4"] {
            let body = &path[1..];
            let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            socket.write_all(request.as_bytes()).await.unwrap();
            read_until(&mut socket, if path == "/early" { "\r\n\r\nearly" } else { "]" }).await;
        }
        socket.write_all(b"GET /5 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        read_until(&mut socket, "[GET /5 ]").await;
        assert_eq!(fixture.seen(), ["POST /2 2", "POST /4 4", "GET /5"]);
    });
}

#[test]
fn what_comes_before_an_upgrade_is_answered_reaches_the_tunnel_as_it_is() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        let upgrade = "GET /late-tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        socket.write_all(upgrade.as_bytes()).await.unwrap();
        while fixture.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        socket.write_all(JOB.as_bytes()).await.unwrap();
        // Read by now, because it is looked whether the client has gone.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        fixture.go.notify_one();
        assert_eq!(status(&read_until(&mut socket, "\r\n\r\n").await), "101");
        assert_eq!(read_all(&mut socket).await, JOB);
    });
}
