//! `ojs-sidecar`: a daemon beside every application pod that federates Open Job Spec traffic over regions.
//!
//! The folders are floors, and a folder imports only from lower ones (a test holds the table in `ARCHITECTURE.md`):
//! [`base`] knows nothing of jobs or sockets; `ojs` and `config` read bytes; `policy` decides without acting; `net` acts
//! without deciding; `region` holds what is known of each region at run time; `proxy` is the life of a request; `app` binds
//! and runs it all.

pub mod admin;
pub mod api;
pub mod app;
pub mod base;
pub mod cli;
pub mod config;
pub mod journal;
pub mod net;
pub mod ojs;
pub mod outcome;
pub mod policy;
pub mod proxy;
pub mod region;
pub mod telemetry;

/// Whether this build is for x86-64 processors with AVX2 only, as `make release` compiles one of its programs.
pub const IS_FOR_AVX2: bool = cfg!(all(target_arch = "x86_64", target_feature = "avx2"));
