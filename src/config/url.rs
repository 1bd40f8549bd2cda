//! A region's base URL, read strictly: a URL with two readings, or with a possible secret, is refused.

use http::Uri;
use rustls_pki_types::ServerName;

use super::types::RegionUrl;

const EXPECTED: &str = "expected a base URL such as https://ojs.eu-west-1.example.com";

/// Reads a base URL of `https`, or of a loopback host.
///
/// Errors: the rule that the text breaks, without the text.
pub(crate) fn parse_url(text: &str) -> Result<RegionUrl, &'static str> {
    parse(text, true)
}

/// Reads a base URL. Plain `http://` is for loopback hosts where `insecure_dev` permits it.
///
/// Errors: the rule that the text breaks, without the text.
pub(super) fn parse(text: &str, insecure_dev: bool) -> Result<RegionUrl, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or(EXPECTED)?;
    if text.contains('#') || text.contains('?') {
        return Err("a base URL has no query and no fragment: remove them");
    }
    let authority = rest.split('/').next().unwrap_or(rest);
    if authority.contains('@') {
        return Err("a URL holds no user and no password: use tls or bearer_token_file");
    }
    let (host, port) = host_and_port(authority).ok_or(EXPECTED)?;
    ServerName::try_from(host.as_str()).map_err(|_| EXPECTED)?;
    let uri: Uri = text.parse().map_err(|_| EXPECTED)?;
    let base_path = uri.path().strip_suffix('/').unwrap_or(uri.path());
    if base_path.split('/').skip(1).any(|segment| matches!(segment, "" | "." | "..")) || base_path.contains('%') {
        return Err("expected a plain path: no empty or dot segments and no percent signs");
    }
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" if is_loopback(&host) && insecure_dev => false,
        "http" if is_loopback(&host) => return Err("expected https; http on loopback needs insecure_dev: true"),
        "http" => return Err("expected https: http is for loopback hosts with insecure_dev: true"),
        _ => return Err(EXPECTED),
    };
    let port = port.unwrap_or(if tls { 443 } else { 80 });
    Ok(RegionUrl { tls, host, port, base_path: base_path.to_owned(), text: text.to_owned() })
}

/// The host in lower case and without brackets, and the port if one is given.
fn host_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        None => return None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse::<u16>().ok().filter(|&port| port > 0)?)
        }
        Some(_) => return None,
    };
    Some((host.to_ascii_lowercase(), port))
}

/// Whether a host is this machine, by its name or its address.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, insecure_dev: bool, expected: Option<(bool, &str, u16, &str)>) {
        let parsed = parse(text, insecure_dev).ok();
        let parsed = parsed.as_ref().map(|url| (url.tls, url.host.as_str(), url.port, url.base_path.as_str()));
        assert_eq!(parsed, expected, "{text}");
    }

    #[test]
    fn a_base_url_is_split_into_its_parts() {
        check("https://ojs.example.com", false, Some((true, "ojs.example.com", 443, "")));
        check("https://OJS.example.com:8443/", false, Some((true, "ojs.example.com", 8443, "")));
        check("https://ojs.example.com/a/b/", false, Some((true, "ojs.example.com", 443, "/a/b")));
        check("https://[2001:db8::1]:8443/x", false, Some((true, "2001:db8::1", 8443, "/x")));
        check("https://10.0.0.1", false, Some((true, "10.0.0.1", 443, "")));
        check("http://localhost:8081", true, Some((false, "localhost", 8081, "")));
        check("http://[::1]:8081", true, Some((false, "::1", 8081, "")));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_no_base_url() {
        for text in [
            "",
            "ojs.example.com",
            "ftp://ojs.example.com",
            "https://",
            "https:///x",
            "https://u:p@ojs.example.com",
            "https://ojs.example.com?x=1",
            "https://ojs.example.com/#x",
            "https://ojs.example.com:",
            "https://ojs.example.com:0",
            "https://ojs.example.com:99999",
            "https://ojs.example.com:+443",
            "https://ojs example.com",
            "https://[::1",
            "https://[::1]x",
            "https://[10.0.0.1]",
            "https://::1",
            "https://ojs.example.com/a/../b",
            "https://ojs.example.com//a",
            "https://ojs.example.com/%2e%2e/a",
            "https://ojs.example.com\\@evil.example",
            "https://-x-/",
            "https://a\n.example",
        ] {
            check(text, true, None);
        }
    }

    #[test]
    fn plain_http_is_for_loopback_in_development() {
        check("http://localhost:8081", false, None);
        check("http://127.0.0.1:8081", false, None);
        check("http://ojs.example.com", true, None);
        check("http://localhost.example.com", true, None);
    }
}
