//! Federations of any number of regions, without sockets.

use ojs_sidecar::config::{Config, Sources, load};
use ojs_sidecar::policy::{Health, View};

/// So many regions, the first one local, everything else as documented.
pub(crate) fn config(regions: usize) -> Config {
    let mut yaml = String::from("insecure_dev: true\nlocal_region: region-0\nregions:\n");
    (0..regions)
        .for_each(|number| yaml.push_str(&format!("- {{ id: region-{number}, url: \"http://127.0.0.1:1\" }}\n")));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, yaml).unwrap();
    load(&Sources { files: vec![file], ..Sources::default() }).unwrap_or_else(|problems| panic!("{problems}")).config
}

/// All of them healthy, each at another distance.
pub(crate) fn healthy(config: &Config) -> View {
    let mut view = View::unprobed(config);
    for (region, latency) in view.regions.iter_mut().zip(1..) {
        region.health = Health::Healthy;
        region.latency = Some(std::time::Duration::from_millis(latency));
    }
    view
}
