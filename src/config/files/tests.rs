use super::super::tests::loaded;
use super::*;

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
    let config = loaded(&format!("regions: [{{ id: a, url: 'https://a.example', {setting} }}]")).config;
    let problems: Vec<String> = check_files(&config).iter().map(Problem::to_string).collect();
    assert_eq!(problems, expected, "{key}");
}

/// A throw-away certificate and its key.
fn material() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_file_that_is_missing_or_holds_something_else_is_named_by_its_key() {
    check("tls.ca", None, &["regions[0].tls.ca (the file it names): file not found, expected PEM certificates"]);
    let token = "regions[0].bearer_token_file (the file it names): ";
    check("bearer_token_file", None, &[&format!("{token}file not found, expected a bearer token on one line")]);
    for wrong in [&b""[..], b"\n", b"a b", b"a\nb\n", b"\xff"] {
        let expected = format!("{token}the file holds something else, expected a bearer token on one line");
        check("bearer_token_file", Some(wrong), &[&expected]);
    }
    check(
        "tls.key",
        Some(b"no PEM"),
        &[
            "regions[0].tls.cert (the file it names): the file holds something else, expected PEM certificates",
            "regions[0].tls.key (the file it names): the file holds something else, expected a PEM private key",
        ],
    );
    let long = vec![b'a'; (1 << 20) + 1];
    check(
        "bearer_token_file",
        Some(&long),
        &[&format!("{token}the file is longer than 1 MiB, expected a bearer token on one line")],
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
    assert_eq!(check_files(&loaded(&setting).config).len(), 1);
}
