//! What `.cargo/rustc`, which stands before the compiler, has it do.

#![expect(clippy::unwrap_used, reason = "a shell that cannot be started is a failed test")]

use std::path::Path;
use std::process::Command;

/// What the compiler is called with for these arguments, where this variable is so.
fn called_with(arguments: &str, variable: (&str, &str)) -> String {
    let wrapper = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cargo/rustc");
    let mut called = Command::new("sh");
    called.arg(wrapper).arg("echo").args(arguments.split(' ')).env("OJS_PROFILE", "none");
    called.env_remove("OJS_CPU").env_remove("OJS_SYMBOLS").env(variable.0, variable.1);
    let called = called.output().unwrap();
    assert!(called.status.success(), "{called:?}");
    String::from_utf8(called.stdout).unwrap().trim_end().to_owned()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_is_optimised_for_speed_is_for_processors_with_avx2_and_the_programs_own_crate_for_all() {
    let check = |arguments: &str, cpu: &str, added: &str| {
        assert_eq!(called_with(arguments, ("OJS_CPU", cpu)), format!("{arguments}{added}"), "OJS_CPU={cpu}");
    };
    let library = "--crate-name ojs_sidecar src/lib.rs --crate-type lib -C opt-level=3 -C lto";
    check(library, "", " -Ctarget-cpu=x86-64-v3");
    check(library, "x86-64", " -Ctarget-cpu=x86-64");
    check(&format!("{library} --target x86_64-unknown-linux-musl"), "", " -Ctarget-cpu=x86-64-v3");
    check(&format!("{library} --target aarch64-unknown-linux-gnu"), "", "");
    check(&format!("{library} -Ctarget-cpu=native"), "", "");
    check("--crate-name ojs_sidecar src/main.rs --crate-type bin -C opt-level=3 -C lto", "", "");
    check("--crate-name hop benches/hop/main.rs --crate-type bin -C opt-level=3 -C lto", "", " -Ctarget-cpu=x86-64-v3");
    check("--crate-name clap src/lib.rs --crate-type lib -C opt-level=s -C lto", "", "");
    check("--crate-name ojs_sidecar src/lib.rs --crate-type lib -C debuginfo=2", "", "");
}

#[test]
fn what_is_optimised_for_speed_has_names_and_lines_for_who_asks_for_them_and_is_otherwise_the_same() {
    let check = |arguments: &str, symbols: &str, added: &str| {
        let arguments = format!("{arguments} --target aarch64-unknown-linux-gnu");
        assert_eq!(called_with(&arguments, ("OJS_SYMBOLS", symbols)), format!("{arguments}{added}"), "{symbols}");
    };
    let program = "--crate-name ojs_sidecar src/main.rs --crate-type bin -C opt-level=3 -C lto -C strip=symbols";
    check(program, "1", " -Cdebuginfo=1 -Cstrip=none");
    check(program, "", "");
    check("--crate-name clap src/lib.rs --crate-type lib -C opt-level=s -C lto", "1", "");
    check("--crate-name ojs_sidecar src/lib.rs --crate-type lib -C debuginfo=2", "1", "");
}
