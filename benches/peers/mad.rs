//! A region that misbehaves as the words of a call tell it to.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::setpriority_process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How much the bomb expands to.
const BOMB_BYTES: usize = 256 << 20;
const LIST_BYTES: usize = 2 << 20;

/// Serves from a thread of its own until the process ends.
pub fn start() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let _ = setpriority_process(None, super::crowd::LAST);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            let (bomb, list) = (bomb(), list());
            let answers: &'static [Vec<u8>; 2] = Box::leak(Box::new([bomb, list]));
            loop {
                if let Ok((socket, _)) = listener.accept().await {
                    tokio::spawn(async move { drop(serve(socket, answers).await) });
                }
            }
        });
    });
    address
}

async fn serve(mut socket: TcpStream, [bomb, list]: &[Vec<u8>; 2]) -> std::io::Result<()> {
    loop {
        let mut request = Vec::new();
        while !is_whole(&request) {
            if socket.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let text = String::from_utf8_lossy(&request);
        let asks = |word: &str| text.contains(word);
        if asks("/ojs/v1/health") {
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}").await?;
        } else if asks("endless-head") {
            socket.write_all(b"HTTP/1.1 201 Created\r\n").await?;
            forever(&mut socket, b"x-padding: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n").await?;
        } else if asks("endless-interim") {
            forever(&mut socket, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        } else if asks("endless-body") {
            socket.write_all(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{\"\r\n").await?;
            forever(&mut socket, &[b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat()).await?;
        } else if asks("trickle") {
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await?;
            loop {
                socket.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        } else if asks("bomb") {
            socket.write_all(bomb).await?;
        } else {
            socket.write_all(list).await?;
        }
    }
}

async fn forever(socket: &mut TcpStream, piece: &[u8]) -> std::io::Result<()> {
    let many = piece.repeat(16 * 1024 / piece.len() + 1);
    loop {
        socket.write_all(&many).await?;
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn answer(headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A page of jobs.
fn list() -> Vec<u8> {
    let job = format!(
        r#"{{"id":"0190a2b4-7c1e-7000-8000-000000000000","type":"t","state":"available","args":["{}"]}}"#,
        "x".repeat(4000)
    );
    let jobs = vec![job; LIST_BYTES / 4096].join(",");
    answer("", format!(r#"{{"jobs":[{jobs}],"pagination":{{"total":1,"has_more":false}}}}"#).as_bytes())
}

/// A gzip member of nothing but zeros, without the checksum that only a reader who expands it would miss.
fn bomb() -> Vec<u8> {
    let mut body = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let (mut held, mut bits) = (0_u64, 0);
    let mut put = |code: u64, length: u32| {
        held |= code << bits;
        bits += length;
        while bits >= 8 {
            body.push((held & 0xff) as u8);
            held >>= 8;
            bits -= 8;
        }
    };
    // The last block, of fixed codes: a zero, then copies of 258 bytes at distance 1. Codes go out from their highest bit.
    put(0b011, 3);
    put(u64::from(0x30_u8.reverse_bits()), 8);
    for _ in 0..BOMB_BYTES / 258 {
        put(u64::from(0b1100_0101_u8.reverse_bits()), 8);
        put(0, 5);
    }
    put(0, 7);
    put(0, 7);
    answer("Content-Encoding: gzip\r\n", &body)
}
