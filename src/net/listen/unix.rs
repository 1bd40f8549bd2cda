//! Binding a Unix socket: whole or not at all, by one process at a time, and never open to more users than its mode says.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::net::bound::{BindError, BoundListener, LocalAddress, QUEUE, SocketFile};

/// Another process that binds in the same directory needs moments. One that holds the lock for longer is none of ours, and is not waited for.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Binds beside the path and moves the socket there once clients may come, so that a stale file is replaced in one step.
///
/// Errors: [`BindError`]. Waits up to [`LOCK_WAIT`] for other processes that bind in the same directory.
pub(super) fn bind_unix(path: &Path, mode: u32) -> Result<BoundListener, BindError> {
    let local = LocalAddress::Unix(path.to_owned());
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => BindError::NoDirectory(local.clone()),
        _ => BindError::System { address: local.clone(), source },
    };
    // Held until the socket is in its place: of two processes the second finds the first one answering.
    let _lock = path.parent().and_then(locked);
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(BindError::NoSocket(local)),
        Ok(_) if is_answered(path) => return Err(BindError::Taken(local)),
        _ => {}
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push("~");
    let beside = PathBuf::from(beside);
    if std::fs::symlink_metadata(&beside).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(&beside).map_err(failed)?;
    }
    let socket = bound(&beside, mode).map_err(failed)?;
    // The mask of the process may have taken bits away.
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    socket.listen(QUEUE).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)?;
    let file = SocketFile::at(path).map_err(failed)?;
    let listener = UnixListener::from(std::os::fd::OwnedFd::from(socket));
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(BoundListener::unix(listener, local, file))
}

/// A socket that is bound, and refuses connections until it listens. Its file has no bit beside those of `mode` at any moment.
fn bound(path: &Path, mode: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Linux makes the file with the mode of the socket; other systems refuse this, and there the socket only does not listen yet.
    let _ = fchmod(&socket, Mode::from_raw_mode(mode as _));
    socket.bind(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// The lock of a directory; none where it cannot be had in time, or at all, as in a directory that may not be read.
fn locked(directory: &Path) -> Option<File> {
    let directory = File::open(directory).ok()?;
    match directory.try_lock() {
        Ok(()) => return Some(directory),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(_)) => return None,
    }
    // In a thread, because the kernel has no bound for this wait; one that comes too late lets go at once.
    let (locked, when) = mpsc::channel();
    let wait = move || directory.lock().is_ok().then(|| locked.send(directory));
    std::thread::Builder::new().spawn(wait).ok()?;
    when.recv_timeout(LOCK_WAIT).ok()
}

/// Whether a process listens on a socket's file: only a refused connection proves that none does. Does not wait for one that has stopped.
fn is_answered(path: &Path) -> bool {
    let connected = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)
    };
    !connected().is_err_and(|error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Barrier;

    use super::*;

    fn refused(path: &Path) -> bool {
        UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    #[test]
    fn a_socket_takes_no_connection_before_its_mode_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let socket = bound(&path, 0o600).unwrap();
        assert!(refused(&path));
        if cfg!(target_os = "linux") {
            let mode = std::fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & !0o600, 0, "{mode:o}");
        }
        drop(socket);
    }

    #[test]
    fn of_processes_that_bind_a_path_at_once_one_has_it_and_the_others_find_it_taken() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let path = folder.path().join(format!("s{round}"));
            // A stale file of a process that has ended.
            drop(bound(&path, 0o600).unwrap());
            let all_there = Barrier::new(4);
            let bind = || {
                all_there.wait();
                bind_unix(&path, 0o600)
            };
            let bound: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let is_taken = |one: &&Result<_, BindError>| matches!(one, Err(BindError::Taken(_)));
            assert_eq!(bound.iter().filter(is_taken).count(), 3, "{bound:?}");
            assert!(UnixStream::connect(&path).is_ok());
            drop(bound);
            assert!(!path.exists(), "the file is that of the one that has it");
        }
    }

    #[test]
    fn a_process_that_listens_and_does_not_answer_has_its_path_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let stopped = bound(&path, 0o600).unwrap();
        stopped.listen(0).unwrap();
        let connect = || {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket.connect(&SockAddr::unix(&path).unwrap()).map(|()| socket)
        };
        // Until no more fit.
        let waiting: Vec<_> = (0..10).map_while(|_| connect().ok()).collect();
        assert!(waiting.len() < 10);
        assert!(matches!(bind_unix(&path, 0o600), Err(BindError::Taken(_))));
    }
}
