//! The readable values of a document that is no task, for its mending, and for the rules that say where it may be.

use super::flaw::Field;
use super::json::texts_of;
use super::xml::{NAMESPACE, parsed};

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

/// The readable values of a document in XML; none where it is not well-formed. A value that is there twice, or that has a comment or an element in
/// it, is not known.
#[must_use]
pub fn known_in_xml(bytes: &[u8]) -> Known {
    let Ok(document) = parsed(std::str::from_utf8(bytes).unwrap_or_default()) else { return Known::default() };
    Known::of(|field| {
        let mut elements = document.descendants().filter(|node| node.has_tag_name((NAMESPACE, field.element())));
        let element = elements.next().filter(|_| elements.next().is_none())?;
        let text = element.first_child().filter(|child| child.is_text() && !child.has_siblings())?;
        text.text().map(|text| text.trim().to_owned())
    })
}

/// The readable values of a document in JSON; none where a member is doubled, unknown or missing.
#[must_use]
pub fn known_in_json(bytes: &[u8]) -> Known {
    let Some(texts) = texts_of(bytes) else { return Known::default() };
    Known::of(|field| texts.get(field as usize).map(|text| text.trim().to_owned()))
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
