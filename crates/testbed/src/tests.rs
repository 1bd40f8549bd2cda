//! The region over real sockets, as its clients see it.

mod administration;
mod bulk;
mod client;
mod connection;
mod duplicate;
mod extensions;
mod fault;
mod late;
mod level1;
mod level2;
mod level3;
mod level4;
mod lists;
mod operation;
mod reference;
mod upkeep;
