//! Facts that manifests must hold, whatever else is changed in them.

use std::path::Path;
use std::time::Duration;

use ojs_sidecar::base::text::parse_duration;
use ojs_sidecar::config::{ClientListen, Config, Sources, load, schema};
use serde_json::{Value, json};

use crate::files::{check_judged, document, documents, judge, parse, path, read};
use crate::support::program_path;

const CONFIGS: [&str; 3] =
    ["deploy/kubernetes/sidecar/config.yaml", "deploy/compose/config.yaml", "deploy/systemd/config.yaml"];
/// The folder of the journal wherever the sidecar is deployed.
const STATE: &str = "/var/lib/ojs-sidecar";
/// Folders that are rendered, and the kind of the workload in each.
const WORKLOADS: [(&str, &str); 5] = [
    ("application", "Deployment"),
    ("statefulset", "StatefulSet"),
    ("daemonset", "DaemonSet"),
    ("job", "Job"),
    ("cronjob", "CronJob"),
];

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
        // Probes come from outside a pod and a container, and from the machine itself beside a unit.
        let admin = if name.contains("systemd") { "127.0.0.1:9464" } else { "0.0.0.0:9464" };
        assert_eq!(config.listen.admin.to_string(), admin, "{name}");
        assert_eq!(config.journal.path.unwrap().parent().unwrap(), Path::new(STATE), "{name}");
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
    // The journal's folder can be written and outlives the container; the configuration is mounted as a folder, which shows changes.
    let mounted =
        |path: &str| mounts.iter().find(|mount| mount["mountPath"] == path).unwrap_or_else(|| panic!("{path}"));
    let state = mounted(STATE);
    assert_ne!(state["readOnly"], true);
    assert!(volumes.iter().all(|it| it["name"] != state["name"] || it["emptyDir"].is_object()), "{volumes:#?}");
    assert!(mounted("/etc/ojs-sidecar").get("subPath").is_none());
    let containers = pod["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(
        containers.iter().all(|container| container.get("volumeMounts").is_none()),
        "keys are for the sidecar only"
    );
}

#[test]
fn the_kubernetes_component_holds_a_native_sidecar() {
    let patch = document("deploy/kubernetes/sidecar/patch.yaml");
    check_pod(&patch["spec"]["template"]["spec"]);
    assert!(patch["spec"]["template"]["spec"].get("securityContext").is_none(), "the pod's is the application's");
    let cron = document("deploy/kubernetes/sidecar/patch-cronjob.yaml");
    assert_eq!(cron["spec"]["jobTemplate"]["spec"], patch["spec"], "one sidecar for all kinds");
}

#[test]
fn the_monitor_and_the_optional_policy_select_the_pods_with_the_sidecar() {
    let patch = document("deploy/kubernetes/sidecar/patch.yaml");
    let label = &patch["spec"]["template"]["metadata"]["labels"];
    let monitor = document("deploy/kubernetes/sidecar/pod-monitor.yaml");
    assert_eq!(&monitor["spec"]["selector"]["matchLabels"], label);
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], "ojs-admin");
    let policy = document("deploy/kubernetes/network-policy/network-policy.yaml");
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
    for folder in
        ["sidecar", "network-policy", "await", "follow-hub"].into_iter().chain(WORKLOADS.map(|(folder, _)| folder))
    {
        let kustomization = document(&format!("deploy/kubernetes/{folder}/kustomization.yaml"));
        let listed = |key: &str| kustomization[key].as_array().cloned().unwrap_or_default();
        let patches = listed("patches").into_iter().map(|patch| patch["path"].clone());
        for file in listed("resources").into_iter().chain(patches) {
            assert!(!documents(&format!("deploy/kubernetes/{folder}/{}", file.as_str().unwrap())).is_empty());
        }
        let is_workload = WORKLOADS.iter().any(|(known, _)| *known == folder);
        assert_eq!(listed("components").contains(&json!("../sidecar")), is_workload, "{folder}");
    }
}

/// What kustomize makes of a folder; `None` where it is not installed.
fn rendered(folder: &str) -> Option<Vec<Value>> {
    rendered_at(&format!("deploy/kubernetes/{folder}"))
}

fn rendered_at(folder: &str) -> Option<Vec<Value>> {
    let output = judge("kubectl", &["kustomize", folder], "")?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(parse(&String::from_utf8(output.stdout).unwrap()))
}

fn of_kind<'a>(rendered: &'a [Value], kind: &str) -> &'a Value {
    rendered.iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {rendered:#?}"))
}

/// The pod of a workload.
fn pod_of(workload: &Value) -> &Value {
    let job = workload.pointer("/spec/jobTemplate").unwrap_or(workload);
    &job["spec"]["template"]["spec"]
}

