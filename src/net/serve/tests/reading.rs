//! What is read, and what is refused.

use super::*;

#[test]
fn requests_that_could_be_read_two_ways_are_answered_and_never_served() {
    run(async {
        let fixture = Fixture::start(limits());
        let long = format!("x: {}\r\n", "a".repeat(20_000));
        for (headers, body, expected) in [
            ("Content-Length: 18\r\nTransfer-Encoding: chunked\r\n", CHUNKED, "400"),
            ("Transfer-Encoding: chunked\r\nContent-Length: 18\r\n", CHUNKED, "400"),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", "hello", "400"),
            ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello", "400"),
            ("Content-Length: 5, 5\r\n", "hello", "400"),
            ("Content-Length: +5\r\n", "hello", "400"),
            ("x: a\r\n b\r\nContent-Length: 5\r\n", "hello", "400"),
            ("x: a\nContent-Length: 5\r\n", "hello", "400"),
            ("Content-Length: 5\n\n", "hello", "400"),
            ("Content-Length : 5\r\n", "hello", "400"),
            ("Host: other\r\n", "", "400"),
            ("Transfer-Encoding: gzip, chunked\r\n", CHUNKED, "400"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKED, "400"),
            (&long, "", "431"),
            (&"x: y\r\n".repeat(30), "", "431"),
            ("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "+5\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", " 5\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "5;ext\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "5\nhello\n0\n\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "00000000000000005\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nx y\r\n\r\n", "400"),
        ] {
            let request = format!("POST /jobs HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}");
            let answer = fixture.ask(request.as_bytes()).await;
            assert_eq!(status(&answer), expected, "{request:?} was answered {answer:?}");
            assert!(answer.contains("{\"error\":"), "{request:?} was answered {answer:?}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?} was answered {answer:?}");
            assert_eq!(fixture.seen(), [""; 0], "{request:?} was served");
        }
    });
}

#[test]
fn other_protocols_and_versions_are_answered() {
    run(async {
        let fixture = Fixture::start(limits());
        for (bytes, expected) in [
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
            ("\x16\x03\x01\x02\x00", "400"),
            ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "400"),
            ("GET https://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\n\r\n", "400"),
            (&format!("GET /{} HTTP/1.1\r\n", "a".repeat(20_000)), "414"),
        ] {
            assert_eq!(status(&fixture.ask(bytes.as_bytes()).await), expected, "{bytes:?}");
        }
        assert_eq!(fixture.seen(), [""; 0]);
    });
}

#[test]
fn answers_to_earlier_requests_come_before_a_refusal() {
    run(async {
        let fixture = Fixture::start(limits());
        // The h2c offer makes hyper keep an upgrade in mind, which must not swallow the refusal.
        let offer = "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        let answer = fixture.ask(format!("{offer}{JOB}GET /3 HTTP/1.1\nHost: a\r\n\r\n").as_bytes()).await;
        let places: Vec<_> = ["[GET /1 ]", "[POST /jobs hello]", "HTTP/1.1 400"].map(|part| answer.find(part)).into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{answer}");
        assert_eq!(fixture.seen(), ["GET /1", "POST /jobs hello"]);
    });
}

#[test]
fn a_refusal_waits_for_the_request_that_is_being_served() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        socket.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\nGARBAGE\n").await.unwrap();
        fixture.go.notify_one();
        let answer = read_all(&mut socket).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("HTTP/1.1 400"), "{answer}");
    });
}

#[test]
fn pipelined_requests_are_answered_in_order_however_they_are_cut() {
    run(async {
        let fixture = Fixture::start(limits());
        let get = "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
        let chunked = format!("POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKED}");
        let text = format!("\r\n{JOB}{get}\r\n{chunked}{get}");
        for cut in [1, 3, 50, 1000] {
            let mut socket = fixture.connect().await;
            socket.set_nodelay(true).unwrap();
            for part in text.as_bytes().chunks(cut) {
                socket.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            // A client that closes its sending side still gets its answers.
            socket.shutdown().await.unwrap();
            let answer = read_all(&mut socket).await;
            assert_eq!(answer.matches("HTTP/1.1 200").count(), 4, "{answer}");
            assert_eq!(fixture.seen.take(), ["POST /jobs hello", "GET /2", "POST /3 hello", "GET /2"], "cut by {cut}");
        }
    });
}

#[test]
fn h2c_offers_are_served_as_http_1_1_with_keep_alive() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        let offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n";
        for _ in 0..3 {
            let request = format!("POST /j HTTP/1.1\r\nHost: a\r\n{offer}Content-Length: 5\r\n\r\nhello");
            socket.write_all(request.as_bytes()).await.unwrap();
            let answer = read_until(&mut socket, "[POST /j hello]").await;
            assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("close"), "{answer}");
        }
    });
}

