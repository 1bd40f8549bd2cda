//! Facts that the manifests of a hub must hold.

use std::path::Path;

use ojs_sidecar::hub::Settings;
use serde_json::{Value, json};

use crate::files::{check_judged, document, documents, path, read};
use crate::support::program_path;

const FOLDER: &str = "deploy/kubernetes/hub";
const PORTS: (u16, u16) = (8443, 9465);

fn settings(name: &str) -> Settings {
    Settings::load(&path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn pod(file: &str) -> Value {
    document(&format!("{FOLDER}/{file}"))["spec"]["template"]["spec"].clone()
}

#[test]
fn every_configuration_of_a_hub_that_is_deployed_is_read_and_lasts() {
    for name in ["deploy/kubernetes/hub/hub.yaml", "deploy/compose/hub-config.yaml", "deploy/systemd/hub.yaml"] {
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
}

#[test]
fn systemd_understands_the_unit_of_the_hub() {
    let unit = read("deploy/systemd/ojs-hub.service");
    assert!(unit.contains("StateDirectory=ojs-hub\n") && unit.contains("RestartPreventExitStatus=78\n"));
    let settings = settings("deploy/systemd/hub.yaml");
    assert_eq!(settings.record.path.unwrap().parent(), Some(Path::new("/var/lib/ojs-hub")));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ojs-hub.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/ojs-sidecar", program_path().to_str().unwrap())).unwrap();
    check_judged("systemd-analyze", &["verify", "--man=no", file.to_str().unwrap()], "");
}