#[test]
fn kustomize_puts_the_sidecar_into_every_kind_of_workload() {
    for (folder, kind) in WORKLOADS {
        let Some(rendered) = rendered(folder) else { return };
        let pod = pod_of(of_kind(&rendered, kind));
        let config = if folder == "statefulset" {
            // Its journal is on a claim, which is no volume of the pod.
            let claim = &of_kind(&rendered, kind)["spec"]["volumeClaimTemplates"][0]["metadata"]["name"];
            let mounts = array(named(array(pod, "/initContainers"), "ojs-sidecar"), "/volumeMounts");
            assert_eq!(named(mounts, claim.as_str().unwrap())["mountPath"], STATE);
            assert!(array(pod, "/volumes").iter().all(|volume| volume["name"] != *claim));
            "ojs-sidecar-statefulset".to_owned()
        } else {
            check_pod(pod);
            assert!(pod.get("securityContext").is_none(), "{folder}: the groups of the application's volumes stay");
            named(array(pod, "/volumes"), "ojs-sidecar")["configMap"]["name"].as_str().unwrap().to_owned()
        };
        // The name is the same whatever is in it: a change reaches running pods and rolls none.
        assert_eq!(of_kind(&rendered, "ConfigMap")["metadata"]["name"], config.as_str());
        let suffix = if folder == "application" { String::new() } else { format!("-{folder}") };
        assert_eq!(config, format!("ojs-sidecar{suffix}"));
        of_kind(&rendered, "PodMonitor");
        let restricted = rendered.iter().any(|document| document["kind"] == "NetworkPolicy");
        assert!(!restricted, "{folder}: a policy would hold for the application's own traffic");
    }
}

#[test]
fn kubernetes_accepts_every_workload_with_the_sidecar() {
    for (folder, _) in WORKLOADS {
        let Some(rendered) = rendered(folder) else { return };
        check_accepted(rendered);
    }
}

/// Holds that Kubernetes accepts these documents.
fn check_accepted(mut rendered: Vec<Value>) {
    // Its type belongs to the Prometheus operator.
    rendered.retain(|document| document["kind"] != "PodMonitor");
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let text: Vec<String> = rendered.iter().map(Value::to_string).collect();
    std::fs::write(file.path(), text.join("\n---\n")).unwrap();
    // The first release with native sidecars, and a present one.
    for version in ["1.29.0", "1.33.0"] {
        let arguments = ["-k", version, "--strict", file.path().to_str().unwrap()];
        check_judged("kubernetes-validate", &arguments, "");
    }
}

#[test]
fn the_optional_wait_stands_between_the_sidecar_and_the_application() {
    let Some(rendered) = rendered("cronjob") else { return };
    let init = array(pod_of(of_kind(&rendered, "CronJob")), "/initContainers");
    let names: Vec<&Value> = init.iter().map(|container| &container["name"]).collect();
    assert_eq!(names, ["ojs-sidecar", "ojs-await", "prepare"]);
    assert_eq!(init[1]["args"][0], "await");
    let [wait, cron] = ["await", "await-cronjob"].map(|name| document(&format!("deploy/kubernetes/await/{name}.yaml")));
    assert_eq!(wait[0]["value"], cron[0]["value"]);
}

