//! The end of a connection: the last word is said, and said so that it arrives.
//!
//! A socket that is closed with unread bytes resets the connection, and the reset destroys an answer that is still on its way:
//! Ruby's client then repeats its POST. So our side is closed first, and what the client still sends is read for a while.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Refused;
use crate::net::guard::{End, Leftover};
use crate::net::socket::Socket;

/// How long a client may take to read its last answer and to close.
const LINGER: Duration = Duration::from_secs(2);
/// Connections over the bound that are told so at once; more are closed without a word, because each holds a descriptor.
const BUSY_MAX: usize = 64;

/// Ends a connection that hyper is done with; `cut` means that its last answer is incomplete.
pub(super) async fn say(leftover: Leftover, cut: bool, document: &Rc<dyn Fn(Refused) -> Bytes>) {
    let Leftover { socket, end, told } = leftover;
    match end {
        _ if cut => socket.reset_on_close(),
        Some(End::Refused(refused)) if told => linger(socket, &document(refused)).await,
        Some(End::Closed | End::Idle | End::Failed(_)) => {}
        Some(End::Refused(_) | End::Resting(_)) | None => linger(socket, &[]).await,
    }
}

/// Tells a client that there are too many, without holding up the others.
pub(super) fn busy(socket: Socket, document: &Rc<dyn Fn(Refused) -> Bytes>) {
    thread_local! {
        static SAYING: Rc<Cell<usize>> = Rc::default();
    }
    let saying = SAYING.with(Rc::clone);
    if saying.get() >= BUSY_MAX {
        return;
    }
    saying.set(saying.get() + 1);
    let document = document(Refused::Busy);
    drop(tokio::task::spawn_local(async move {
        linger(socket, &document).await;
        saying.set(saying.get() - 1);
    }));
}

/// Says the last word, closes our side, and reads on until the client closes its own.
async fn linger(mut socket: Socket, word: &[u8]) {
    let farewell = async {
        socket.write_all(word).await?;
        socket.shutdown().await?;
        let mut unread = [0; 4096];
        while socket.read(&mut unread).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // A client that fails or dawdles now has nothing more to gain.
    let _ = tokio::time::timeout(LINGER, farewell).await;
}
