//! Facts that manifests must hold, whatever else is changed in them.

use std::time::Duration;

use ojs_sidecar::base::text::parse_duration;
use ojs_sidecar::config::{ClientListen, Config, Sources, load, schema};
use serde_json::{Value, json};

use crate::files::{check_judged, document, documents, judge, parse, path, read};
use crate::support::program_path;

const CONFIGS: [&str; 2] = ["deploy/kubernetes/sidecar/config.yaml", "deploy/compose/config.yaml"];

fn config(name: &str) -> Config {
    let sources = Sources { files: vec![path(name)], ..Sources::default() };
    let loaded = load(&sources).unwrap_or_else(|problems| panic!("{name}: {problems}"));
    assert_eq!(loaded.warnings, [], "{name}");
    loaded.config
}

fn array<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{pointer} is missing in {value:#}"))
}

fn named<'a>(list: &'a [Value], name: &str) -> &'a Value {
    list.iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {name} in {list:#?}"))
}

#[test]
fn every_configuration_that_is_deployed_loads_without_warning_and_fits_the_schema() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for name in CONFIGS {
        let config = config(name);
        assert_eq!(config.listen.admin.to_string(), "0.0.0.0:9464", "{name}: probes come from outside");
        let document = document(name);
        let wrong: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
    }
}

/// The facts of a pod with the sidecar in it.
fn check_pod(pod: &Value) {
    let sidecar = named(array(pod, "/initContainers"), "ojs-sidecar");
    assert_eq!(sidecar["restartPolicy"], "Always", "a native sidecar");
    for (probe, path) in [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        assert_eq!(sidecar[probe]["httpGet"], json!({ "path": path, "port": "ojs-admin" }), "{probe}");
    }
    let admin = config(CONFIGS[0]).listen.admin.port();
    assert_eq!(named(array(sidecar, "/ports"), "ojs-admin")["containerPort"], admin);
    let drain = config(CONFIGS[0]).shutdown.drain_timeout;
    let grace = Duration::from_secs(pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    assert!(grace > drain, "{grace:?} is not above the drain, {drain:?}");
    for pointer in ["/resources/requests/cpu", "/resources/requests/memory", "/resources/limits/memory"] {
        assert!(sidecar.pointer(pointer).is_some(), "{pointer}");
    }
    let security = &sidecar["securityContext"];
    assert_eq!(security["runAsNonRoot"], true);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    // Every file that the configuration names lies in a secret that is mounted for the sidecar.
    let mounts = array(sidecar, "/volumeMounts");
    let volumes = array(pod, "/volumes");
    for region in config(CONFIGS[0]).regions {
        let tls = region.tls;
        for file in [tls.ca, tls.cert, tls.key].map(Option::unwrap) {
            let folder = file.parent().unwrap().to_str().unwrap();
            let mount = mounts.iter().find(|mount| mount["mountPath"] == folder).unwrap_or_else(|| panic!("{folder}"));
            assert_eq!(mount["readOnly"], true);
            assert!(named(volumes, mount["name"].as_str().unwrap())["secret"]["secretName"].is_string());
        }
    }
    let containers = pod["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(
        containers.iter().all(|container| container.get("volumeMounts").is_none()),
        "keys are for the sidecar only"
    );
}

#[test]
fn the_kubernetes_component_holds_a_native_sidecar() {
    check_pod(&document("deploy/kubernetes/sidecar/patch.yaml")["spec"]["template"]["spec"]);
}

#[test]
fn the_monitor_and_the_network_policy_select_the_pods_with_the_sidecar() {
    let patch = document("deploy/kubernetes/sidecar/patch.yaml");
    let label = &patch["spec"]["template"]["metadata"]["labels"];
    let monitor = document("deploy/kubernetes/sidecar/pod-monitor.yaml");
    assert_eq!(&monitor["spec"]["selector"]["matchLabels"], label);
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], "ojs-admin");
    let policy = document("deploy/kubernetes/sidecar/network-policy.yaml");
    assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], label);
    let ports: Vec<&Value> = array(&policy, "/spec/ingress/0/ports").iter().map(|port| &port["port"]).collect();
    assert_eq!(ports, [9464], "clients are within the pod");
}

#[test]
fn the_jobs_pod_ends_when_its_own_container_does() {
    let job = document("deploy/kubernetes/job/job.yaml");
    assert_eq!(job["kind"], "Job");
    assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
    assert!(job["spec"]["template"]["spec"].get("initContainers").is_none(), "the sidecar comes from the component");
}

#[test]
fn every_kustomization_lists_files_that_exist() {
    for (folder, component) in [("sidecar", false), ("application", true), ("job", true)] {
        let kustomization = document(&format!("deploy/kubernetes/{folder}/kustomization.yaml"));
        for resource in array(&kustomization, "/resources") {
            assert!(!documents(&format!("deploy/kubernetes/{folder}/{}", resource.as_str().unwrap())).is_empty());
        }
        assert_eq!(kustomization["components"] == json!(["../sidecar"]), component, "{folder}");
    }
}

