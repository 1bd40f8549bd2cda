//! The shapes of answers: JSON written member by member, so that raw values pass through it untouched.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

/// The media type of OJS documents.
pub(super) const MEDIA_TYPE: &str = "application/openjobspec+json";

/// An error of any kind, as bodies and services carry it.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of every answer.
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there already.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer with a body of a given type.
pub(super) fn typed(status: StatusCode, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// An answer with an OJS document.
pub(super) fn document(status: StatusCode, document: String) -> Response<Body> {
    typed(status, MEDIA_TYPE, full(document))
}

/// A JSON object under construction.
#[derive(Debug)]
pub(super) struct Object {
    text: String,
    hidden: Vec<String>,
}

impl Object {
    pub(super) fn new() -> Self {
        Self { text: "{".to_owned(), hidden: Vec::new() }
    }

    /// An object that leaves out members of these names until [`Self::shown`].
    pub(super) fn hiding<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        Self { text: "{".to_owned(), hidden: names.map(str::to_owned).collect() }
    }

    pub(super) fn shown(mut self) -> Self {
        self.hidden.clear();
        self
    }

    /// A member whose value is JSON already.
    pub(super) fn raw(mut self, name: &str, value: &str) -> Self {
        if self.hidden.iter().any(|hidden| hidden == name) {
            return self;
        }
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push_str(&quoted(name));
        self.text.push(':');
        self.text.push_str(value);
        self
    }

    pub(super) fn maybe_raw(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.raw(name, value),
            None => self,
        }
    }

    pub(super) fn text(self, name: &str, value: &str) -> Self {
        self.raw(name, &quoted(value))
    }

    pub(super) fn maybe_text(self, name: &str, value: Option<&str>) -> Self {
        self.maybe_raw(name, value.map(quoted).as_deref())
    }

    pub(super) fn number(self, name: &str, value: impl std::fmt::Display) -> Self {
        self.raw(name, &value.to_string())
    }

    pub(super) fn maybe_number(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }

    pub(super) fn flag(self, name: &str, value: bool) -> Self {
        self.raw(name, if value { "true" } else { "false" })
    }

    pub(super) fn array(self, name: &str, items: impl IntoIterator<Item = String>) -> Self {
        let items: Vec<String> = items.into_iter().collect();
        self.raw(name, &format!("[{}]", items.join(",")))
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The headers that stand on every answer.
pub(super) fn sign(headers: &mut HeaderMap, request_id: &HeaderValue) {
    headers.insert("ojs-version", HeaderValue::from_static("1.0"));
    headers.insert("x-request-id", request_id.clone());
}
