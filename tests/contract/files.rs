//! The project's files, and other people's programs that judge them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A file of the project.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every document of a YAML file.
pub fn documents(name: &str) -> Vec<Value> {
    parse(&read(name))
}

pub fn parse(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}\nin\n{yaml}"))
}

/// The only document of a YAML file.
pub fn document(name: &str) -> Value {
    let mut documents = documents(name);
    assert_eq!(documents.len(), 1, "{name}");
    documents.remove(0)
}

/// Runs a program that may not be installed; `None` where it is not, which is said past the capture of the test's output.
pub fn judge(program: &str, arguments: &[&str], input: &str) -> Option<Output> {
    use std::process::Stdio;
    let child = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {program} {}: {program} is not installed", arguments.join(" "));
        return None;
    };
    // A program that does not read its input is judged by what it says.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Some(child.wait_with_output().unwrap())
}

/// Holds that a program, where it is installed, is content.
pub fn check_judged(program: &str, arguments: &[&str], input: &str) {
    let Some(output) = judge(program, arguments, input) else { return };
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
}
