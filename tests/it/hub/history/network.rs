//! A link that can be cut: bytes that were sent before a cut arrive after it, as from a network that drops and repeats packets.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A way to one address. Its connections are held up while it is cut, and none is closed by it.
pub struct Link {
    pub address: SocketAddr,
    is_cut: Arc<watch::Sender<bool>>,
}

impl Link {
    pub fn to(target: SocketAddr) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let is_cut = Arc::new(watch::Sender::new(false));
        let of_thread = Arc::clone(&is_cut);
        // A thread of its own, so that a busy test does not look like a slow network.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(carry(listener, target, of_thread));
        });
        Self { address, is_cut }
    }

    /// Holds all bytes and new connections up, or lets them go on.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }
}

async fn carry(listener: std::net::TcpListener, target: SocketAddr, is_cut: Arc<watch::Sender<bool>>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let Ok((near, _)) = listener.accept().await else { continue };
        let is_cut = Arc::clone(&is_cut);
        tokio::spawn(async move {
            open(&is_cut).await;
            let Ok(far) = TcpStream::connect(target).await else { return };
            let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
            // One side that ends ends both: a killed hub must not look like a silent one.
            tokio::select! {
                () = copy(near_read, far_write, &is_cut) => {}
                () = copy(far_read, near_write, &is_cut) => {}
            }
        });
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_cut: &watch::Sender<bool>) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut bytes).await else { return };
        open(is_cut).await;
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

async fn open(is_cut: &watch::Sender<bool>) {
    // The sender lives as long as this.
    let _ = is_cut.subscribe().wait_for(|is_cut| !is_cut).await;
}
