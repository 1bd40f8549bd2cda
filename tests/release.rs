//! `make release`: the flags that its wrapper gives to the compiler, the order of its functions, and what it refuses.

#![expect(clippy::unwrap_used, reason = "a shell that cannot be started is a failed test")]

use std::path::Path;
use std::process::{Command, Output};

const TRAINING: [&str; 5] = ["TRAIN_COUNT", "TRAIN_PROFILE", "TRAIN_CPU", "TRAIN_SCRIPT", "TRAIN_SYMBOLS"];

fn script(name: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/release").join(name));
    for name in TRAINING.into_iter().chain(["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER", "PROFILE", "ORDER"]) {
        command.env_remove(name);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap().trim_end().to_owned()
}

/// The compiler's arguments for these of cargo, where this variable is set.
fn called_with(arguments: &str, name: &str, value: &str) -> String {
    let called = script("rustc").arg("echo").args(arguments.split(' ')).env(name, value).output().unwrap();
    assert!(called.status.success(), "{called:?}");
    text(&called.stdout)
}

const LIBRARY: &str = "--crate-name ojs_sidecar src/lib.rs --crate-type lib -C opt-level=3 -C lto";
const PROGRAM: &str = "--crate-name ojs_sidecar src/main.rs --crate-type bin -C opt-level=3 -C lto";
const HOST: &str = "--crate-name serde_derive src/lib.rs --crate-type proc-macro -C prefer-dynamic";
const NAMES: &str = " -Csymbol-mangling-version=v0";

#[test]
fn only_the_programs_own_crate_is_for_all_processors() {
    let cpu = |arguments: &str| called_with(arguments, "TRAIN_CPU", "x86-64-v3");
    assert_eq!(cpu(LIBRARY), format!("{LIBRARY}{NAMES} -Ctarget-cpu=x86-64-v3"));
    assert_eq!(cpu(PROGRAM), format!("{PROGRAM}{NAMES}"));
    assert_eq!(cpu(HOST), format!("{HOST}{NAMES}"));
    assert_eq!(cpu("-vV"), "-vV");
}

#[test]
fn counts_optimise_what_is_compiled_for_speed_and_nothing_else() {
    let profile = |arguments: &str| called_with(arguments, "TRAIN_PROFILE", "/counts");
    assert_eq!(profile(LIBRARY), format!("{LIBRARY}{NAMES} -Cprofile-use=/counts -Cllvm-args=-no-pgo-warn-mismatch"));
    let small = LIBRARY.replace("opt-level=3", "opt-level=s");
    assert_eq!(profile(&small), format!("{small}{NAMES}"));
    assert_eq!(called_with(PROGRAM, "TRAIN_COUNT", "/counts"), format!("{PROGRAM}{NAMES} -Cprofile-generate=/counts"));
}

#[test]
fn the_linker_script_is_for_the_program_alone() {
    let linked = |arguments: &str| called_with(arguments, "TRAIN_SCRIPT", "/order.ld");
    assert_eq!(linked(PROGRAM), format!("{PROGRAM}{NAMES} -Clink-arg=-T -Clink-arg=/order.ld"));
    assert_eq!(linked(LIBRARY), format!("{LIBRARY}{NAMES}"));
}

#[test]
fn functions_lie_in_the_order_of_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    std::fs::write(&list, "# written\nmemcpy\n_RNvCs*_3ojs4main*\n== under load\n_RNvCs*_3ojs4work*\n").unwrap();
    let script = text(&script("link-script").arg(&list).output().unwrap().stdout);
    let work = "*(.text._RNvCs*_3ojs4work* .text.hot._RNvCs*_3ojs4work* .text.unlikely._RNvCs*_3ojs4work*)";
    let places = ["*(.text.memcpy)", "3ojs4main", "*(.text.hot .text.hot.*)", work, "INSERT BEFORE .text;"];
    let found: Vec<usize> =
        places.iter().map(|place| script.find(place).unwrap_or_else(|| panic!("{place}"))).collect();
    assert!(found.is_sorted(), "{script}");
}

fn refused(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert_eq!(status.code(), Some(2), "{}", text(&stderr));
    text(&stderr)
}

#[test]
fn a_release_refuses_a_foreign_wrapper_and_stale_counts() {
    assert!(refused(script("build").env("RUSTC_WRAPPER", "sccache")).contains("RUSTC_WRAPPER is set"));
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("serving.profdata");
    let release = || {
        let mut release = script("build");
        release.env("PROFILE", &counts).env("CARGO_TARGET_DIR", folder.path().join("target"));
        release
    };
    assert!(refused(&mut release()).contains("serving.profdata is not there"));
    std::fs::write(&counts, "").unwrap();
    std::fs::write(folder.path().join("serving.profdata.stamp"), "1 2\n").unwrap();
    assert!(refused(&mut release()).contains("of another compiler"));
}
