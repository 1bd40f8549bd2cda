//! Facts that the manifests of a hub must hold.

use std::path::Path;

use ojs_sidecar::hub::Settings;
use ojs_testbed::Authority;
use serde_json::{Value, json};

use crate::files::{check_judged, document, documents, path, read};
use crate::support::{command, program_path};

const FOLDER: &str = "deploy/kubernetes/hub";
const CONFIGS: [&str; 3] =
    ["deploy/kubernetes/hub/hub.yaml", "deploy/compose/hub-config.yaml", "deploy/systemd/hub.yaml"];
const PORTS: (u16, u16) = (8443, 9465);

fn settings(name: &str) -> Settings {
    Settings::load(&path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn pod(file: &str) -> Value {
    document(&format!("{FOLDER}/{file}"))["spec"]["template"]["spec"].clone()
}

#[test]
fn every_configuration_of_a_hub_that_is_deployed_is_read_and_lasts() {
    for name in CONFIGS {
        let settings = settings(name);
        assert_eq!((settings.listen.port(), settings.admin.port()), PORTS, "{name}");
        // Probes come from outside a pod and a container, and from the machine itself beside a unit.
        assert_eq!(settings.admin.ip().is_loopback(), name.contains("systemd"), "{name}");
        assert!(settings.record.path.is_some() || settings.record.postgres.is_some(), "{name}: a restart forgets all");
    }
}

#[test]
fn the_pods_of_the_hub_mount_every_file_that_the_configuration_names() {
    let settings = settings("deploy/kubernetes/hub/hub.yaml");
    let postgres = settings.record.postgres.unwrap();
    let files = [settings.tls.cert, settings.tls.key, settings.tls.client_ca, postgres.tls.unwrap().ca];
    for file in ["deployment.yaml", "migration.yaml"] {
        let pod = pod(file);
        assert_eq!(
            (&pod["securityContext"]["runAsNonRoot"], &pod["automountServiceAccountToken"]),
            (&json!(true), &json!(false))
        );
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        assert_eq!(
            (&security["readOnlyRootFilesystem"], &security["capabilities"]["drop"]),
            (&json!(true), &json!(["ALL"]))
        );
        let mounts = container["volumeMounts"].as_array().unwrap();
        let named = files.iter().chain(&postgres.password_file).map(|file| file.parent().unwrap());
        for folder in named.chain([Path::new("/etc/ojs-hub")]) {
            let mount = mounts.iter().find(|mount| mount["mountPath"] == folder.to_str().unwrap());
            let mount = mount.unwrap_or_else(|| panic!("{file}: nothing is mounted at {folder:?}"));
            assert!(pod["volumes"].as_array().unwrap().iter().any(|volume| volume["name"] == mount["name"]), "{mount}");
        }
    }
    let migration = pod("migration.yaml");
    assert_eq!(migration["containers"][0]["args"].as_array().unwrap().last(), Some(&json!("--migrate")));
}

#[test]
fn the_service_and_the_probes_of_the_hub_reach_its_listeners() {
    let deployment = document("deploy/kubernetes/hub/deployment.yaml");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["ports"],
        json!([{ "name": "hub", "containerPort": PORTS.0 }, { "name": "admin", "containerPort": PORTS.1 }])
    );
    for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({ "path": path, "port": "admin" }));
    }
    let label = &deployment["spec"]["selector"]["matchLabels"];
    assert_eq!(&deployment["spec"]["template"]["metadata"]["labels"], label);
    let [service, budget] = &documents("deploy/kubernetes/hub/service.yaml")[..] else { panic!("two documents") };
    assert_eq!((&service["spec"]["selector"], &service["spec"]["ports"][0]["targetPort"]), (label, &json!("hub")));
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], label);
    assert!(deployment["spec"]["replicas"].as_u64() > budget["spec"]["minAvailable"].as_u64());
    assert_eq!(&document("deploy/kubernetes/hub/pod-monitor.yaml")["spec"]["selector"]["matchLabels"], label);
}

#[test]
fn the_policy_of_the_hub_selects_its_pods_and_lets_through_what_they_need() {
    let policy = document("deploy/kubernetes/hub/network-policy.yaml");
    let selected = &policy["spec"]["podSelector"]["matchExpressions"][0];
    let pods = ["deployment.yaml", "migration.yaml"].map(|file| document(&format!("{FOLDER}/{file}")));
    let labels = pods.map(|it| it["spec"]["template"]["metadata"]["labels"]["app"].clone());
    assert_eq!((&selected["key"], &selected["values"]), (&json!("app"), &json!(labels)));
    let ports =
        |rule: &Value| rule["ports"].as_array().unwrap().iter().map(|it| it["port"].clone()).collect::<Vec<_>>();
    let [clients, admin] = &policy["spec"]["ingress"].as_array().unwrap()[..] else { panic!("two ways in: {policy}") };
    assert_eq!((ports(clients), ports(admin)), (vec![json!(PORTS.0)], vec![json!(PORTS.1)]));
    assert!(clients.get("from").is_none() && admin["from"].is_array(), "the admin listener has no authentication");
    let out: Vec<Value> = policy["spec"]["egress"].as_array().unwrap().iter().flat_map(ports).collect();
    for host in settings("deploy/kubernetes/hub/hub.yaml").record.postgres.unwrap().hosts {
        let port: u16 = host.rsplit_once(':').unwrap().1.parse().unwrap();
        assert!(out.contains(&json!(port)), "{host}: {out:?}");
    }
    // Those of sidecars, where they are isolated.
    let sidecars = document("deploy/kubernetes/network-policy/network-policy.yaml");
    let out: Vec<Value> = sidecars["spec"]["egress"].as_array().unwrap().iter().flat_map(ports).collect();
    assert!(out.contains(&json!(PORTS.0)), "{out:?}");
}

