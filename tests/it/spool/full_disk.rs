//! A disk without room: a file system of its own, which only root may mount.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Files, eventually, job, launched, resume, setup, stop};

/// A small file system in memory; gone with this value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, with the reason on standard output, where this user may not mount one.
    #[expect(clippy::print_stdout, reason = "a skipped test says why")]
    fn mount(at: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=700k", "tmpfs"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            Ok(output) => {
                println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                println!("skipped: no mount: {error}");
                None
            }
        }
    }

    fn grow(&self) {
        let grown = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&self.0).status().unwrap();
        assert!(grown.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn on_a_full_disk_each_held_job_is_sent_once_and_each_other_is_refused_or_unknown() {
    let files = Files::new();
    let Some(disk) = SmallDisk::mount(files.dir.path()) else { return };
    files.set_key(&"5a".repeat(32));
    let federation = launched(setup(&files, "")).await;
    stop(&federation.regions).await;
    let (mut held, mut unknown, mut refused) = (Vec::new(), Vec::new(), 0);
    for number in 0..60 {
        let answer = federation.client.enqueue(job(&format!("{number:03}-{}", "x".repeat(20_000)))).await;
        match answer.status.as_u16() {
            202 => held.push(answer.job_id()),
            500 => {
                assert_eq!(answer.reason(), "outcome_unknown");
                unknown.push(answer.json()["error"]["details"]["job_id"].as_str().unwrap().to_owned());
            }
            503 => refused += 1,
            status => panic!("{status}: {answer:?}"),
        }
    }
    assert!(!held.is_empty() && refused + unknown.len() > 0, "{} {refused}", held.len());
    disk.grow();
    resume(&federation.regions).await;
    let stored = |id: &String| {
        let jobs = federation.regions.iter().flat_map(|region| region.jobs().iter().cloned().collect::<Vec<_>>());
        jobs.filter(|job| job.id == *id).map(|job| job.stored).sum::<u32>()
    };
    eventually("each held job is there", async || held.iter().all(|id| stored(id) > 0)).await;
    eventually("no row is left", async || super::shown(&federation.admin).await["waiting"] == 0).await;
    assert!(held.iter().all(|id| stored(id) == 1));
    assert!(unknown.iter().all(|id| stored(id) <= 1));
    drop(federation);
    drop(disk);
}