#[test]
fn the_optional_component_makes_the_sidecar_follow_the_hubs_of_the_folder_beside_it() {
    let name = |file: &str| format!("deploy/kubernetes/follow-hub/{file}");
    let [patch, cron] = ["patch.yaml", "patch-cronjob.yaml"].map(|file| document(&name(file)));
    assert_eq!(cron["spec"]["jobTemplate"]["spec"], patch["spec"], "one sidecar for all kinds");
    let layers = [CONFIGS[0].to_owned(), name("hub.yaml")];
    let sources = Sources { files: layers.iter().map(|file| path(file)).collect(), ..Sources::default() };
    let hub = load(&sources).unwrap_or_else(|problems| panic!("{problems}")).config.hub.unwrap();
    let urls = &document(&name("hub.yaml"))["hub"]["urls"];
    let service = &documents("deploy/kubernetes/hub/service.yaml")[0];
    let (host, port) = (&service["metadata"]["name"], &service["spec"]["ports"][0]["port"]);
    let reached = format!("https://{}.ojs.svc:{port}", host.as_str().unwrap());
    assert_eq!(urls, &json!([reached]));
    // The workload of the application with both components, as kustomize renders it.
    let folder = tempfile::tempdir().unwrap();
    let own = ["application.yaml", "kustomization.yaml"]
        .map(|file| (file, read(&format!("deploy/kubernetes/application/{file}"))));
    let root = format!("{}/..", "../".repeat(folder.path().components().count()));
    let component = |it: &str| format!("{root}{}", path(&format!("deploy/kubernetes/{it}")).display());
    for (file, text) in own {
        let both = format!("components: [{}, {}]", component("sidecar"), component("follow-hub"));
        std::fs::write(folder.path().join(file), text.replace("components: [../sidecar]", &both)).unwrap();
    }
    let Some(rendered) = rendered_at(folder.path().to_str().unwrap()) else { return };
    let pod = pod_of(of_kind(&rendered, "Deployment"));
    check_pod(pod);
    let sidecar = named(array(pod, "/initContainers"), "ojs-sidecar");
    let files: Vec<&str> =
        array(sidecar, "/args").iter().filter_map(Value::as_str).filter(|it| it.ends_with("yaml")).collect();
    let map = of_kind(&rendered, "ConfigMap")["data"].as_object().unwrap();
    assert_eq!(files, map.keys().map(|file| format!("/etc/ojs-sidecar/{file}")).collect::<Vec<_>>());
    let mount = array(sidecar, "/volumeMounts").iter().find(|it| it["mountPath"] == "/tls/hub").unwrap();
    assert_eq!(
        named(array(pod, "/volumes"), mount["name"].as_str().unwrap())["secret"]["secretName"],
        "ojs-hub-client"
    );
    for file in [hub.tls.ca, hub.tls.cert, hub.tls.key].map(Option::unwrap) {
        assert_eq!(file.parent(), Some(Path::new("/tls/hub")), "{file:?}");
    }
    check_accepted(rendered);
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
    let volumes = array(sidecar, "/volumes");
    assert!(volumes.contains(&json!(format!("journal:{STATE}"))), "{volumes:?}");
    assert!(compose["volumes"].get("journal").is_some());
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
    for key in ["NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectHome", "MemoryDenyWriteExecute"] {
        assert_eq!(unit(key), ["yes"], "{key}");
    }
    assert_eq!(
        (unit("ProtectSystem"), unit("CapabilityBoundingSet")),
        (vec!["strict".to_owned()], vec![String::new()])
    );
}

#[test]
fn the_unit_may_write_its_journal_and_sees_certificates_that_are_replaced() {
    assert_eq!(unit("StateDirectory"), ["ojs-sidecar"], "{STATE} is of the unit's user");
    // Copies of credentials are made once, when the unit starts.
    assert_eq!((unit("LoadCredential"), unit("LoadCredentialEncrypted")), (vec![], vec![]));
    let sysusers = read("deploy/systemd/ojs-sidecar.sysusers.conf");
    assert_eq!(unit("User"), ["ojs-sidecar"]);
    assert!(sysusers.lines().any(|line| line.starts_with("u ojs-sidecar ")), "a user that files can belong to");
    for region in config(CONFIGS[2]).regions {
        for file in [region.tls.ca, region.tls.cert, region.tls.key].map(Option::unwrap) {
            let folder = Path::new("/etc/ojs-sidecar/tls").join(region.id.as_str());
            assert_eq!(file.parent(), Some(folder.as_path()), "each region has its own pair");
        }
    }
}

#[test]
fn systemd_understands_the_units_user() {
    let file = path("deploy/systemd/ojs-sidecar.sysusers.conf");
    check_judged("systemd-sysusers", &["--dry-run", file.to_str().unwrap()], "");
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
    assert_eq!(last("FROM").as_deref(), Some("FROM scratch"), "nothing but the program and its libraries");
    for label in ["title", "description", "licenses", "version", "revision"] {
        assert!(dockerfile.contains(&format!("org.opencontainers.image.{label}=")), "{label}");
    }
    assert!(dockerfile.contains(&format!("chown 65532:65532 /image{STATE}")), "the journal's folder can be written");
}

#[test]
fn the_demonstration_with_compose_uses_files_and_commands_that_exist() {
    let compose = document("deploy/compose/demo.yaml");
    let services = compose["services"].as_object().unwrap();
    assert!(services["sidecar"]["volumes"][0].as_str().unwrap().starts_with("../../config/dev.yaml:"));
    let dev = document("config/dev.yaml");
    let regions = array(&dev, "/regions");
    for region in regions {
        let (id, url) = (region["id"].as_str().unwrap(), region["url"].as_str().unwrap());
        let listen = url.strip_prefix("http://").unwrap();
        assert_eq!(array(&services[id], "/command"), ["region", "--listen", listen, "--id", id].map(Value::from));
    }
    assert_eq!((regions.len(), services.len()), (2, 3));
}