#[test]
fn a_hub_accepts_each_deployed_configuration_once_the_files_that_it_names_are_there() {
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new("clients of the hub");
    let identity = authority.server(&["localhost"]).write_to(files.path(), "hub").unwrap();
    for (name, content) in [("tls.crt", Some(&identity.cert)), ("tls.key", Some(&identity.key)), ("ca.crt", None)] {
        let text = content.map_or_else(|| authority.ca_pem(), |file| std::fs::read_to_string(file).unwrap());
        std::fs::write(files.path().join(name), text).unwrap();
    }
    for name in ["password", "hub-password"] {
        std::fs::write(files.path().join(name), "x").unwrap();
    }
    let check = |folder: &str, name: &str| {
        let folders = ["/etc/ojs-hub/tls/", "/tls/hub/", "/database/", "/run/secrets/"];
        let here = folders.iter().fold(read(name), |text, of| text.replace(of, &format!("{folder}/")));
        let file = files.path().join("hub.yaml");
        std::fs::write(&file, here).unwrap();
        command(&["hub", "--config", file.to_str().unwrap(), "--check"], &[], "")
    };
    for name in CONFIGS {
        let ended = check(files.path().to_str().unwrap(), name);
        assert!(ended.code == Some(0), "{name}: {}", ended.all());
        // Each of them names files: without these, the same configuration is refused.
        assert_eq!(check("/nowhere", name).code, Some(78), "{name}");
    }
}

#[test]
fn the_kustomization_of_the_hub_lists_files_that_exist_and_kubernetes_accepts_them() {
    let kustomization = document("deploy/kubernetes/hub/kustomization.yaml");
    for file in kustomization["resources"].as_array().unwrap() {
        let name = format!("{FOLDER}/{}", file.as_str().unwrap());
        for document in documents(&name) {
            // Its type belongs to the Prometheus operator.
            if document["kind"] == "PodMonitor" {
                continue;
            }
            let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
            std::fs::write(file.path(), document.to_string()).unwrap();
            for version in ["1.29.0", "1.33.0"] {
                check_judged("kubernetes-validate", &["-k", version, "--strict", file.path().to_str().unwrap()], "");
            }
        }
    }
    assert_eq!(kustomization["configMapGenerator"][0]["files"], json!(["hub.yaml"]));
}

#[test]
fn compose_runs_two_hubs_on_one_database() {
    let compose = document("deploy/compose/hub.yaml");
    let settings = settings("deploy/compose/hub-config.yaml");
    let postgres = settings.record.postgres.unwrap();
    let database = &compose["services"]["database"];
    assert_eq!(database["environment"]["POSTGRES_USER"], postgres.user.as_str());
    assert_eq!(database["environment"]["POSTGRES_DB"], postgres.database.as_str());
    let hub = &compose["services"]["hub-a"];
    let mounts: Vec<&str> = hub["volumes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for (source, target) in [
        ("./hub-config.yaml", "/etc/ojs-hub/hub.yaml"),
        ("./hub-certs", "/tls/hub"),
        ("socket", postgres.hosts[0].as_str()),
    ] {
        assert!(mounts.iter().any(|mount| mount.trim_end_matches(":ro") == format!("{source}:{target}")), "{mounts:?}");
    }
    assert!(path("deploy/compose/hub-config.yaml").exists());
    let secret = postgres.password_file.unwrap();
    assert_eq!(secret.parent(), Some(Path::new("/run/secrets")));
    let secret = json!([secret.file_name().unwrap().to_str().unwrap()]);
    assert_eq!((&hub["secrets"], &database["secrets"]), (&secret, &secret));
    let sidecar = &document("deploy/compose/compose.yaml")["services"]["sidecar"];
    for key in ["build", "image", "read_only", "cap_drop", "security_opt", "restart"] {
        assert_eq!(hub[key], sidecar[key], "{key}");
    }
    // Without the host of a registry, and with the listener that has no authentication on loopback only.
    assert!(database["image"].as_str().unwrap().starts_with("postgres:"));
    for (name, ports) in [("hub-a", (8443, 9465)), ("hub-b", (8444, 9466))] {
        let published = [format!("{}:{}", ports.0, PORTS.0), format!("127.0.0.1:{}:{}", ports.1, PORTS.1)];
        assert_eq!(compose["services"][name]["ports"], json!(published), "{name}");
    }
}

#[test]
fn systemd_understands_the_unit_of_the_hub() {
    let unit = read("deploy/systemd/ojs-hub.service");
    assert!(unit.contains("StateDirectory=ojs-hub\n") && unit.contains("RestartPreventExitStatus=78\n"));
    let sidecar = read("deploy/systemd/ojs-sidecar.service");
    let [hardening, of_sidecar] = [&unit, &sidecar].map(|it| it.split_once("CapabilityBoundingSet=").unwrap().1);
    assert_eq!(hardening, of_sidecar, "as strict as that of the sidecar");
    let settings = settings("deploy/systemd/hub.yaml");
    assert_eq!(settings.record.path.unwrap().parent(), Some(Path::new("/var/lib/ojs-hub")));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ojs-hub.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/ojs-sidecar", program_path().to_str().unwrap())).unwrap();
    check_judged("systemd-analyze", &["verify", "--man=no", file.to_str().unwrap()], "");
}
