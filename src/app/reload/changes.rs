//! What of a new configuration can be put in force while the program runs, and what cannot.

use crate::config::Config;

/// The new configuration with what cannot change live kept as it is, and the keys that differ and wait for a restart.
///
/// Listeners are bound and their limits handed to them before anything runs; the number of threads and the form of a log line
/// are settled then, too.
pub(super) fn live(running: &Config, asked: &Config) -> (Config, Vec<&'static str>) {
    let mut config = asked.clone();
    let mut fixed = Vec::new();
    let mut keep = |key: &'static str, differs: bool| {
        if differs {
            fixed.push(key);
        }
    };
    let (old, new) = (&running.listen, &asked.listen);
    keep("listen.clients", old.clients != new.clients);
    keep("listen.admin", old.admin != new.admin);
    keep("listen.unix_mode", old.unix_mode != new.unix_mode);
    let (old, new) = (&running.limits, &asked.limits);
    keep("limits.head_bytes", old.head_bytes != new.head_bytes);
    keep("limits.headers", old.headers != new.headers);
    keep("limits.head_timeout", old.head_timeout != new.head_timeout);
    keep("limits.idle_timeout", old.idle_timeout != new.idle_timeout);
    keep("limits.client_connections", old.client_connections != new.client_connections);
    keep("limits.memory", old.memory != new.memory);
    keep("limits.worker_threads", old.worker_threads != new.worker_threads);
    keep("journal.path", running.journal.path != asked.journal.path);
    keep("log.format", running.log.format != asked.log.format);
    keep("readiness.require_region", running.readiness.require_region != asked.readiness.require_region);

    config.listen.clients.clone_from(&running.listen.clients);
    config.listen.admin = running.listen.admin;
    config.listen.unix_mode = running.listen.unix_mode;
    config.limits.head_bytes = running.limits.head_bytes;
    config.limits.headers = running.limits.headers;
    config.limits.head_timeout = running.limits.head_timeout;
    config.limits.idle_timeout = running.limits.idle_timeout;
    config.limits.client_connections = running.limits.client_connections;
    config.limits.memory = running.limits.memory;
    config.limits.worker_threads = running.limits.worker_threads;
    config.journal.path.clone_from(&running.journal.path);
    config.log.format = running.log.format;
    config.readiness.require_region = running.readiness.require_region;
    (config, fixed)
}
