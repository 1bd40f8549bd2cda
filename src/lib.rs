//! `ojs-sidecar`: a daemon beside every application pod that federates Open Job Spec traffic over regions.
//!
//! The folders are floors, and a folder imports only from lower ones (a test holds the table in `ARCHITECTURE.md`):
//! [`base`] knows nothing of jobs or sockets; `ojs` and `config` read bytes; `policy` decides without acting; `net`
//! acts without deciding; `region` holds the state of each region at run time; `proxy` is the life of a request; `app`
//! binds and runs it all.

#![cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, unused_imports, reason = "public with the feature `internals`")
)]

// The program needs `cli` alone. Tests, benches and fuzz targets turn the feature `internals` on for the rest; without
// it the compiler finds code that the program does not call.
#[cfg(not(feature = "internals"))]
mod admin;
#[cfg(not(feature = "internals"))]
mod api;
#[cfg(not(feature = "internals"))]
mod app;
#[cfg(not(feature = "internals"))]
mod base;
pub mod cli;
#[cfg(not(feature = "internals"))]
mod config;
#[cfg(not(feature = "internals"))]
mod evidence;
#[cfg(not(feature = "internals"))]
mod fleet;
#[cfg(not(feature = "internals"))]
mod hub;
#[cfg(not(feature = "internals"))]
mod journal;
#[cfg(not(feature = "internals"))]
mod net;
#[cfg(not(feature = "internals"))]
mod ojs;
#[cfg(not(feature = "internals"))]
mod outcome;
#[cfg(not(feature = "internals"))]
mod policy;
#[cfg(not(feature = "internals"))]
mod proxy;
#[cfg(not(feature = "internals"))]
mod region;
#[cfg(not(feature = "internals"))]
mod replica;
#[cfg(not(feature = "internals"))]
mod spool;
#[cfg(not(feature = "internals"))]
mod switch;
#[cfg(not(feature = "internals"))]
mod telemetry;
#[cfg(not(feature = "internals"))]
mod uwer;

#[cfg(feature = "internals")]
pub mod admin;
#[cfg(feature = "internals")]
pub mod api;
#[cfg(feature = "internals")]
pub mod app;
#[cfg(feature = "internals")]
pub mod base;
#[cfg(feature = "internals")]
pub mod config;
#[cfg(feature = "internals")]
pub mod evidence;
#[cfg(feature = "internals")]
pub mod fleet;
#[cfg(feature = "internals")]
pub mod hub;
#[cfg(feature = "internals")]
pub mod journal;
#[cfg(feature = "internals")]
pub mod net;
#[cfg(feature = "internals")]
pub mod ojs;
#[cfg(feature = "internals")]
pub mod outcome;
#[cfg(feature = "internals")]
pub mod policy;
#[cfg(feature = "internals")]
pub mod proxy;
#[cfg(feature = "internals")]
pub mod region;
#[cfg(feature = "internals")]
pub mod replica;
#[cfg(feature = "internals")]
pub mod spool;
#[cfg(feature = "internals")]
pub mod switch;
#[cfg(feature = "internals")]
pub mod telemetry;
#[cfg(feature = "internals")]
pub mod uwer;

/// Whether this build is for x86-64 processors with AVX2 only, as `make release` compiles one of its programs.
pub const IS_FOR_AVX2: bool = cfg!(all(target_arch = "x86_64", target_feature = "avx2"));
