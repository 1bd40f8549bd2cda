use super::super::tests::{REGIONS, load_layers_with_files};
use super::*;

/// What is wrong with the files that a configuration names, and with the configuration.
fn problems_of(text: &str) -> Vec<String> {
    let problems = load_layers_with_files(&[text], |_, _| None).map_or_else(|it| it.problems, |_| Vec::new());
    problems.iter().map(Problem::to_string).collect()
}

/// Writes `content`, names the file under `key`, and says what is wrong with it.
fn check(key: &str, content: Option<&[u8]>, expected: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("material");
    if let Some(content) = content {
        std::fs::write(&path, content).unwrap();
    }
    let setting = match key.strip_prefix("tls.") {
        Some("ca") => format!("tls: {{ ca: {} }}", path.display()),
        Some(_) => format!("tls: {{ cert: {0}, key: {0} }}", path.display()),
        None => format!("{key}: {}", path.display()),
    };
    let problems = problems_of(&format!("regions: [{{ id: a, url: 'https://a.example', {setting} }}]"));
    let shown = format!(" ({})", path.display());
    let problems: Vec<String> = problems.iter().map(|problem| problem.replace(&shown, " (FILE)")).collect();
    assert_eq!(problems, expected, "{key}");
}

/// A throw-away certificate and its key.
fn material() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_file_that_is_missing_or_holds_something_else_is_named_by_its_key() {
    check("tls.ca", None, &["regions[0].tls.ca (config.yaml:1): file not found, expected PEM certificates"]);
    let token = "regions[0].bearer_token_file (config.yaml:1): ";
    check("bearer_token_file", None, &[&format!("{token}file not found, expected a bearer token on one line")]);
    for wrong in [&b""[..], b"\n", b"a b", b"a\nb\n", b"\xff"] {
        let expected = format!("{token}the file holds something else (FILE), expected a bearer token on one line");
        check("bearer_token_file", Some(wrong), &[&expected]);
    }
    check(
        "tls.key",
        Some(b"no PEM"),
        &[
            "regions[0].tls.cert (config.yaml:1): the file holds something else (FILE), expected PEM certificates",
            "regions[0].tls.key (config.yaml:1): the file holds something else (FILE), expected a PEM private key",
        ],
    );
    let long = vec![b'a'; (1 << 20) + 1];
    check(
        "bearer_token_file",
        Some(&long),
        &[&format!("{token}the file is longer than 1 MiB (FILE), expected a bearer token on one line")],
    );
}

#[test]
fn files_that_hold_what_they_should_pass() {
    let (certificate, key) = material();
    check("tls.ca", Some(certificate.as_bytes()), &[]);
    check("tls.key", Some(format!("{certificate}{key}").as_bytes()), &[]);
    check("bearer_token_file", Some(b"abc.def-_~+/=\n"), &[]);
}

#[test]
fn a_directory_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let setting = format!("regions: [{{ id: a, url: 'https://a.example', tls: {{ ca: {} }} }}]", dir.path().display());
    assert_eq!(problems_of(&setting).len(), 1);
}

#[test]
fn files_are_looked_at_beside_wrong_keys_in_the_place_as_written() {
    let text = "regions: [x, { id: a, url: 'http://a.example', bearer_token_file: /nowhere, tls: { ca: 7 } }]";
    let problems = problems_of(text);
    let keys: Vec<_> = problems.iter().filter_map(|problem| problem.split_once(" (")).map(|(key, _)| key).collect();
    assert_eq!(keys, ["regions[0]", "regions[1].tls.ca", "regions[1].url", "regions[1].bearer_token_file"]);
}

#[test]
fn files_of_a_region_are_compared_unless_a_key_of_theirs_is_wrong() {
    let misfit: FitCheck = |place, region| {
        let key = format!("regions[{place}]");
        Some(Problem { key, origin: region.id.as_str().to_owned(), rule: "the files do not fit".to_owned() })
    };
    let text = "log: { level: loud }\nregions:\n- { id: a, url: 'https://a.example' }\n\
                - { id: b, url: 'https://b.example', weight: -1 }\n- { id: c, url: 'https://c.example', bearer_token_file: /nowhere }\n\
                - { id: d, url: 'https://d.example' }\n";
    let problems = load_layers_with_files(&[text], misfit).unwrap_err().problems;
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(
        keys,
        ["log.level", "regions[1].weight", "regions[0]", "regions[1]", "regions[2].bearer_token_file", "regions[3]"]
    );
    assert!(load_layers_with_files(&[REGIONS], misfit).is_err(), "both files are missing");
}
