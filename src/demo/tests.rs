//! The region over real sockets, as its clients see it.

mod client;
mod connection;
mod fault;
mod level1;
mod operation;
mod reference;
