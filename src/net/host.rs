//! The `Host` header of a request, as a defence against DNS rebinding: a page of a public name that was made to lead here.

use std::net::IpAddr;

/// Whether a `Host` header names this sidecar: a loopback address, a localhost name, or one of `allowed`; any port.
///
/// A request without the header passes: HTTP/1.0 has none, and a browser, which DNS rebinding needs, always sends one.
#[must_use]
pub fn is_own(host: Option<&[u8]>, allowed: &[String]) -> bool {
    let Some(host) = host else { return true };
    let Some(name) = name_in(host) else { return false };
    match name.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => is_localhost(name) || is_allowed(name, allowed),
    }
}

/// Whether no stranger can make the name in a `Host` header lead here: DNS rebinding needs a public name, which has a dot. Probes and
/// scrapers call by address, or by the name of a service.
#[must_use]
pub fn is_safe(host: &[u8], allowed: &[String]) -> bool {
    name_in(host).is_some_and(|name| {
        name.parse::<IpAddr>().is_ok() || !name.contains(['.', ':']) || is_localhost(name) || is_allowed(name, allowed)
    })
}

/// The name or address, without its port, its brackets and the dot at its end; `None` where the value has another form.
fn name_in(host: &[u8]) -> Option<&str> {
    let host = std::str::from_utf8(host).ok()?;
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if rest.is_empty() || rest.starts_with(':') => address,
        Some(_) => return None,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    Some(name.strip_suffix('.').unwrap_or(name))
}

fn is_localhost(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower == "localhost" || lower.ends_with(".localhost")
}

fn is_allowed(name: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|it| it.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_localhost_and_configured_names_are_own_with_any_port() {
        let allowed = vec!["ojs.internal".to_owned()];
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "a.localhost",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:8080",
            "[::1]",
            "OJS.internal:80",
            "localhost.",
        ] {
            assert!(is_own(Some(host.as_bytes()), &allowed), "{host}");
        }
        for host in [
            "evil.example",
            "10.0.0.1",
            "[::2]:80",
            "[::1]x",
            "localhost.evil.example",
            "",
            "127.0.0.1.nip.io",
            "\u{e9}",
        ] {
            assert!(!is_own(Some(host.as_bytes()), &allowed), "{host}");
        }
        assert!(is_own(None, &allowed));
    }

    #[test]
    fn addresses_and_names_without_a_dot_are_safe_and_public_names_are_not() {
        let allowed = vec!["ojs.internal".to_owned()];
        for host in
            ["127.0.0.1:9464", "10.1.2.3:9464", "[fe80::1]:9464", "[::1]", "localhost:9464", "sidecar:9464", "x"]
        {
            assert!(is_safe(host.as_bytes(), &allowed), "{host}");
        }
        for host in ["OJS.internal:9464", "a.localhost", "localhost.", "\u{e9}."] {
            assert!(is_safe(host.as_bytes(), &allowed), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.nip.io:9464", "[::1]x", "[evil.example]", "ojs.internal.evil.example"] {
            assert!(!is_safe(host.as_bytes(), &allowed), "{host}");
        }
    }
}
