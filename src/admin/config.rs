//! `/config`: the configuration in force, and the differences after a restart.

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};

use crate::config::{Config, effective, effective_json};

/// In which form a document is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
}

impl Form {
    /// `?format=yaml` or `?format=json`, else the type in `Accept`; JSON where neither says YAML.
    pub(super) fn of(query: Option<&str>, headers: &HeaderMap) -> Self {
        let asked = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("format="));
        let accepted = || headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let yaml = asked.map_or_else(|| accepted().contains("yaml"), |format| format == "yaml");
        if yaml { Self::Yaml } else { Self::Json }
    }
}

/// The document. Both configurations as `check` prints them: files by their paths, nothing of their content.
///
/// Errors: why it cannot be shown, which is a defect.
pub(super) fn document(running: &Config, asked: &Config, form: Form) -> Result<String, String> {
    let config = effective_json(running)?;
    let mut differences = Vec::new();
    compare("", &config, &effective_json(asked)?, &mut differences);
    match form {
        Form::Json => {
            let differences: Vec<_> = differences
                .into_iter()
                .map(|it| json!({ "key": it.key, "in_force": it.in_force, "after_restart": it.after_restart }))
                .collect();
            Ok(json!({ "config": config, "differs_after_restart": differences }).to_string())
        }
        Form::Yaml => {
            let mut text = String::from(match differences.as_slice() {
                [] => "# The configuration in force. A restart would change nothing.\n",
                _ => "# The configuration in force. After a restart these keys have other values:\n",
            });
            text.extend(differences.iter().map(|it| format!("#   {}: {}\n", it.key, it.after_restart)));
            text.push_str(&effective(running));
            Ok(text)
        }
    }
}

/// A key whose value waits for a restart; `null` where it is absent.
struct Difference {
    key: String,
    in_force: Value,
    after_restart: Value,
}

/// Collects the keys that differ, whole lists as one.
fn compare(key: &str, running: &Value, asked: &Value, differences: &mut Vec<Difference>) {
    if running == asked {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (running, asked) else {
        let difference = Difference { key: key.to_owned(), in_force: running.clone(), after_restart: asked.clone() };
        return differences.push(difference);
    };
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        let side = |members: &serde_json::Map<String, Value>| members.get(name).cloned().unwrap_or(Value::Null);
        compare(&key, &side(old), &side(new), differences);
    }
}
