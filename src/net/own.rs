//! Is our own network there? Asked only when every region fails at once.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A connection to ourselves crosses no slow network: one that takes longer has failed.
const TIMEOUT: Duration = Duration::from_millis(200);
/// The file in which Linux lists its routes, and the form of a default route in it.
const ROUTES: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";
const UNSPECIFIED_V6: &str = "00000000000000000000000000000000";

/// A check of our own network that remembers the earlier state.
#[derive(Debug)]
pub struct OwnNetwork {
    had_route: bool,
}

impl Default for OwnNetwork {
    /// Looks at the present state.
    fn default() -> Self {
        Self { had_route: has_default_route() }
    }
}

impl OwnNetwork {
    /// Whether a connection over loopback comes about, and the default route that was there before is there still. A machine
    /// without one, such as a test's, is not held to have one. Blocks for at most 200 ms.
    pub fn passes(&mut self) -> bool {
        let routed = has_default_route();
        let lost = self.had_route && !routed;
        self.had_route |= routed;
        !lost && loops_back().is_ok()
    }
}

fn loops_back() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address: SocketAddr = listener.local_addr()?;
    TcpStream::connect_timeout(&address, TIMEOUT).map(drop)
}

fn has_default_route() -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    is_default_route_in(&read(ROUTES), &read(ROUTES_V6))
}

/// The tables as Linux prints them: interface, destination, gateway, flags, …, mask; and destination, prefix length, …, interface.
fn is_default_route_in(v4: &str, v6: &str) -> bool {
    let v4 = v4.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace();
        columns.nth(1) == Some("00000000") && columns.nth(5) == Some("00000000")
    });
    // Linux lists a rejecting default route over loopback where there is none.
    let v6 = v6.lines().any(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        columns.first() == Some(&UNSPECIFIED_V6) && columns.get(1) == Some(&"00") && columns.last() != Some(&"lo")
    });
    v4 || v6
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    #[test]
    fn a_default_route_is_found_in_either_table() {
        let v4 = format!("{V4}eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
        let local = format!("{V4}eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
        let v6 =
            |interface| format!("{UNSPECIFIED_V6} 00 {UNSPECIFIED_V6} 00 fe80 00000400 1 0 00000003 {interface}\n");
        assert!(is_default_route_in(&v4, ""));
        assert!(!is_default_route_in(&local, ""));
        assert!(is_default_route_in(V4, &v6("eth0")));
        assert!(!is_default_route_in("", &v6("lo")));
        assert!(!is_default_route_in("", ""));
    }

    #[test]
    fn a_machine_that_works_passes_and_a_route_that_was_there_is_missed() {
        assert!(OwnNetwork::default().passes());
        let lost = OwnNetwork { had_route: true }.passes();
        assert_eq!(lost, has_default_route());
    }
}
