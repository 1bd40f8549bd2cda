//! Keys that cannot change while the program runs.

use super::checked::Config;
use super::section::Section as _;

/// The configuration `asked` with the running value of every key that waits for a restart, and the paths of those that differ.
///
/// Listeners are bound and their limits given to them before anything runs, and so are the number of threads and the form of a
/// log line. In the sections, such keys say `restart`.
#[must_use]
pub fn live(running: &Config, asked: &Config) -> (Config, Vec<&'static str>) {
    let mut config = asked.clone();
    let mut fixed = Vec::new();
    let (old, new) = (&running.listen, &mut config.listen);
    if new.clients != old.clients {
        fixed.push("listen.clients");
        new.clients.clone_from(&old.clients);
    }
    if new.admin != old.admin {
        fixed.push("listen.admin");
        new.admin = old.admin;
    }
    if new.unix_mode != old.unix_mode {
        fixed.push("listen.unix_mode");
        new.unix_mode = old.unix_mode;
    }
    if config.control_socket != running.control_socket {
        fixed.push("control.socket");
        config.control_socket.clone_from(&running.control_socket);
    }
    if config.discovery != running.discovery {
        fixed.push("discovery");
        config.discovery.clone_from(&running.discovery);
    }
    macro_rules! sections {
        ($($section:ident),+) => {
            $( config.$section.keep_fixed(&running.$section, &mut fixed); )+
        };
    }
    sections!(
        routing,
        batch,
        workers,
        queues,
        lists,
        residency,
        health_check,
        circuit_breaker,
        load,
        failover,
        journal,
        spool
    );
    sections!(decisions, idempotency, limits, compat, log, metrics, readiness, shutdown);
    (config, fixed)
}