#[test]
fn a_large_head_in_many_pieces_is_served() {
    run(async {
        let fixture = Fixture::start(limits());
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "a".repeat(15_000));
        let mut socket = fixture.connect().await;
        socket.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(status(&read_until(&mut socket, "[GET / ]").await), "200");
        let (start, rest) = head.split_at(9_000);
        socket.write_all(start.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
        socket.write_all(rest.as_bytes()).await.unwrap();
        assert_eq!(status(&read_until(&mut socket, "[GET / ]").await), "200");
    });
}

#[test]
fn expect_100_continue_is_answered_before_the_body() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        let head = "POST /j HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(read_until(&mut socket, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        socket.write_all(b"hello").await.unwrap();
        read_until(&mut socket, "[POST /j hello]").await;
    });
}

#[test]
fn a_head_that_does_not_come_to_its_end_is_answered_408() {
    run(async {
        let fixture = Fixture::start(Limits { head_timeout: Duration::from_millis(50), ..limits() });
        let mut socket = fixture.connect().await;
        socket.write_all(JOB.as_bytes()).await.unwrap();
        read_until(&mut socket, "hello]").await;
        socket.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
        assert_eq!(status(&read_all(&mut socket).await), "408");
    });
}

#[test]
fn the_head_timeout_does_not_close_idle_connections() {
    run(async {
        let limits = Limits { head_timeout: Duration::ZERO, idle_timeout: Duration::from_millis(50), ..limits() };
        let fixture = Fixture::start(limits);
        assert_eq!(fixture.ask(b"").await, "", "an idle connection is closed without a word");
        let mut socket = fixture.connect().await;
        socket.write_all(JOB.as_bytes()).await.unwrap();
        let answer = read_all(&mut socket).await;
        assert!(answer.ends_with("hello]"), "answered, kept, and closed without a word: {answer}");
    });
}

#[test]
fn a_request_longer_than_the_idle_timeout_is_served_and_the_connection_idles_anew() {
    run(async {
        let fixture = Fixture::start(Limits { idle_timeout: Duration::from_millis(200), ..limits() });
        let mut socket = fixture.connect().await;
        socket.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        // A connection that only idles is closed meanwhile.
        assert_eq!(fixture.ask(b"").await, "");
        assert_eq!(fixture.ask(b"").await, "");
        fixture.go.notify_one();
        read_until(&mut socket, "[GET /wait ]").await;
        socket.write_all(JOB.as_bytes()).await.unwrap();
        assert!(read_all(&mut socket).await.ends_with("[POST /jobs hello]"));
    });
}

#[test]
fn unfinished_requests_that_there_is_no_memory_for_are_answered_503() {
    run(async {
        // One unfinished request has room, and a second one has not.
        let fixture = Fixture::start(Limits { memory: Some(40 * 1024), ..limits() });
        let mut first = fixture.connect().await;
        first.write_all(b"GET /first HTTP/1.1\r\nHost: ").await.unwrap();
        while fixture.permits.bytes() == 0 {
            tokio::task::yield_now().await;
        }
        let body = "POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nhel";
        for unfinished in ["GET /h HTTP/1.1\r\nHost: ", body] {
            let answer = fixture.ask(unfinished.as_bytes()).await;
            assert_eq!(status(&answer), "503", "{unfinished:?} was answered {answer:?}");
        }
        let whole = fixture.ask(b"GET /whole HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
        assert_eq!(status(&whole), "200", "what comes at once needs no room");
        first.write_all(b"localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        assert_eq!(status(&read_all(&mut first).await), "200");
        while fixture.permits.bytes() > 0 {
            tokio::task::yield_now().await;
        }
    });
}
