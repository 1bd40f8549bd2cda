//! Reads a task in XML: a strict walk over one reading of the document.
//!
//! Spec: UWER §5, the schema of v4.2. Beyond the schema refused are DTDs, processing instructions, CDATA, comments inside values and
//! other encodings than UTF-8, because two parsers may read them as two values.

use roxmltree::{Document, Node, ParsingOptions};

use super::flaw::{Field, Flaw, FlawKind};
use super::task::{Task, is_space};
use super::xml_head::{check_declaration, declaration_end};

/// The namespace of every element.
pub const NAMESPACE: &str = "http://uwer.internal/schema/v4";
/// The most nodes of a document, white space and comments included; a plain task has some thirty.
pub(super) const NODES_MAX: u32 = 256;
/// The most attributes of a document; a task has two. The parser compares each with all others.
const ATTRIBUTES_MAX: usize = 64;
/// The name of the root element.
const ROOT: &str = "UWER_Task";
/// The elements of the root, each with its values.
const PARTS: [(&str, &[Field]); 3] = [
    ("Metadata", &[Field::WorkflowId, Field::IdempotencyKey, Field::Priority, Field::OriginService]),
    ("ExecutionStrategy", &[Field::MaxRetries, Field::BackoffMultiplier, Field::TimeoutMs]),
    ("Payload", &[]),
];

/// Reads the bytes of a document.
///
/// Errors: the first flaw.
pub fn read_xml(bytes: &[u8]) -> Result<Task, Flaw> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read_xml_text(text),
        Err(error) => {
            let line = 1 + bytes.iter().take(error.valid_up_to()).filter(|it| **it == b'\n').count();
            let expected = "expected UTF-8; the document has bytes of another encoding".to_owned();
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            Err(Flaw { kind: FlawKind::Encoding, field: "encoding".to_owned(), line, column: 0, expected })
        }
    }
}

/// Reads a document that is UTF-8.
///
/// Errors: the first flaw.
pub fn read_xml_text(text: &str) -> Result<Task, Flaw> {
    check_declaration(text)?;
    let document = parsed(text)?;
    Walk { document: &document }.task()
}

/// The document of a text, parsed in a time that grows with its length.
pub(super) fn parsed(text: &str) -> Result<Document<'_>, Flaw> {
    if let Some(at) = attribute_beyond(text) {
        let (line, column) = place(text, at);
        let expected = format!("expected at most {ATTRIBUTES_MAX} attributes");
        return Err(Flaw { kind: FlawKind::Structure, field: ROOT.to_owned(), line, column, expected });
    }
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| not_well_formed(text, &error))
}

/// The place of the attribute that is one too many: of the `=` behind [`ATTRIBUTES_MAX`] of them, in tags and outside of quotes.
fn attribute_beyond(text: &str) -> Option<usize> {
    let (mut at, mut left) = (0, ATTRIBUTES_MAX);
    while let Some(start) = text.get(at..).and_then(|rest| rest.find('<')).map(|found| at + found) {
        let rest = text.get(start..).unwrap_or_default();
        let skipped =
            [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].into_iter().find(|(open, _)| rest.starts_with(open));
        if let Some((open, close)) = skipped {
            at = start + open.len() + rest.get(open.len()..)?.find(close)? + close.len();
            continue;
        }
        let tag = start_tag(rest);
        let mut quote = None;
        for (offset, byte) in tag.bytes().enumerate() {
            match (quote, byte) {
                (Some(open), _) if open == byte => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'=') if left == 0 => return Some(start + offset),
                (None, b'=') => left -= 1,
                (None, _) => {}
            }
        }
        at = start + tag.len().max(1);
    }
    None
}

struct Walk<'d> {
    document: &'d Document<'d>,
}

