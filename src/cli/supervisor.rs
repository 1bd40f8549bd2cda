//! Notifications to a service manager: systemd's protocol for units of `Type=notify`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// A manager that does not read is not waited for longer: probes share this thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// The service manager that started this process, if it wants notifications.
#[derive(Debug)]
pub(super) struct Supervisor(Option<OsString>);

impl Supervisor {
    /// As `NOTIFY_SOCKET` names it.
    pub(super) fn of_this_process() -> Self {
        Self(std::env::var_os("NOTIFY_SOCKET"))
    }

    /// Everything is bound and the first round of probes is over.
    pub(super) fn ready(&self) {
        self.notify("READY=1\n");
    }

    /// The order to end was understood; the drain begins.
    pub(super) fn stopping(&self) {
        self.notify("STOPPING=1\n");
    }

    fn notify(&self, state: &str) {
        let Some(socket) = &self.0 else { return };
        if let Err(error) = send(socket, state) {
            tracing::warn!(target: "ojs_federation", %error, "the service manager cannot be notified");
        }
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    // A leading @ stands for the zero byte of an abstract name.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_write_timeout(Some(PATIENCE))?;
    sender.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(socket: OsString, receiver: &UnixDatagram) {
        let supervisor = Supervisor(Some(socket));
        supervisor.ready();
        supervisor.stopping();
        let mut heard = [0; 64];
        for expected in ["READY=1\n", "STOPPING=1\n"] {
            let length = receiver.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], expected.as_bytes());
        }
    }

    #[test]
    fn a_manager_with_a_socket_in_the_file_system_is_notified() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        check(path.clone().into(), &UnixDatagram::bind(&path).unwrap());
    }

    #[test]
    fn a_manager_with_an_abstract_socket_is_notified() {
        let name = format!("ojs-sidecar-test-{}", uuid::Uuid::now_v7());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        check(format!("@{name}").into(), &UnixDatagram::bind_addr(&address).unwrap());
    }

    #[test]
    fn without_a_manager_and_with_a_stopped_one_nothing_breaks() {
        Supervisor(None).ready();
        Supervisor(Some("/nonexistent/notify".into())).ready();
        Supervisor(Some(OsString::from("x".repeat(1000)))).stopping();
    }
}
