//! `check --ask`: the answers of regions about more than their health.

use super::{staged, written};
use crate::support::{Process, command};

#[tokio::test]
async fn check_names_workers_that_read_a_queue_with_shards_without_a_sidecar() {
    let stage = staged().await;
    let config = std::fs::read_to_string(&stage.config).unwrap();
    let sharded = format!("{config}\nscheduling: {{ tenant_queues: [{{ queue: email, shards: 2 }}] }}\n");
    let path = written(stage.files.path(), "sharded.yaml", &sharded);
    let check = || command(&["check", "--ask", "--config", path.to_str().unwrap()], &[], "");
    let asked = check();
    assert_eq!((asked.code, asked.stderr.as_str()), (Some(0), ""));
    // A sidecar that knows nothing of shards passes both on as they are.
    let plain = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    for (worker, queues) in [("direct-1", r#"["email"]"#), ("beside", r#"["email","email.ojs-t00","email.ojs-t01"]"#)] {
        let call = format!(r#"{{"queues":{queues},"worker_id":"{worker}"}}"#);
        assert_eq!(plain.client.post("/ojs/v1/workers/fetch", call).await.status, 200);
    }
    let asked = check();
    assert_eq!(asked.code, Some(0), "a warning: {}", asked.stderr);
    let line = "warning: region us-east-1: worker direct-1 reads the queue email without its shards";
    assert!(asked.stderr.starts_with(line), "{}", asked.stderr);
    assert_eq!(asked.stderr.lines().count(), 1, "{}", asked.stderr);
}