#[test]
fn kustomize_puts_the_sidecar_into_the_application_and_the_job() {
    for (folder, kind) in [("application", "Deployment"), ("job", "Job")] {
        let Some(output) = judge("kubectl", &["kustomize", &format!("deploy/kubernetes/{folder}")], "") else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rendered = parse(&String::from_utf8(output.stdout).unwrap());
        let of_kind = |kind: &str| rendered.iter().find(|document| document["kind"] == kind).unwrap();
        let pod = &of_kind(kind)["spec"]["template"]["spec"];
        check_pod(pod);
        let config = named(array(pod, "/volumes"), "ojs-sidecar")["configMap"]["name"].clone();
        assert_eq!(of_kind("ConfigMap")["metadata"]["name"], config);
        assert!(rendered.iter().any(|document| document["kind"] == "PodMonitor"));
        assert!(rendered.iter().any(|document| document["kind"] == "NetworkPolicy"));
    }
}

#[test]
fn compose_shares_the_applications_network_and_asks_the_binary_for_its_health() {
    let compose = document("deploy/compose/compose.yaml");
    let sidecar = &compose["services"]["sidecar"];
    assert_eq!(sidecar["network_mode"], "service:app");
    assert_eq!(sidecar["healthcheck"]["test"], json!(["CMD", "/usr/local/bin/ojs-sidecar", "healthcheck"]));
    let grace = parse_duration(sidecar["stop_grace_period"].as_str().unwrap()).unwrap();
    assert!(grace > config(CONFIGS[1]).shutdown.drain_timeout);
    assert!(sidecar.get("ports").is_none(), "ports are published where the namespace is");
}

/// The values of a key of the unit.
fn unit(key: &str) -> Vec<String> {
    let unit = read("deploy/systemd/ojs-sidecar.service");
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned).collect()
}

#[test]
fn the_unit_waits_for_readiness_and_for_the_drain_and_gives_nothing_away() {
    assert_eq!(unit("Type"), ["notify"]);
    assert_eq!(unit("RestartPreventExitStatus"), ["78"]);
    let stop = Duration::from_secs(unit("TimeoutStopSec")[0].parse().unwrap());
    assert!(stop > config(CONFIGS[0]).shutdown.drain_timeout);
    for key in
        ["DynamicUser", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectHome", "MemoryDenyWriteExecute"]
    {
        assert_eq!(unit(key), ["yes"], "{key}");
    }
    assert_eq!(
        (unit("ProtectSystem"), unit("CapabilityBoundingSet")),
        (vec!["strict".to_owned()], vec![String::new()])
    );
}

#[test]
fn systemd_understands_the_unit() {
    let dir = tempfile::tempdir().unwrap();
    let here = read("deploy/systemd/ojs-sidecar.service");
    let here = here.replace("/usr/local/bin/ojs-sidecar", program_path().to_str().unwrap());
    let unit = dir.path().join("ojs-sidecar.service");
    std::fs::write(&unit, here).unwrap();
    let socket = dir.path().join("ojs-sidecar.socket");
    std::fs::write(&socket, read("deploy/systemd/ojs-sidecar.socket")).unwrap();
    let units = [unit.to_str().unwrap(), socket.to_str().unwrap()];
    check_judged("systemd-analyze", &["verify", "--man=no", units[0], units[1]], "");
}

#[test]
fn the_socket_unit_holds_every_address_that_is_listened_on() {
    let unit = read("deploy/systemd/ojs-sidecar.socket");
    let held: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("ListenStream=")).map(str::to_owned).collect();
    let listen = config("config/minimal.yaml").listen;
    let address = |client: &ClientListen| match client {
        ClientListen::Tcp { address, .. } => address.to_string(),
        ClientListen::Unix { path } => path.display().to_string(),
    };
    let listened: Vec<_> = listen.clients.iter().map(address).chain([listen.admin.to_string()]).collect();
    assert_eq!(held, listened);
}

#[test]
fn the_image_runs_as_nobody_and_asks_the_binary_for_its_health() {
    let dockerfile = read("Dockerfile");
    let last = |word: &str| dockerfile.lines().rfind(|line| line.starts_with(word)).map(str::to_owned);
    assert_eq!(last("USER").as_deref(), Some("USER 65532:65532"));
    assert!(last("HEALTHCHECK").unwrap().ends_with("[\"/usr/local/bin/ojs-sidecar\", \"healthcheck\"]"));
    assert_eq!(dockerfile.lines().filter(|line| line.starts_with("FROM ")).count(), 2, "the compiler stays behind");
}
