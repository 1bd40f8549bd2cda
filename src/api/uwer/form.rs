//! The form of a document, and the type and queue of its job.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use wildmatch::WildMatch;

use crate::config::{Uwer, UwerOrigin};
use crate::uwer::JobShape;

/// The form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Xml,
    Json,
}

impl Form {
    /// The form that a `Content-Type` names.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut types = headers.get_all(CONTENT_TYPE).iter();
        let text = types.next().filter(|_| types.next().is_none())?.to_str().ok()?.to_ascii_lowercase();
        let (media, rest) = text.split_once(';').unwrap_or((&text, ""));
        let is_utf8 =
            rest.trim().is_empty() || matches!(rest.trim(), "charset=utf-8" | "charset=\"utf-8\"" | "charset=utf8");
        match media.trim() {
            _ if !is_utf8 => None,
            "application/xml" | "text/xml" => Some(Self::Xml),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Xml => "xml",
            Self::Json => "json",
        }
    }
}

/// The type and queue of the jobs of a service.
pub(super) fn shape<'u>(uwer: &'u Uwer, origin: &str) -> JobShape<'u> {
    let found = uwer.origins.iter().find(|it| WildMatch::new(&it.origin).matches(origin));
    found.map_or(JobShape { job_type: UwerOrigin::TYPE, queue: UwerOrigin::QUEUE }, |it| JobShape {
        job_type: &it.job_type,
        queue: &it.queue,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_task_comes_as_xml_or_json_in_utf_8() {
        let form = |text: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(text))]);
            Form::of(&headers)
        };
        assert_eq!(form("application/xml"), Some(Form::Xml));
        assert_eq!(form("Text/XML; charset=UTF-8"), Some(Form::Xml));
        assert_eq!(form("application/json"), Some(Form::Json));
        for other in ["text/plain", "application/xml; charset=utf-16", "application/xml+x", ""] {
            assert_eq!(form(other), None, "{other}");
        }
        assert_eq!(Form::of(&HeaderMap::new()), None);
    }

    #[test]
    fn the_first_glob_that_fits_a_service_decides_about_its_jobs() {
        let origin = |origin: &str, queue: &str| UwerOrigin {
            origin: origin.to_owned(),
            job_type: "a.b".to_owned(),
            queue: queue.to_owned(),
        };
        let uwer = Uwer { origins: vec![origin("inventory-*", "one"), origin("*", "two")] };
        assert_eq!(shape(&uwer, "inventory-sync").queue, "one");
        assert_eq!(shape(&uwer, "mail").queue, "two");
        assert_eq!(shape(&Uwer::default(), "mail"), JobShape { job_type: "uwer.task", queue: "uwer" });
    }
}
