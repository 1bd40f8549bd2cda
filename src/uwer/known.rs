//! What can be read of a document that is no task, for the operator who mends it.

use roxmltree::{Document, ParsingOptions};
use serde_json::Value;

use super::flaw::Field;
use super::xml::{NAMESPACE, NODES_MAX};

/// Values of a document that is no task; each has the form of its field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The idempotency key, in small letters.
    pub key: Option<String>,
    /// The id of the workflow, in small letters.
    pub workflow_id: Option<String>,
    /// The service that sent it.
    pub origin: Option<String>,
}

/// The readable values of a document in XML; none where it is not well-formed.
#[must_use]
pub fn known_in_xml(bytes: &[u8]) -> Known {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let Ok(document) = Document::parse_with_options(text, options) else { return Known::default() };
    Known::of(|field| {
        let mut elements = document.descendants().filter(|node| node.has_tag_name((NAMESPACE, field.element())));
        // Of two values neither is known.
        let element = elements.next().filter(|_| elements.next().is_none())?;
        element.text().map(|text| text.trim().to_owned())
    })
}

/// The readable values of a document in JSON.
#[must_use]
pub fn known_in_json(bytes: &[u8]) -> Known {
    let document: Value = serde_json::from_slice(bytes).unwrap_or_default();
    Known::of(|field| {
        let (part, name) = field.member().split_once('.')?;
        document[part][name].as_str().map(|text| text.trim().to_owned())
    })
}

impl Known {
    fn of(value: impl Fn(Field) -> Option<String>) -> Self {
        let fit = |field: Field| value(field).filter(|text| field.fits(text));
        Self {
            key: fit(Field::IdempotencyKey).map(|it| it.to_ascii_lowercase()),
            workflow_id: fit(Field::WorkflowId).map(|it| it.to_ascii_lowercase()),
            origin: fit(Field::OriginService),
        }
    }
}
