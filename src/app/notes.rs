//! The findings of the last look at configuration and files.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The findings of the last look, for `/readyz`: by subject, one sentence each.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes(Arc<Mutex<BTreeMap<String, String>>>);

impl Notes {
    pub(super) fn reader(&self) -> Arc<dyn Fn() -> Vec<String> + Send + Sync> {
        let notes = Arc::clone(&self.0);
        Arc::new(move || notes.lock().iter().map(|(about, note)| format!("{about}: {note}")).collect())
    }

    /// True when the note is a new one.
    pub(super) fn set(&self, about: &str, note: String) -> bool {
        self.0.lock().insert(about.to_owned(), note.clone()).is_none_or(|before| before != note)
    }

    pub(super) fn clear(&self, about: &str) {
        self.0.lock().remove(about);
    }
}
