//! A writer of YAML.

use std::fmt::Display;

/// Writes YAML of sections, lists of sections and scalars. Text is always quoted, so that none of it can be misread.
#[derive(Default)]
pub(super) struct Yaml {
    pub(super) out: String,
    depth: usize,
    /// Set while the next line is the first of a list item, which begins with a dash.
    item: bool,
}

impl Yaml {
    fn line(&mut self, content: &str) {
        let depth = self.depth - usize::from(self.item);
        let dash = if self.item { "- " } else { "" };
        self.item = false;
        self.out.push_str(&"  ".repeat(depth));
        self.out.push_str(dash);
        self.out.push_str(content);
        self.out.push('\n');
    }

    pub(super) fn plain(&mut self, key: &str, value: impl Display) {
        self.line(&format!("{key}: {value}"));
    }

    pub(super) fn plain_if(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.plain(key, value);
        }
    }

    pub(super) fn text(&mut self, key: &str, text: impl Display) {
        self.plain(key, quoted(text));
    }

    pub(super) fn text_if(&mut self, key: &str, text: Option<impl Display>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    pub(super) fn texts<T: Display>(&mut self, key: &str, texts: &[T]) {
        self.plain(key, format_args!("[{}]", texts.iter().map(quoted).collect::<Vec<_>>().join(", ")));
    }

    pub(super) fn table<'a, V: Display + 'a>(&mut self, key: &str, members: impl Iterator<Item = (&'a String, V)>) {
        let members: Vec<String> =
            members.map(|(name, value)| format!("{}: {}", quoted(name), quoted(value))).collect();
        self.plain(key, format_args!("{{{}}}", members.join(", ")));
    }

    pub(super) fn section(&mut self, key: &str, members: impl FnOnce(&mut Self)) {
        let (start, item) = (self.out.len(), self.item);
        self.line(&format!("{key}:"));
        let end = self.out.len();
        self.depth += 1;
        members(self);
        self.depth -= 1;
        if self.out.len() == end {
            // A section without members is not a section: it would be read as nothing.
            self.out.truncate(start);
            self.item = item;
        }
    }

    pub(super) fn list<T>(&mut self, key: &str, items: &[T], members: impl Fn(&mut Self, &T)) {
        if items.is_empty() {
            return self.plain(key, "[]");
        }
        self.line(&format!("{key}:"));
        self.depth += 2;
        for item in items {
            self.item = true;
            members(self, item);
        }
        self.depth -= 2;
    }
}

pub(super) fn quoted(text: impl Display) -> String {
    serde_json::Value::from(text.to_string()).to_string()
}
