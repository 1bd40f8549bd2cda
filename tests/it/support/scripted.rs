//! A region that answers, byte for byte, what a test says.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::{Setup, Wire};

/// What is answered to the request line of a call; without its end where the connection is closed behind it.
type Script = dyn Fn(&str) -> (Vec<u8>, Then) + Send + Sync;

/// What a region does behind an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It waits for the next request.
    Waits,
    /// It closes the connection.
    Closes,
}

/// A region without TLS that answers its health well and every other call by a script. Dropped, it ends.
pub struct Scripted {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    script: Mutex<Arc<Script>>,
    /// The sockets of all connections, for what is said unasked.
    sockets: Mutex<Vec<std::net::TcpStream>>,
}

impl Scripted {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script: Arc<Script> = Arc::new(|_: &str| (Vec::new(), Then::Closes));
        let shared = Arc::new(Shared { script: Mutex::new(script), sockets: Mutex::default() });
        let of_task = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let socket = socket.into_std().unwrap();
                of_task.sockets.lock().push(socket.try_clone().unwrap());
                let wire = Wire::new(tokio::net::TcpStream::from_std(socket).unwrap());
                connections.spawn(serve(wire, Arc::clone(&of_task)));
            }
        });
        Self { address, shared, task }
    }

    /// From now on calls are answered so.
    pub fn answers(&self, script: impl Fn(&str) -> (Vec<u8>, Then) + Send + Sync + 'static) {
        *self.shared.script.lock() = Arc::new(script);
    }

    /// Says something on every connection that is open, without having been asked.
    pub fn say(&self, bytes: &[u8]) {
        // It fails on those that are closed.
        self.shared.sockets.lock().retain_mut(|socket| std::io::Write::write_all(socket, bytes).is_ok());
    }

    /// A federation whose first region this is; the second one is a demo region.
    pub fn before(&self, yaml: &str) -> Setup {
        let url = format!("url: http://{}", self.address);
        Setup::default().regions(2).region(0, &url).region(0, "tls: {}").yaml("insecure_dev: true").yaml(yaml)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut wire: Wire, shared: Arc<Shared>) {
    while let Some(line) = wire.request().await {
        let (answer, then) = if line.starts_with("GET /ojs/v1/health ") {
            (b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}".to_vec(), Then::Waits)
        } else {
            let script = Arc::clone(&shared.script.lock());
            script(&line)
        };
        if wire.socket.write_all(&answer).await.is_err() || then == Then::Closes {
            break;
        }
    }
    // The clone of the socket would keep it open.
    let _ = wire.socket.shutdown().await;
}
