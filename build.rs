//! Has the linker lay what a serving sidecar runs side by side.
//!
//! A quarter of the program's code is ever run, but the kernel maps 64 kB around each page of it that is touched: strewn over the
//! whole, that quarter keeps most of the rest in memory, in every pod. `link/serving.ld` names it (`.ci/order` writes it anew). A
//! name that is no longer there is passed over, and what is not named lies behind the rest as before; so does nearly all where flags in the
//! environment stand in for those of `.cargo/config.toml` and names are mangled otherwise. `OJS_LINK_ORDER=none` leaves it
//! out, for linkers that do not know such a file and stand in for one that does.

#![expect(clippy::disallowed_methods, reason = "cargo speaks to a build script through its environment")]

use std::env;
use std::path::PathBuf;

const ORDER: &str = "link/serving.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    println!("cargo::rerun-if-env-changed=OJS_LINK_ORDER");
    let root = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    if root.join(ORDER).exists() && is_understood() {
        println!("cargo::rustc-link-arg-bins=-T");
        println!("cargo::rustc-link-arg-bins={}", root.join(ORDER).display());
    }
}

/// Whether this is a release that is linked by LLVM's or GNU's linker: others do not know such a file.
fn is_understood() -> bool {
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let other = env::var_os("RUSTC_LINKER").is_some() || flags.contains("linker") || flags.contains("fuse-ld");
    let target = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    is("PROFILE", "release") && target && !other && !is("OJS_LINK_ORDER", "none")
}
