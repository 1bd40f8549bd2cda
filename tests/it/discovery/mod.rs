//! Regions that are discovered: what a source says gets nothing before it has proved itself.

mod directory;
mod dns;
mod flood;
mod hub;
mod name_server;
mod restart;
mod stage;
