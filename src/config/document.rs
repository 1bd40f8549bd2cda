//! One configuration file: YAML (of which JSON is a subset) into a tree of values and the line of each.
//!
//! The YAML 1.1 booleans are off, so that `NO` stays the country; the target of an alias counts where the alias stands.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

use figment::value::{Dict, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Error, Spanned};

use super::keys::{Standing, join, standing};
use super::place::{Place, Places};
use super::problem::{Problem, shown};

/// The longest file that is read; the largest registry is far smaller.
const BYTES_MAX: u64 = 4 << 20;

/// The settings of a file, and where each stands.
pub(super) struct Document {
    pub(super) settings: Dict,
    pub(super) places: Places,
}

/// Reads the file at `path`; faults of the document go to `problems`.
pub(super) fn read(path: &Path, problems: &mut Vec<Problem>) -> Option<Document> {
    let name = path.display().to_string();
    let refuse = |rule: &str| Problem { key: String::new(), origin: name.clone(), rule: rule.to_owned() };
    match text(path) {
        Ok(text) => parse(&text, &name, problems),
        Err(rule) => {
            problems.push(refuse(rule));
            None
        }
    }
}

fn text(path: &Path) -> Result<String, &'static str> {
    let file = std::fs::File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "file not found; expected a configuration in YAML or JSON",
        std::io::ErrorKind::PermissionDenied => "the file may not be read: give this user the permission",
        _ => "the file cannot be opened",
    })?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    match read.map(u64::try_from) {
        Ok(Ok(length)) if length <= BYTES_MAX => Ok(text),
        Ok(_) => Err("the file is longer than 4 MiB: is it a configuration?"),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err("the file is not UTF-8 text"),
        Err(_) => Err("the file cannot be read: is it a directory?"),
    }
}

/// Reads a document; `name` is how its origin is shown.
pub(super) fn parse(text: &str, name: &str, problems: &mut Vec<Problem>) -> Option<Document> {
    let node = match parse_node(text, DuplicateKeyPolicy::Error) {
        Err(error @ Error::DuplicateMappingKey { .. }) => {
            problems.push(refusal(&error, name, text));
            // Read on with one of the two, so that further mistakes are reported as well.
            parse_node(text, DuplicateKeyPolicy::LastWins)
        }
        node => node,
    };
    let node = node.map_err(|error| problems.push(refusal(&error, name, text))).ok()?;
    let mut reader = Reader { text, places: Places::new() };
    match reader.value(node.value, "") {
        Value::Dict(_, settings) => Some(Document { settings, places: reader.places }),
        Value::Empty(..) => Some(Document { settings: Dict::new(), places: reader.places }),
        _ => {
            let rule = "expected keys and values, such as `federation_id: prod`".to_owned();
            problems.push(Problem { key: String::new(), origin: name.to_owned(), rule });
            None
        }
    }
}

fn parse_node(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Spanned<Node>, Error> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        duplicate_keys: duplicate_keys,
        // So that the key is named instead of the document.
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::AsString,
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Reports the fault of a document. The parser's own message may quote the document, and is not used.
fn refusal(error: &Error, name: &str, text: &str) -> Problem {
    let column = error.location().map(|location| location.column());
    let line = error.location().map(|location| location.line()).filter(|&line| line > 0);
    let (key, rule) = match error {
        Error::DuplicateMappingKey { key, .. } => {
            (key.as_deref().map(shown).unwrap_or_default(), "the key stands here a second time: keep one")
        }
        Error::MultipleDocuments { .. } => (String::new(), "expected one document: remove the separator `---`"),
        Error::UnknownAnchor { .. } => (String::new(), "the alias has no anchor before it"),
        Error::Budget { .. } => (String::new(), "the document is nested too deeply or too large"),
        _ if line.is_some_and(|line| is_indented_by_tab(text, line)) => {
            (String::new(), "a tab stands in the indentation of this line: YAML indents with spaces")
        }
        _ => (String::new(), "not valid YAML or JSON: look for a missing quote, colon, bracket or indent"),
    };
    let column = column.filter(|&column| column > 0).map(|column| format!(" (column {column})")).unwrap_or_default();
    Problem { key, origin: at_line(name, line), rule: format!("{rule}{column}") }
}

/// Whether a tab is among the white space at the start of a line; lines count from 1.
fn is_indented_by_tab(text: &str, line: u64) -> bool {
    let line = usize::try_from(line).ok().and_then(|line| text.lines().nth(line.checked_sub(1)?));
    line.is_some_and(|line| line.chars().take_while(|char| char.is_whitespace()).any(|char| char == '\t'))
}

/// `config.yaml:12`, or the bare name where no line is known.
pub(super) fn at_line(name: &str, line: Option<u64>) -> String {
    line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"))
}

/// A node of the document.
enum Node {
    Absent,
    /// A number or truth value, and where its spelling stands in the text.
    Scalar(Value),
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

struct Reader<'a> {
    text: &'a str,
    places: Places,
}

impl Reader<'_> {
    fn value(&mut self, node: Node, path: &str) -> Value {
        match node {
            Node::Absent => Value::from(figment::value::Empty::None),
            Node::Scalar(value) => value,
            Node::Text(text) => Value::from(text),
            Node::List(items) => {
                let items = items.into_iter().enumerate();
                let items = items.map(|(at, item)| self.member(item.referenced.line(), item, &format!("{path}[{at}]")));
                Value::from(items.collect::<Vec<_>>())
            }
            Node::Map(members) => {
                let members = members.into_iter().map(|(name, item)| {
                    let value = self.member(name.referenced.line(), item, &join(path, &name.value));
                    (name.value, value)
                });
                Value::from(members.collect::<BTreeMap<_, _>>())
            }
        }
    }

    fn member(&mut self, line: u64, item: Spanned<Node>, path: &str) -> Value {
        self.places.insert(path.to_owned(), Place { line: Some(line), written: None });
        let spelling = if keeps_spelling(path) { self.spelling(&item) } else { None };
        spelling.map_or_else(|| self.value(item.value, path), Value::from)
    }

    /// How a number or truth value is spelt: `0660` is not 660, and `1.0` is not 1.
    fn spelling(&self, item: &Spanned<Node>) -> Option<String> {
        let Node::Scalar(_) = item.value else { return None };
        let span = item.defined.span();
        let start = usize::try_from(span.byte_offset()?).ok()?;
        let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
        self.text.get(start..end).map(|spelling| spelling.trim().to_owned())
    }
}

fn keeps_spelling(path: &str) -> bool {
    let kept = |path| matches!(standing(path), Standing::Key(key) if key.kind.keeps_spelling());
    kept(path) || path.rsplit_once('.').is_some_and(|(table, _)| kept(table))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Absent)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Value::from(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Scalar(Value::from(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Scalar(Value::from(number)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Scalar(Value::from(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(member) = members.next_entry()? {
            map.push(member);
        }
        Ok(Node::Map(map))
    }
}
