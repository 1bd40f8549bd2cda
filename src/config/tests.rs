use std::time::Duration;

use super::*;
use crate::base::Strategy;

mod discovery;
mod loading;
mod rules;
mod scheduling;
mod schema;
mod topology;
mod uwer;

/// Two regions that break no rule; what a test is about is written after it.
pub(super) const REGIONS: &str = "\
local_region: us-east-1
regions:
  - { id: us-east-1, url: 'https://us.example.com', bearer_token_file: /t/us }
  - { id: eu-west-1, url: 'https://eu.example.com', bearer_token_file: /t/eu }
";

/// A word that stands in for a secret in the wrong place.
const CANARY: &str = "xyzzy-plugh-42";

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(key, text)| (key.to_owned(), text.to_owned())).collect()
}

/// Loads files of these texts, with their directory taken out of every origin.
pub(super) fn load_layers(files: &[&str], env: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Loaded, Problems> {
    load_by(load, files, env, flags)
}

/// Loads files of these texts, with the files that they name.
pub(super) fn load_layers_with_files(files: &[&str], misfit: FitCheck) -> Result<Loaded, Problems> {
    load_by(|sources| load_with_files(sources, misfit), files, &[], &[])
}

fn load_by(
    load: impl Fn(&Sources) -> Result<Loaded, Problems>,
    files: &[&str],
    env: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Loaded, Problems> {
    let dir = tempfile::tempdir().unwrap();
    let named = files.iter().enumerate().map(|(at, text)| {
        let path = dir.path().join(if at == 0 { "config.yaml".to_owned() } else { format!("config-{at}.yaml") });
        std::fs::write(&path, text).unwrap();
        path
    });
    let sources = Sources { files: named.collect(), env: pairs(env), flags: pairs(flags) };
    let prefix = format!("{}/", dir.path().display());
    let bare = |problems: &mut Vec<Problem>| {
        problems.iter_mut().for_each(|problem| problem.origin = problem.origin.replace(&prefix, ""));
    };
    match load(&sources) {
        Ok(mut loaded) => {
            bare(&mut loaded.warnings);
            Ok(loaded)
        }
        Err(mut problems) => {
            bare(&mut problems.problems);
            bare(&mut problems.warnings);
            Err(problems)
        }
    }
}

/// Loads one file that must be right.
pub(super) fn loaded(text: &str) -> Loaded {
    load_layers(&[text], &[], &[]).unwrap_or_else(|problems| panic!("{problems}\nin\n{text}"))
}

/// The configuration of these regions with every key as documented.
pub(crate) fn documented(regions: &[&str]) -> Config {
    let region = |id: &&str| format!("  - {{ id: {id}, url: 'https://{id}' }}\n");
    loaded(&format!("regions:\n{}", regions.iter().map(region).collect::<String>())).config
}

/// Key and origin of everything that is wrong with one file.
fn wrong(text: &str) -> Vec<(String, String)> {
    let problems = load_layers(&[text], &[], &[]).expect_err(text);
    problems.problems.into_iter().map(|problem| (problem.key, problem.origin)).collect()
}

/// Keys of the warnings of one file that must be right.
fn warned(text: &str) -> Vec<String> {
    loaded(text).warnings.into_iter().map(|warning| warning.key).collect()
}

#[test]
fn the_minimal_file_loads_with_every_default_and_no_warning() {
    let loaded = loaded(include_str!("../../config/minimal.yaml"));
    assert_eq!(loaded.warnings, []);
    let config = loaded.config;
    let clients: Vec<_> = ["127.0.0.1:8080", "[::1]:8080"]
        .map(|address| ClientListen::Tcp { address: address.parse().unwrap(), optional: true })
        .into();
    assert_eq!(config.listen.clients, clients);
    assert_eq!(config.listen.unix_mode, 0o660);
    assert_eq!(config.routing.strategy, Strategy::Affinity);
    assert_eq!(config.circuit_breaker.cooldown_max, Duration::from_secs(60));
    assert_eq!((config.limits.body_bytes, config.limits.buffered_bytes), (10 << 20, 64 << 20));
    assert_eq!(config.limits.stream_idle_timeout, Duration::from_secs(300));
    assert!(config.regions.iter().all(|region| region.weight == 1));
    let forwards: Vec<bool> = config.regions.iter().map(|region| region.forward_authorization).collect();
    assert_eq!(forwards, [true, false]);
}

#[test]
fn the_example_loads_without_warning_and_shows_every_key_with_its_default() {
    let text = include_str!("../../config/example.yaml");
    assert_eq!(loaded(text).warnings, []);
    let mut problems = Vec::new();
    let document = document::parse(text, "example.yaml", &mut problems).unwrap();
    for key in keys() {
        let name = key.path.rsplit('.').next().unwrap();
        if !key.honoured {
            assert!(text.contains(name), "{} is not mentioned", key.path);
            continue;
        }
        // They stand in the place of `server_name`, and of `strategy`, as the comments there say.
        if ["hub.tls.uri_san", "scheduling.pool"].contains(&key.path) {
            continue;
        }
        assert!(document.places.keys().any(|path| keys::generic(path) == key.path), "{} is missing", key.path);
        // A spool needs a queue, and none is the default.
        let has_default = !key.path.contains("[]") && key.path != "spool.queues";
        let Some(default) = key.default.filter(|_| has_default) else { continue };
        let shown = figment::value::Value::from(document.settings.clone()).find(key.path).unwrap();
        let (shown, default) = (key.kind.settle(shown), key.kind.settle(key.kind.read(default)));
        assert_eq!(shown, default, "{} is shown with another value than its default", key.path);
    }
}

#[test]
fn every_default_of_the_table_is_of_its_own_kind() {
    for key in keys() {
        if let Some(default) = key.default {
            assert!(key.kind.settle(key.kind.read(default)).is_ok(), "{}", key.path);
        }
    }
}

#[test]
fn the_effective_configuration_reads_back_as_itself() {
    let quoting = "federation_id: \"a: 'b' \\\"c\\\" #d é\\u2028\"\nlisten: { clients: [unix:/run/a] }\n";
    let long =
        "circuit_breaker: { cooldown: 90s }\nrouting: { rules: [{ match: {}, target: { strategy: overflow } }] }\n";
    for text in [
        include_str!("../../config/minimal.yaml"),
        include_str!("../../config/example.yaml"),
        &format!("{quoting}{REGIONS}"),
        &format!("{long}{REGIONS}"),
    ] {
        let first = effective(&loaded(text).config);
        assert_eq!(effective(&loaded(&first).config), first);
    }
}

#[test]
fn no_value_is_ever_repeated() {
    // Each key of the table with a wrong value, in a file, a variable and a flag; then broken documents.
    let mut outputs = Vec::new();
    for key in keys() {
        let path = key.path.replace("[]", "");
        let (sections, name) = path.rsplit_once('.').unwrap_or(("", &path));
        for wrong in [format!("{{ a: {CANARY} }}"), format!("[[{CANARY}]]"), format!("\"{CANARY}\\n://\"")] {
            let mut text = format!("{name}: {wrong}");
            for section in sections.split('.').rev().filter(|section| !section.is_empty()) {
                text = format!("{section}: {{ {text} }}");
            }
            outputs.push(load_layers(&[&text.replace("rules: {", "rules: [{")], &[], &[]));
            outputs.push(load_layers(&[&format!("regions: [{{ {name}: {wrong} }}]")], &[], &[]));
        }
        let variable = format!("OJSF_{}", path.to_ascii_uppercase().replace('.', "__"));
        outputs.push(load_layers(&[], &[(&variable, CANARY)], &[(&path, CANARY)]));
    }
    for text in [
        format!("a: [{CANARY}"),
        format!("a: \"{CANARY}"),
        format!("a: *{CANARY}"),
        CANARY.to_owned(),
        format!("- {CANARY}"),
        format!("a: !!int {CANARY}"),
        format!("a: {CANARY}\n b: {CANARY}: {CANARY}"),
        format!("a: 1\n--- {CANARY}"),
        format!("regions: [{{ url: 'https://u:{CANARY}@example.com', bearer_token: {CANARY}, id: '{CANARY}!' }}]"),
        format!("regions: [{{ tls: {{ key: \"-----BEGIN {} KEY-----\\n{CANARY}\" }} }}]", "PRIVATE"),
        format!("a: &x {CANARY}\na: *x"),
        format!("<<: {CANARY}"),
        format!("a: @{CANARY}"),
        format!("%{CANARY}"),
    ] {
        outputs.push(load_layers(&[&text], &[], &[]));
    }
    for output in outputs {
        let problems = output.expect_err("none of these is a configuration");
        assert!(!problems.to_string().contains(CANARY), "{problems}");
        assert!(!format!("{problems:?}").contains(CANARY), "{problems:?}");
    }
}

#[test]
fn five_mistakes_are_reported_at_once_with_their_places() {
    let text = "\
local_region: mars
routing:
  stratgy: affinity
health_check:
  interval: 10
regions:
  - id: us-east-1
    url: http://us.example.com
    tls:
      cert: /c.pem
";
    let problems = load_layers(&[text], &[("OJSF_LOG__FORMAT", "yaml")], &[]).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "6 problems in the configuration\
        \n  health_check.interval (config.yaml:5): expected a duration from 1ms to 24h with its unit, such as 250ms, 10s, 5min or 7d\
        \n  local_region (config.yaml:1): expected the id of a region listed under regions\
        \n  log.format (variable OJSF_LOG__FORMAT): expected one of text, json\
        \n  regions[0].tls.key (config.yaml:9): expected the private key of the certificate in cert\
        \n  regions[0].url (config.yaml:8): expected https: http is for loopback hosts with insecure_dev: true\
        \n  routing.stratgy (config.yaml:3): there is no such key; did you mean strategy?"
    );
}
