//! Any bytes are a task or a flaw; a task is the same one in XML, JSON and as a job.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ojs_sidecar::uwer::{JobShape, job_of, read_json, read_xml, task_of, write_json, write_xml};

fuzz_target!(|input: &[u8]| {
    for read in [read_xml(input), read_json(input)] {
        match read {
            Err(flaw) => assert!(!flaw.field.is_empty() && !flaw.expected.is_empty()),
            Ok(task) => {
                assert_eq!(read_xml(write_xml(&task).as_bytes()).as_ref(), Ok(&task));
                assert_eq!(read_json(write_json(&task).as_bytes()).as_ref(), Ok(&task));
                let job = job_of(&task, "a", &JobShape { job_type: "b", queue: "c" });
                assert_eq!(task_of(job.as_bytes()).as_ref(), Ok(&task));
            }
        }
    }
    let _ = task_of(input);
});
