//! Any file and any variables are a configuration or a list of problems; what loads is printed in a form that loads to the
//! same.

#![no_main]

use std::cell::RefCell;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use ojs_sidecar::config::{Loaded, Problems, Sources, effective, load};

thread_local! {
    static FOLDER: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

fn loaded(folder: &Path, text: &[u8], env: Vec<(String, String)>) -> Result<Loaded, Problems> {
    let file = folder.join("config.yaml");
    std::fs::write(&file, text).expect("a file in memory");
    load(&Sources { files: vec![file], env, flags: Vec::new() })
}

/// Lines after a NUL are variables, `KEY=VALUE`.
fn variables(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (format!("OJSF_{key}"), value.to_owned())).collect()
}

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |&byte| byte == 0);
    let (file, env) = (parts.next().unwrap_or_default(), variables(parts.next().unwrap_or_default()));
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(|| {
            tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::TempDir::new()).expect("a folder")
        });
        match loaded(folder.path(), file, env) {
            Err(wrong) => assert!(!wrong.problems.is_empty() && !wrong.to_string().is_empty()),
            Ok(first) => {
                let printed = effective(&first.config);
                let again = loaded(folder.path(), printed.as_bytes(), Vec::new())
                    .unwrap_or_else(|problems| panic!("{problems}\nin\n{printed}"));
                assert_eq!(effective(&again.config), printed);
            }
        }
    });
});