impl<'d> Walk<'d> {
    fn task(&self) -> Result<Task, Flaw> {
        self.check_prolog()?;
        if let Some(instruction) = self.document.descendants().find(Node::is_pi) {
            let expected = "expected no processing instruction; leave it out";
            return Err(self.flaw(FlawKind::Syntax, ROOT, instruction, expected));
        }
        self.check_sections()?;
        if let Some(node) = self.document.descendants().find(|node| node.is_element() && !self.is_well_named(*node)) {
            let expected =
                "expected names with at most one `:`, between two letters, alike in both tags, and each attribute once";
            return Err(self.flaw(FlawKind::Syntax, ROOT, node, expected));
        }
        let root = self.document.root_element();
        self.check_name(root, ROOT)?;
        self.check_attributes(root, ROOT, &[])?;
        let parts = self.children(root, ROOT, &PARTS.map(|(name, _)| name))?;
        let mut values = Vec::with_capacity(Field::ALL.len());
        for (part, (name, fields)) in parts.into_iter().zip(PARTS) {
            if fields.is_empty() {
                self.check_attributes(part, name, &[("encoding", "b64")])?;
                values.push((part, self.value(part, name)?));
                continue;
            }
            self.check_attributes(part, name, &[])?;
            let names: Vec<&str> = fields.iter().map(|field| field.element()).collect();
            for (value, name) in self.children(part, name, &names)?.into_iter().zip(names) {
                self.check_attributes(value, name, &[])?;
                values.push((value, self.value(value, name)?));
            }
        }
        let values: [(Node<'d, 'd>, &str); 8] =
            values.try_into().unwrap_or_else(|_| unreachable!("each field has one element"));
        Task::checked(values.map(|(_, text)| text)).map_err(|field| {
            let kind = if field == Field::IdempotencyKey { FlawKind::KeyMalformed } else { FlawKind::Value };
            let node = values[field as usize].0;
            self.flaw(kind, field.element(), node, field.expected())
        })
    }

    /// Between the nodes before the root stands white space alone. The parser drops an empty DTD without a word.
    fn check_prolog(&self) -> Result<(), Flaw> {
        let text = self.document.input_text();
        let mut from = declaration_end(text);
        for node in self.document.root().children() {
            let range = node.range();
            // A gap that cannot be read is refused, too.
            if !text.get(from..range.start).is_some_and(|gap| gap.chars().all(is_space)) {
                return Err(dtd(text, from));
            }
            from = range.end;
        }
        Ok(())
    }

    /// No part of the document is CDATA, which the parser joins with the text beside it.
    fn check_sections(&self) -> Result<(), Flaw> {
        let text = self.document.input_text();
        let comments = || self.document.descendants().filter(Node::is_comment);
        let is_in_comment = |at: &usize| comments().any(|comment| comment.range().contains(at));
        match text.match_indices("<![CDATA[").map(|(at, _)| at).find(|at| !is_in_comment(at)) {
            None => Ok(()),
            Some(at) => {
                let (line, column) = place(text, at);
                let expected = "expected plain text; CDATA has no place in a task".to_owned();
                Err(Flaw { kind: FlawKind::Syntax, field: ROOT.to_owned(), line, column, expected })
            }
        }
    }

    /// The elements of a node, which are exactly these, in this order.
    fn children(&self, parent: Node<'d, 'd>, name: &str, expected: &[&str]) -> Result<Vec<Node<'d, 'd>>, Flaw> {
        let mut found = Vec::with_capacity(expected.len());
        for child in parent.children() {
            if child.text().filter(|_| child.is_text()).is_some_and(|it| !it.chars().all(is_space)) {
                let expected = format!("expected elements alone: {}", expected.join(", "));
                return Err(self.flaw(FlawKind::Structure, name, child, &expected));
            }
            if !child.is_element() {
                continue;
            }
            let Some(next) = expected.get(found.len()) else {
                let expected = format!("expected no further element in `{name}` behind {}", expected.join(", "));
                return Err(self.flaw(FlawKind::Structure, name, child, &expected));
            };
            self.check_child(child, name, next, expected)?;
            found.push(child);
        }
        match expected.get(found.len()) {
            None => Ok(found),
            Some(missing) => Err(self.missing(parent, name, missing)),
        }
    }

    /// The next element of a parent has the expected name.
    fn check_child(&self, child: Node<'d, 'd>, parent: &str, next: &str, all: &[&str]) -> Result<(), Flaw> {
        let found = child.tag_name().name();
        let is_later = all.iter().skip_while(|name| **name != next).skip(1).any(|name| *name == found);
        if child.tag_name().namespace() == Some(NAMESPACE) && is_later {
            return Err(self.missing(child, parent, next));
        }
        self.check_name(child, next)
    }

