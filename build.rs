//! Has the linker lay what a serving sidecar runs side by side.
//!
//! A quarter of the program's code is ever run, but the kernel maps 64 kB around each page of it that is touched: strewn over the
//! whole, that quarter keeps most of the rest in memory, in every pod. `link/serving.list` names it (`.ci/order` writes it anew). A
//! name that is no longer there is passed over, and what is not named lies behind the rest as before; so does nearly all where flags in the
//! environment stand in for those of `.cargo/config.toml` and names are mangled otherwise. `OJS_LINK_ORDER=none` leaves it
//! out, for linkers that do not know such a file and stand in for one that does.

#![expect(clippy::disallowed_methods, reason = "cargo speaks to a build script through its environment")]

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

const LIST: &str = "link/serving.list";
/// What the compiler is told of all libraries, too (see `.cargo/rustc`).
const PROFILE: &str = "link/serving.profdata";
/// The line of the list before those that run only under load.
const UNDER_LOAD: &str = "== under load";

fn main() -> io::Result<()> {
    for path in ["build.rs", LIST, PROFILE] {
        println!("cargo::rerun-if-changed={path}");
    }
    for name in ["OJS_LINK_ORDER", "OJS_PROFILE"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    name_the_build();
    let folder = |name| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let list = folder("CARGO_MANIFEST_DIR").join(LIST);
    if list.exists() && is_understood() {
        let script = folder("OUT_DIR").join("serving.ld");
        write_order(&std::fs::read_to_string(list)?, std::fs::File::create(&script)?)?;
        println!("cargo::rustc-link-arg-bins=-T");
        println!("cargo::rustc-link-arg-bins={}", script.display());
    }
    Ok(())
}

/// Gives `--version` the commit and the target. The commit is `OJS_COMMIT` where it is set, else that of the checkout, else unknown.
fn name_the_build() {
    println!("cargo::rerun-if-env-changed=OJS_COMMIT");
    // Both exist in a checkout only; a missing file would have this script run at every build.
    for path in [".git/HEAD", ".git/logs/HEAD"] {
        if PathBuf::from(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let asked = || {
        let asked = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        String::from_utf8(asked.stdout).ok().filter(|_| asked.status.success())
    };
    let commit = env::var("OJS_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(asked);
    println!("cargo::rustc-env=OJS_BUILD_COMMIT={}", commit.as_deref().unwrap_or("unknown").trim());
    println!("cargo::rustc-env=OJS_BUILD_TARGET={}", env::var("TARGET").unwrap_or_default());
    println!("cargo::rustc-env=OJS_BUILD_PROFILE={}", env::var("PROFILE").unwrap_or_default());
}

/// The linker's script by which what is listed comes first: what runs at rest, then what is hot and not among it, then the rest.
fn write_order(list: &str, script: impl Write) -> io::Result<()> {
    let mut script = io::BufWriter::new(script);
    writeln!(script, "SECTIONS {{\n  .text.serving : {{")?;
    for name in list.lines().filter(|line| !line.starts_with('#')) {
        // What is hot or cold by the profile has a place of its own; of what is hot the linker knows which calls which.
        match name {
            UNDER_LOAD => writeln!(script, "*(.text.hot .text.hot.*)"),
            rust if rust.starts_with("_R") => {
                writeln!(script, "*(.text.{rust} .text.hot.{rust} .text.unlikely.{rust})")
            }
            _ => writeln!(script, "*(.text.{name})"),
        }?;
    }
    writeln!(script, "  }}\n}} INSERT BEFORE .text;")?;
    script.flush()
}

/// Whether this is a release that is linked by LLVM's or GNU's linker: others do not know such a file.
fn is_understood() -> bool {
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let other = env::var_os("RUSTC_LINKER").is_some() || flags.contains("linker") || flags.contains("fuse-ld");
    let target = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    is("PROFILE", "release") && target && !other && !is("OJS_LINK_ORDER", "none")
}
