//! A TCP proxy between the sidecar and a region, which fails in ways that a region cannot: somewhere in the stream of bytes, in
//! either direction, below TLS.
//!
//! Every connection has its own trouble, drawn from the seed by its number: its place, direction and kind.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use ojs_handles::Draw;

/// Bytes that are copied at once.
const PIECE: usize = 16 * 1024;
/// A connection of which one side has been closed is given up after this.
const HALF_MAX: Duration = Duration::from_secs(5);

/// State that the proxies of a run share.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// No trouble any more, for connections that exist, too.
    pub(super) calm: Cell<bool>,
    /// The region that has no trouble now.
    pub(super) spared: Cell<Option<usize>>,
    pub(super) connections: Cell<u64>,
    pub(super) cut: Cell<u64>,
    pub(super) half_closed: Cell<u64>,
    pub(super) swallowed: Cell<u64>,
    pub(super) delayed: Cell<u64>,
}

impl Troubles {
    fn is_calm(&self, place: usize) -> bool {
        self.calm.get() || self.spared.get() == Some(place)
    }
}

/// The trouble of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trouble {
    /// Towards the region, else towards the sidecar.
    upwards: bool,
    /// After so many bytes in that direction.
    at: u64,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Both sides are reset.
    Cut,
    /// The receiver sees the end of the stream; the other direction goes on.
    HalfClose,
    /// Arriving bytes are swallowed for a while, in silence; then a cut.
    Swallow(Duration),
    /// Arriving bytes wait.
    Delay(Duration),
}

impl Trouble {
    /// One connection in eight is hit in its handshake, the others anywhere up to the hundredth call, early as often as late.
    fn draw(draw: &mut Draw) -> Self {
        let bits = if draw.below(8) == 0 { 5 + draw.below(7) } else { 11 + draw.below(7) };
        let at = 1_u64 << bits;
        let at = at + draw.below(at);
        let ms = |from: u64, to: u64, draw: &mut Draw| Duration::from_millis(from + draw.below(to - from));
        let what = match draw.below(10) {
            0..4 => What::Cut,
            4..6 => What::HalfClose,
            6 => What::Swallow(ms(200, 4_000, draw)),
            _ => What::Delay(ms(5, 400, draw)),
        };
        Self { upwards: draw.below(2) == 0, at, what }
    }
}

/// Listens for the sidecar before a region, and returns where.
///
/// Errors: the operating system's.
pub(super) async fn before(
    place: usize,
    region: SocketAddr,
    seed: u64,
    troubles: Rc<Troubles>,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::task::spawn_local(async move {
        let mut draw = Draw::from_seed(seed);
        loop {
            let Ok((sidecar, _)) = listener.accept().await else {
                // Out of descriptors, mostly.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            count(&troubles.connections);
            let trouble = Trouble::draw(&mut draw);
            let troubles = Rc::clone(&troubles);
            tokio::task::spawn_local(async move { join(sidecar, region, (place, trouble), &troubles).await });
        }
    });
    Ok(address)
}

async fn join(mut sidecar: TcpStream, region: SocketAddr, of_place: (usize, Trouble), troubles: &Troubles) {
    let (place, trouble) = of_place;
    let Ok(mut region) = TcpStream::connect(region).await else {
        reset(&sidecar);
        return;
    };
    let _ = (sidecar.set_nodelay(true), region.set_nodelay(true));
    let is_cut = {
        let (from_sidecar, to_sidecar) = sidecar.split();
        let (from_region, to_region) = region.split();
        let of = |upwards: bool| (trouble.upwards == upwards).then_some((trouble.at, trouble.what));
        let up = pump(from_sidecar, to_region, place, of(true), troubles);
        let down = pump(from_region, to_sidecar, place, of(false), troubles);
        both(up, down).await
    };
    if is_cut {
        reset(&sidecar);
        reset(&region);
    }
}

/// Waits for both directions, but not for long after the first has ended; true when the connection is to be reset.
async fn both(up: impl Future<Output = bool>, down: impl Future<Output = bool>) -> bool {
    tokio::pin!(up, down);
    tokio::select! {
        cut = &mut up => cut || tokio::time::timeout(HALF_MAX, down).await.unwrap_or(true),
        cut = &mut down => cut || tokio::time::timeout(HALF_MAX, up).await.unwrap_or(true),
    }
}

/// Copies one direction; true when the connection is to be reset.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    place: usize,
    mut trouble: Option<(u64, What)>,
    troubles: &Troubles,
) -> bool {
    let mut piece = vec![0; PIECE];
    let mut passed = 0_u64;
    loop {
        let read = match from.read(&mut piece).await {
            Ok(0) => return to.shutdown().await.is_err(),
            Ok(read) => read,
            Err(_) => return true,
        };
        let mut bytes = piece.get(..read).unwrap_or_default();
        let strikes = trouble.filter(|(at, _)| passed + bytes.len() as u64 >= *at && !troubles.is_calm(place));
        if let Some((at, what)) = strikes {
            trouble = None;
            let before = usize::try_from(at.saturating_sub(passed)).unwrap_or(0).min(bytes.len());
            let (first, rest) = bytes.split_at(before);
            if to.write_all(first).await.is_err() {
                return true;
            }
            passed += first.len() as u64;
            bytes = rest;
            match what {
                What::Cut => {
                    count(&troubles.cut);
                    return true;
                }
                What::HalfClose => {
                    count(&troubles.half_closed);
                    let _ = to.shutdown().await;
                    // Read on, so that the sender is not held up.
                    while from.read(&mut piece).await.is_ok_and(|read| read > 0) {}
                    return false;
                }
                What::Swallow(time) => {
                    count(&troubles.swallowed);
                    let swallowed = async { while from.read(&mut piece).await.is_ok_and(|read| read > 0) {} };
                    let _ = tokio::time::timeout(time, swallowed).await;
                    return true;
                }
                What::Delay(time) => {
                    count(&troubles.delayed);
                    tokio::time::sleep(time).await;
                }
            }
        }
        if to.write_all(bytes).await.is_err() {
            return true;
        }
        passed += bytes.len() as u64;
    }
}

/// The close of this connection is a reset.
fn reset(stream: &TcpStream) {
    // Where that cannot be set, an orderly close is a trouble, too.
    let _ = stream.set_zero_linger();
}

fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_troubles_of_every_kind() {
        let draw = |seed: u64| {
            let mut draw = Draw::from_seed(seed);
            (0..200).map(|_| Trouble::draw(&mut draw)).collect::<Vec<_>>()
        };
        let troubles = draw(7);
        assert_eq!(troubles, draw(7));
        assert_ne!(troubles, draw(8));
        for what in ["Cut", "HalfClose", "Swallow", "Delay"] {
            for upwards in [false, true] {
                let is_drawn = |it: &&Trouble| format!("{:?}", it.what).starts_with(what) && it.upwards == upwards;
                assert!(troubles.iter().any(|it| is_drawn(&it)), "{what} {upwards}");
            }
        }
    }
}
