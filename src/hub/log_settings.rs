//! `log`: the lines of a hub.

use serde::Deserialize;

use crate::config::{AccessLog, LOG_LEVEL_EXPECTED, Log, LogFormat, is_log_level};

/// The log of a hub.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// `text` or `json`.
    pub format: String,
    /// The least severe level that is written, or a `tracing` filter.
    pub level: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: "text".to_owned(), level: "info".to_owned() }
    }
}

impl LogSettings {
    /// The mistakes in it, each beginning with its key.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !["text", "json"].contains(&self.format.as_str()) {
            wrong.push("format: expected text or json".to_owned());
        }
        if !is_log_level(&self.level) {
            wrong.push(format!("level: {LOG_LEVEL_EXPECTED}"));
        }
        wrong
    }

    /// The log, as a sidecar's configuration has it.
    pub(super) fn log(&self) -> Log {
        let format = if self.format == "json" { LogFormat::Json } else { LogFormat::Text };
        Log { format, level: self.level.clone(), access: AccessLog::Off }
    }
}
