//! The whole program over real sockets and TLS, with demo regions as neighbours.

#![allow(unreachable_pub, reason = "modules of one test binary")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod admin;
mod answers;
mod api;
mod batch;
mod breaker;
mod browser;
mod buffered;
mod cli;
mod compressed;
mod create;
mod define;
mod disguise;
mod documents;
mod drain;
mod enqueue;
mod event_stream;
mod failover;
mod forward;
mod guards;
mod hops;
mod http;
mod identity;
mod listen;
mod lists;
mod logs;
mod long;
mod lookup;
mod manifest;
mod metrics;
mod mutations;
mod names;
mod outage;
mod outcomes;
mod overload;
mod peers;
mod pins;
mod process;
mod refusals;
mod reload;
mod retry_after;
mod routing;
mod secrets;
mod silence;
mod smuggling;
mod splitting;
mod stream;
mod support;
mod surface;
mod tunnel;
mod unknown;
mod upstream;
mod wire;
mod workers;
