//! UWER 4.2.1: the task of a legacy sender as XML, as JSON and as an OJS job, and the codes of its states.
//!
//! Spec: UWER §4 and §5. Nothing here does I/O.

mod flaw;
mod job;
mod json;
mod known;
mod rules;
mod state;
mod task;
mod xml;
mod xml_head;
mod xml_text;

pub use flaw::{Field, Flaw, FlawKind};
pub use job::{JobShape, Stray, job_of, task_of};
pub use json::{read_json, write_json};
pub use known::{Known, known_in_json, known_in_xml};
pub use state::{Code, code_of};
pub use task::{Priority, Task};
pub use xml::{NAMESPACE, read_xml, read_xml_text};
pub use xml_text::write_xml;

#[cfg(test)]
mod tests;
