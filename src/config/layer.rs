//! The layers: files, then variables, then flags, each a source of its own for figment, so that values keep their origin.

use std::path::{Path, PathBuf};

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::document::{Document, at_line, read};
use super::key::Key;
use super::keys::{ALIASES, Alias, Standing, join, keys, standing, unknown_rule};
use super::kind::Kind;
use super::place::{Place, Places};
use super::problem::{Problem, shown};
use super::sources::Sources;

/// The name under which each layer hands over its tree, so that figment returns the merged tree whole.
const ROOT: &str = "configuration";
const PREFIX: &str = "OJSF_";

/// One source of settings.
pub(super) struct Layer {
    name: String,
    /// The folder of a file, against which its relative paths are resolved.
    folder: Option<PathBuf>,
    settings: Dict,
    places: Places,
}

/// All layers, merged.
pub(super) struct Layers {
    layers: Vec<Layer>,
    figment: Figment,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let root = Dict::from([(ROOT.to_owned(), Value::from(self.settings.clone()))]);
        Ok(Map::from([(Profile::Default, root)]))
    }
}

impl Layers {
    /// Reads and merges every source; `None` when a file is no document, because all that follows would mislead.
    pub(super) fn read(sources: &Sources, problems: &mut Vec<Problem>) -> Option<Self> {
        let documents: Vec<_> = sources.files.iter().map(|path| Some((path, read(path, problems)?))).collect();
        let mut layers = Vec::new();
        let mut complete = true;
        for document in documents {
            match document {
                Some((path, Document { settings, places })) => {
                    let folder = path.parent().map(Path::to_path_buf);
                    layers.push(Layer { name: path.display().to_string(), folder, settings, places });
                }
                None => complete = false,
            }
        }
        let variables = sources.env.iter().filter_map(|(name, text)| {
            let key = name.strip_prefix(PREFIX)?.to_ascii_lowercase().replace("__", ".");
            Some((format!("variable {}", shown(name)), key, text))
        });
        let flags = sources.flags.iter().map(|(key, text)| (format!("flag --set {}", shown(key)), key.clone(), text));
        for (name, key, text) in variables.chain(flags) {
            match single(&key, text) {
                Ok(settings) => layers.push(Layer { name, folder: None, settings, places: Places::new() }),
                Err(rule) => {
                    let rule = if name.starts_with("variable ") { of_variable(&key).unwrap_or(rule) } else { rule };
                    problems.push(Problem { key: shown(&key), origin: name, rule });
                }
            }
        }
        layers.iter_mut().for_each(|layer| layer.take_over_aliases(problems));
        let figment = layers.iter().fold(Figment::new(), |figment, layer| figment.merge(layer));
        complete.then_some(Self { layers, figment })
    }

    /// The one layer of a document at `path`.
    pub(super) fn of(path: &Path, Document { settings, places }: Document, problems: &mut Vec<Problem>) -> Self {
        let folder = path.parent().map(Path::to_path_buf);
        let mut layer = Layer { name: path.display().to_string(), folder, settings, places };
        layer.take_over_aliases(problems);
        let figment = Figment::new().merge(&layer);
        Self { layers: vec![layer], figment }
    }

    /// The merged tree; every value carries the tag of its source.
    pub(super) fn tree(&self) -> Dict {
        self.figment.find_value(ROOT).ok().and_then(Value::into_dict).unwrap_or_default()
    }

    fn layer(&self, value: &Value) -> Option<&Layer> {
        let name = self.figment.get_metadata(value.tag())?.name.as_ref();
        self.layers.iter().rfind(|layer| layer.name == name)
    }

    /// A path as the program uses it: a relative one of a file is resolved against the folder of that file.
    pub(super) fn resolved(&self, value: Value) -> Value {
        let folder = self.layer(&value).and_then(|layer| layer.folder.as_deref());
        let (Some(folder), Some(text)) = (folder, value.as_str()) else { return value };
        // The word `off` stands for no file.
        if text.is_empty() || text == "off" || Path::new(text).is_absolute() {
            return value;
        }
        match folder.join(text).to_str() {
            Some(path) => Value::String(value.tag(), path.to_owned()),
            None => value,
        }
    }

    /// The origin of the value at `path`, and the key as it was written there.
    pub(super) fn origin(&self, value: &Value, path: &str) -> (String, String) {
        let name = self.figment.get_metadata(value.tag()).map_or("default", |metadata| metadata.name.as_ref());
        let place = self.layer(value).and_then(|layer| layer.places.get(path));
        let written = place.and_then(|place| place.written).unwrap_or(path);
        (at_line(name, place.and_then(|place| place.line)), shown(written))
    }
}