    fn missing(&self, node: Node<'d, 'd>, parent: &str, missing: &str) -> Flaw {
        let is_key = missing == Field::IdempotencyKey.element();
        let kind = if is_key { FlawKind::KeyMissing } else { FlawKind::Structure };
        self.flaw(kind, missing, node, &format!("expected this element here in `{parent}`; add it"))
    }

    /// The field of the flaw is the expected name: the found one is a text of the sender.
    fn check_name(&self, node: Node<'d, 'd>, expected: &str) -> Result<(), Flaw> {
        let name = node.tag_name();
        if name.namespace() != Some(NAMESPACE) {
            let rule = format!("expected the namespace {NAMESPACE} here; declare it with `xmlns`");
            return Err(self.flaw(FlawKind::Structure, expected, node, &rule));
        }
        if name.name() != expected {
            return Err(self.flaw(
                FlawKind::Structure,
                expected,
                node,
                "expected this element here, and found another one",
            ));
        }
        Ok(())
    }

    /// The attributes of a node, in any order, are exactly these.
    fn check_attributes(&self, node: Node<'d, 'd>, name: &str, expected: &[(&str, &str)]) -> Result<(), Flaw> {
        let wanted =
            |it: &roxmltree::Attribute<'_, '_>| it.namespace().is_none() && expected.contains(&(it.name(), it.value()));
        if node.attributes().any(|it| !wanted(&it)) {
            let field = format!("{name}/@*");
            let expected = match expected {
                [] => "expected no attribute; leave it out".to_owned(),
                _ => "expected `encoding=\"b64\"` and no other attribute".to_owned(),
            };
            return Err(self.flaw(FlawKind::Structure, &field, node, &expected));
        }
        if node.attributes().count() != expected.len() {
            let field = format!("{name}/@encoding");
            return Err(self.flaw(FlawKind::Structure, &field, node, "expected `encoding=\"b64\"`; add it"));
        }
        Ok(())
    }

    /// The text of an element that has nothing else.
    fn value(&self, node: Node<'d, 'd>, name: &str) -> Result<&'d str, Flaw> {
        if let Some(inner) = node.children().find(Node::is_element) {
            return Err(self.flaw(FlawKind::Structure, name, inner, "expected text; an element has no place here"));
        }
        if !self.is_plain(node) {
            let expected = "expected plain text; a comment has no place in a value";
            return Err(self.flaw(FlawKind::Syntax, name, node, expected));
        }
        Ok(node.text().unwrap_or_default())
    }

    /// Whether an element without elements was written without a comment: with no `<` but those of its own tags.
    fn is_plain(&self, node: Node<'d, 'd>) -> bool {
        let Some(source) = self.document.input_text().get(node.range()) else { return false };
        source.bytes().filter(|it| *it == b'<').count() == if source.ends_with("/>") { 1 } else { 2 }
    }

    /// Whether the names in the tags of an element are names of XML with namespaces, each attribute's once. The parser takes `:a` for `a`, and a second
    /// `xmlns`.
    fn is_well_named(&self, node: Node<'d, 'd>) -> bool {
        let Some(source) = self.document.input_text().get(node.range()) else { return false };
        let opened = start_tag(source);
        let is_name = |name: &&str| name.split(':').all(|it| !it.is_empty()) && name.matches(':').count() <= 1;
        let name =
            |tag: &'d str| tag.split(|it| is_space(it) || matches!(it, '<' | '/' | '>')).find(|it| !it.is_empty());
        let closed = source.rfind("</").and_then(|at| source.get(at..)).filter(|_| !source.ends_with("/>"));
        let is_closed_alike = closed.is_none_or(|closed| name(closed) == name(opened));
        let mut attributes: Vec<&str> = names(opened).skip(1).collect();
        attributes.sort_unstable();
        is_closed_alike
            && names(opened).all(|name| is_name(&name))
            && attributes.windows(2).all(|pair| pair[0] != pair[1])
    }

    fn flaw(&self, kind: FlawKind, field: &str, node: Node<'_, '_>, expected: &str) -> Flaw {
        let place = self.document.text_pos_at(node.range().start);
        Flaw { kind, field: field.to_owned(), line: place.row, column: place.col, expected: expected.to_owned() }
    }
}

