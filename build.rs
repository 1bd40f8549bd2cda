//! Gives `--version` the commit, the target, the profile and the kind of the build. Changes nothing about how the program is compiled.

#![expect(clippy::disallowed_methods, reason = "cargo speaks to a build script through its environment")]

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=OJS_COMMIT");
    println!("cargo::rerun-if-env-changed=OJS_BUILD_KIND");
    // Both exist in a checkout only; a missing file would run this script at every build.
    for path in [".git/HEAD", ".git/logs/HEAD"] {
        if PathBuf::from(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let commit = variable("OJS_COMMIT").or_else(commit_of_checkout);
    println!("cargo::rustc-env=OJS_BUILD_COMMIT={}", commit.as_deref().unwrap_or("unknown").trim());
    println!("cargo::rustc-env=OJS_BUILD_TARGET={}", variable("TARGET").unwrap_or_default());
    println!("cargo::rustc-env=OJS_BUILD_PROFILE={}", variable("PROFILE").unwrap_or_default());
    // `make release` says `trained`; cargo alone makes a plain build.
    println!("cargo::rustc-env=OJS_BUILD_KIND={}", variable("OJS_BUILD_KIND").unwrap_or_else(|| "plain".to_owned()));
}

/// The first digits of the checkout's commit; none outside of a checkout.
fn commit_of_checkout() -> Option<String> {
    let asked = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    String::from_utf8(asked.stdout).ok().filter(|_| asked.status.success())
}