/// The rule for a variable whose name has one underscore where two stand between levels, such as `OJSF_LOG_LEVEL`.
fn of_variable(key: &str) -> Option<String> {
    let flat = |path: &str| path.replace('.', "_");
    let meant = keys().iter().map(|known| known.path).find(|path| !path.contains("[]") && flat(path) == flat(key))?;
    let variable = format!("{PREFIX}{}", meant.replace('.', "__").to_ascii_uppercase());
    (meant != key).then(|| format!("there is no such key; did you mean {meant} ({variable})?"))
}

/// The tree of one variable or flag.
fn single(key: &str, text: &str) -> Result<Dict, String> {
    let kind = match (ALIASES.iter().find(|alias| alias.written == key), standing(key)) {
        (Some(alias), _) => alias.kind,
        (None, Standing::Key(known)) if !matches!(known.kind, Kind::TextMap) && !known.path.contains("[]") => {
            known.kind
        }
        (None, Standing::Section) => return Err("this is a section: name one of its keys".to_owned()),
        _ => return Err(in_a_file(key).unwrap_or_else(|| unknown_rule(key))),
    };
    let mut settings = Dict::new();
    put(&mut settings, key, kind.read(text));
    Ok(settings)
}

/// The rule for a key in a list of sections or in a table, whose members only a file can name; `None` for any other key.
///
/// The message also says that the key does not exist: otherwise the operator would learn that only after moving it to a
/// file.
fn in_a_file(key: &str) -> Option<String> {
    const RULE: &str = "lists and tables of names, such as regions, are set in a file; variables and flags cannot";
    let mut path = String::new();
    let mut in_list = false;
    for name in key.split(['.', '[']) {
        match standing(&path) {
            Standing::Key(Key { kind: Kind::TextMap, .. }) => return Some(RULE.to_owned()),
            // The place is written `[0]`, `.0` or, by mistake, not at all.
            Standing::List => {
                in_list = true;
                path.push_str("[]");
                if name.trim_end_matches(']').bytes().all(|byte| byte.is_ascii_digit()) {
                    continue;
                }
            }
            Standing::Key(_) | Standing::Section | Standing::Unknown => {}
        }
        path = join(&path, name);
    }
    match standing(&path) {
        Standing::Key(Key { kind: Kind::TextMap, .. }) | Standing::List => Some(RULE.to_owned()),
        Standing::Unknown => in_list.then(|| format!("{RULE}; besides, {}", unknown_rule(&path))),
        Standing::Key(_) | Standing::Section => in_list.then(|| RULE.to_owned()),
    }
}

impl Layer {
    fn take_over_aliases(&mut self, problems: &mut Vec<Problem>) {
        for alias in ALIASES {
            let Some(value) = take(&mut self.settings, alias.written) else { continue };
            if let Err(rule) = self.take_over(alias, value) {
                let line = self.places.get(alias.written).and_then(|place| place.line);
                problems.push(Problem { key: alias.written.to_owned(), origin: at_line(&self.name, line), rule });
            }
        }
    }

    fn take_over(&mut self, alias: &Alias, value: Value) -> Result<(), String> {
        if matches!(value, Value::Empty(..)) {
            return Ok(());
        }
        let before = take(&mut self.settings, alias.key);
        if let Some(before) = before.filter(|before| !matches!(before, Value::Empty(..))) {
            put(&mut self.settings, alias.key, before);
            let other = self.places.get(alias.key).and_then(|place| place.written).unwrap_or(alias.key);
            return Err(format!("means the same as {other}, which is set as well: keep one"));
        }
        put(&mut self.settings, alias.key, alias.kind.settle(value)?);
        let line = self.places.get(alias.written).and_then(|place| place.line);
        self.places.insert(alias.key.to_owned(), Place { line, written: Some(alias.written) });
        Ok(())
    }
}

/// Sets a dotted path without indices; leaves a tree with other values in place of sections alone, which is a problem
/// of its own.
pub(super) fn put(tree: &mut Dict, path: &str, value: Value) {
    let Some((section, rest)) = path.split_once('.') else {
        tree.insert(path.to_owned(), value);
        return;
    };
    let below = tree.entry(section.to_owned()).or_insert_with(|| Value::from(Dict::new()));
    if matches!(below, Value::Empty(..)) {
        *below = Value::from(Dict::new());
    }
    if let Value::Dict(_, below) = below {
        put(below, rest, value);
    }
}

/// Takes a dotted path without indices out of the tree.
fn take(tree: &mut Dict, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => tree.remove(path),
        Some((section, rest)) => match tree.get_mut(section)? {
            Value::Dict(_, below) => take(below, rest),
            _ => None,
        },
    }
}
