//! `uwer`.

use super::*;

const HUB: &str = "hub: { urls: ['https://hub.test:8443'], tls: { cert: /t/pod.crt, key: /t/pod.key } }\n";

#[test]
fn tasks_need_a_hub_and_their_types_and_queues_are_those_that_servers_take() {
    let origins = "uwer: { enabled: true, origins: [{ origin: inventory-*, type: inventory.sync, queue: legacy }, { origin: mail }] }\n";
    let config = loaded(&format!("{REGIONS}{HUB}{origins}")).config;
    let shown: Vec<_> = config.uwer.unwrap().origins.into_iter().map(|it| (it.origin, it.job_type, it.queue)).collect();
    let row = |origin: &str, job_type: &str, queue: &str| (origin.to_owned(), job_type.to_owned(), queue.to_owned());
    assert_eq!(shown, [row("inventory-*", "inventory.sync", "legacy"), row("mail", "uwer.task", "uwer")]);
    assert_eq!(loaded(&format!("{REGIONS}{HUB}")).config.uwer, None);
    for (text, key) in [
        (format!("{REGIONS}uwer: {{ enabled: true }}\n"), "uwer.enabled"),
        (format!("{REGIONS}{HUB}{origins}limits: {{ call_timeout: 31min }}\n"), "limits.call_timeout"),
        (
            format!("{REGIONS}{HUB}{origins}spool: {{ path: /t/s, key_file: /t/k, queues: [leg*] }}\n"),
            "spool.queues[0]",
        ),
        (format!("{REGIONS}{HUB}{}", origins.replace("inventory.sync", "Inventory")), "uwer.origins[0].type"),
        (format!("{REGIONS}{HUB}{}", origins.replace("legacy", "-legacy")), "uwer.origins[0].queue"),
        (format!("{REGIONS}{HUB}{}", origins.replace("origin: mail", "queue: mail")), "uwer.origins[1].origin"),
    ] {
        let problems = load_layers(&[&text], &[], &[]).expect_err(&text).problems;
        assert_eq!(problems.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), [key], "{text}");
    }
}
