//! Paths of files in messages, without showing a secret that was pasted in place of a path.

use std::path::Path;

/// The longest path that is shown.
const BYTES_MAX: usize = 512;
/// File extensions are this short; the parts of a token are longer.
const EXTENSION_BYTES_MAX: usize = 5;

/// The path as text, or `None` where it may be a secret: a file that does not exist, under a name that no file has.
///
/// Shape: printable ASCII of at most 512 bytes that names an existing file, or ends in a short extension such as `.pem`.
#[must_use]
pub fn shown_path(path: &Path) -> Option<&str> {
    let text = path.to_str().filter(|text| text.len() <= BYTES_MAX)?;
    if text.bytes().any(|byte| !(byte.is_ascii_graphic() || byte == b' ')) {
        return None;
    }
    let short = |extension: &str| {
        (1..=EXTENSION_BYTES_MAX).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let named = path.extension().and_then(|extension| extension.to_str()).is_some_and(short);
    (named || path.exists()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_and_a_pasted_secret_is_not() {
        assert_eq!(shown_path(Path::new("/nowhere/tls/client.pem")), Some("/nowhere/tls/client.pem"));
        assert_eq!(shown_path(Path::new("/")), Some("/"));
        for secret in ["eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl", "s3cr3t/AbC+9==", "-----BEGIN KEY-----\nabc.pem", "hunter2"]
        {
            assert_eq!(shown_path(Path::new(secret)), None, "{secret}");
        }
    }
}
