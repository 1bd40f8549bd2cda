//! `ojs-sidecar uwer convert`.

use std::path::Path;

use super::{KEY, task};
use crate::support::command;

fn convert(file: &Path, further: &[&str]) -> (Option<i32>, String, String) {
    let line = [&["uwer", "convert", file.to_str().unwrap()], further].concat();
    let ended = command(&line, &[], "");
    (ended.code, ended.stdout, ended.stderr)
}

#[test]
fn a_task_goes_through_xml_json_and_job_without_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("task.xml");
    std::fs::write(&first, task(KEY)).unwrap();
    let mut file = first.clone();
    for form in ["json", "job", "xml", "job", "json", "xml"] {
        let (code, stdout, stderr) = convert(&file, &["--to", form]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{form}");
        file = dir.path().join(form);
        std::fs::write(&file, stdout).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), task(KEY));
    let (_, job, _) = convert(&first, &["--to", "job", "--type", "inventory.sync", "--queue", "legacy", "--id", "a-1"]);
    let job: serde_json::Value = serde_json::from_str(&job).unwrap();
    assert_eq!(
        (&job["type"], &job["options"]["queue"], &job["id"]),
        (&"inventory.sync".into(), &"legacy".into(), &"a-1".into())
    );
    assert_eq!(job["options"]["retry"]["max_attempts"], 6, "five retries are six attempts");
}

#[test]
fn a_file_that_is_no_task_is_named_with_line_field_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("task.xml");
    std::fs::write(&file, task(KEY).replace("HIGH", "URGENT")).unwrap();
    let (code, stdout, stderr) = convert(&file, &["--to", "json"]);
    let place = format!("{}: line 5, column 9: `Priority`: expected HIGH, NORMAL or LOW\n", file.display());
    assert_eq!((code, stdout.as_str(), stderr), (Some(1), "", place));
}