/// The start tag of an element, from `<` to `>`.
fn start_tag(source: &str) -> &str {
    let mut quote = None;
    let end = source.bytes().position(|it| match quote {
        Some(open) => {
            quote = quote.filter(|_| it != open);
            false
        }
        None => {
            quote = Some(it).filter(|it| matches!(it, b'"' | b'\''));
            it == b'>'
        }
    });
    source.get(..end.map_or(source.len(), |end| end + 1)).unwrap_or(source)
}

/// The names in a start tag: the element's, and those of its attributes.
fn names(tag: &str) -> impl Iterator<Item = &str> {
    // Every second part is in quotes, whichever of them opens it.
    let mut rest = Some(tag);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(at) = text.find(['"', '\'']) else { return rest.take() };
        let quote = &text[at..=at];
        rest = text[at + 1..].split_once(quote).map(|(_, behind)| behind);
        Some(&text[..at])
    })
    .flat_map(|part| part.split(|it| is_space(it) || matches!(it, '<' | '/' | '>' | '=')))
    .filter(|name| !name.is_empty())
}

fn dtd(text: &str, at: usize) -> Flaw {
    let (line, column) = place(text, text.get(at..).and_then(|rest| rest.find("<!")).map_or(at, |behind| at + behind));
    let expected = "expected no document type; entities and DTDs have no place in a task".to_owned();
    Flaw { kind: FlawKind::Syntax, field: "DOCTYPE".to_owned(), line, column, expected }
}

/// Line and column of a byte of the text, each from 1.
fn place(text: &str, at: usize) -> (u32, u32) {
    let before = text.get(..at).unwrap_or(text);
    let line = 1 + before.bytes().filter(|it| *it == b'\n').count();
    let column = 1 + before.chars().rev().take_while(|it| *it != '\n').count();
    let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
    (number(line), number(column))
}

fn not_well_formed(text: &str, error: &roxmltree::Error) -> Flaw {
    use roxmltree::Error as E;
    // These have no place of their own.
    let (line, column) = match error {
        E::DtdDetected => return dtd(text, text.find("<!DOCTYPE").unwrap_or(0)),
        E::UnclosedRootNode | E::NoRootNode | E::UnexpectedEndOfStream => place(text, text.len()),
        E::NodesLimitReached => (0, 0),
        other => (other.pos().row, other.pos().col),
    };
    let (kind, expected) = match error {
        E::NodesLimitReached => {
            (FlawKind::Structure, format!("expected at most {NODES_MAX} elements, texts and comments"))
        }
        // The parser's own words may hold text of the document.
        other => (FlawKind::Syntax, format!("expected well-formed XML: {}", reason(other))),
    };
    Flaw { kind, field: ROOT.to_owned(), line, column, expected }
}

/// Why a document is not well-formed, without any text of it.
const fn reason(error: &roxmltree::Error) -> &'static str {
    use roxmltree::Error as E;
    match error {
        E::DuplicatedNamespace(..) | E::DuplicatedAttribute(..) => "an attribute is doubled",
        E::UnknownNamespace(..) => "a prefix is not declared",
        E::UnexpectedCloseTag(..) | E::UnclosedRootNode => "an element is not closed, or another one is",
        E::UnknownEntityReference(..) | E::MalformedEntityReference(_) | E::EntityReferenceLoop(_) => {
            "an entity is unknown; there are `&lt;`, `&gt;`, `&amp;`, `&quot;`, `&apos;` and numbers"
        }
        E::NoRootNode => "there is no element",
        E::NonXmlChar(..) => "a character is not permitted in XML",
        E::InvalidName(_) => "a name is none",
        E::InvalidComment(_) => "a comment has `--` in it",
        E::UnexpectedEndOfStream => "it ends early",
        _ => "a character has no place there",
    }
}
