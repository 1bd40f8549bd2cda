//! Which file of `src/` imports from which: `use`, paths in code, and re-exports followed to the file that defines the name.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{behind_bracket, tokens};

/// A module by its path from the crate's root: `["policy", "view"]`.
pub(crate) type Module = Vec<String>;

/// The file of each module, and the modules that it imports from.
#[derive(Debug)]
pub(crate) struct Imports {
    pub(crate) files: BTreeMap<Module, String>,
    pub(crate) edges: BTreeMap<Module, BTreeSet<Module>>,
}

#[derive(Debug)]
struct Source<'s> {
    tokens: Vec<&'s str>,
    /// Name in this module, and the path that it stands for; with whether the path is re-exported.
    uses: Vec<Use<'s>>,
    defined: BTreeSet<&'s str>,
}

#[derive(Debug)]
struct Use<'s> {
    name: &'s str,
    path: Vec<&'s str>,
    is_public: bool,
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// `src/policy/view.rs` is `policy::view`; nothing for tests.
fn module_of(file: &str) -> Option<Module> {
    let inner = file.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut parts: Module = inner.split('/').map(str::to_owned).collect();
    if parts.iter().any(|part| part == "tests" || part == "testing" || part == "main") {
        return None;
    }
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    Some(parts)
}

/// Adds the names of one `use` tree that begins at `at`; gives the index behind it.
fn use_tree<'s>(
    tokens: &[&'s str],
    mut at: usize,
    before: &[&'s str],
    is_public: bool,
    into: &mut Vec<Use<'s>>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at).copied() {
        match token {
            "::" => at += 1,
            "{" => {
                let end = behind_bracket(tokens, at);
                at += 1;
                while at + 1 < end {
                    at = use_tree(tokens, at, &path, is_public, into);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return end;
            }
            "*" => {
                into.push(Use { name: "*", path, is_public });
                return at + 1;
            }
            "as" => {
                let name = tokens.get(at + 1).copied().unwrap_or("_");
                into.push(Use { name, path, is_public });
                return at + 2;
            }
            "self" if !path.is_empty() => at += 1,
            name if is_name(name) => {
                path.push(name);
                at += 1;
            }
            _ => break,
        }
    }
    if let Some(name) = path.last().copied() {
        into.push(Use { name, path, is_public });
    }
    at
}

fn read(text: &str) -> Source<'_> {
    let all = tokens(text);
    let mut source = Source { tokens: Vec::new(), uses: Vec::new(), defined: BTreeSet::new() };
    let mut at = 0;
    while let Some(token) = all.get(at).copied() {
        if token == "use" {
            let is_public = matches!(at.checked_sub(1).and_then(|before| all.get(before)), Some(&("pub" | ")")));
            at = use_tree(&all, at + 1, &[], is_public, &mut source.uses);
            continue;
        }
        if token == "in" && source.tokens.ends_with(&["pub", "("]) {
            // The path of a visibility imports nothing.
            at += all[at..].iter().take_while(|next| **next != ")").count();
            continue;
        }
        const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];
        if ITEMS.contains(&token)
            && let Some(name) = all[at..].iter().skip(1).find(|next| is_name(next) && **next != "mut")
        {
            source.defined.insert(name);
        }
        source.tokens.push(token);
        at += 1;
    }
    source
}

/// The paths that are written out in code: `super::view::View`.
fn inline_paths<'s>(source: &Source<'s>) -> Vec<Vec<&'s str>> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = tokens.get(at).copied() {
        let mut path = vec![first];
        at += 1;
        while is_name(first) && tokens.get(at) == Some(&"::") && tokens.get(at + 1).is_some_and(|next| is_name(next)) {
            path.push(tokens[at + 1]);
            at += 2;
        }
        if path.len() > 1 {
            found.push(path);
        }
    }
    found
}

struct Resolver<'s> {
    sources: BTreeMap<Module, Source<'s>>,
}

impl Resolver<'_> {
    /// The module whose file defines what `path` names when it is written in `module`; nothing for other crates.
    fn resolve(&self, module: &Module, path: &[&str], depth: usize) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match *first {
            "crate" => self.descend(Vec::new(), rest, depth),
            "self" => self.descend(module.clone(), rest, depth),
            "super" => {
                let mut above = module.clone();
                above.pop()?;
                let skipped = rest.iter().take_while(|part| **part == "super").count();
                above.truncate(above.len().checked_sub(skipped)?);
                self.descend(above, &rest[skipped..], depth)
            }
            name => {
                let source = self.sources.get(module)?;
                let is_own = self.child(module, name).is_some() || source.uses.iter().any(|found| found.name == name);
                (is_own && depth < 16).then(|| self.descend(module.clone(), path, depth + 1)).flatten()
            }
        }
    }

    fn child(&self, module: &Module, name: &str) -> Option<Module> {
        let child: Module = module.iter().cloned().chain([name.to_owned()]).collect();
        self.sources.contains_key(&child).then_some(child)
    }

    fn descend(&self, module: Module, path: &[&str], depth: usize) -> Option<Module> {
        let Some((name, rest)) = path.split_first() else { return Some(module) };
        if let Some(child) = self.child(&module, name) {
            return self.descend(child, rest, depth);
        }
        let source = self.sources.get(&module)?;
        if depth < 16 {
            // A path that begins with the name itself is another crate's.
            if let Some(found) =
                source.uses.iter().find(|found| found.name == *name && found.path.first() != Some(name))
            {
                let whole: Vec<&str> = found.path.iter().chain(rest).copied().collect();
                return self.resolve(&module, &whole, depth + 1);
            }
            if !source.defined.contains(name) {
                let globs = source.uses.iter().filter(|found| found.name == "*");
                for glob in globs.filter_map(|glob| self.resolve(&module, &glob.path, depth + 1)) {
                    if glob != module && self.sources.get(&glob).is_some_and(|source| source.defined.contains(name)) {
                        return Some(glob);
                    }
                }
            }
        }
        Some(module)
    }
}

/// The imports between `files`: paths and texts.
pub(crate) fn imports(files: &[(String, String)]) -> Imports {
    let found = files.iter().filter_map(|(file, text)| Some((module_of(file)?, file.clone(), read(text))));
    let mut names = BTreeMap::new();
    let mut sources = BTreeMap::new();
    for (module, file, source) in found {
        names.insert(module.clone(), file);
        sources.insert(module, source);
    }
    let resolver = Resolver { sources };
    let mut edges = BTreeMap::new();
    for (module, source) in &resolver.sources {
        // A re-export is for others: it counts only where the file itself uses the name.
        let used = source.uses.iter().filter(|found| !found.is_public || source.tokens.contains(&found.name));
        let used = used.map(|found| found.path.clone()).chain(inline_paths(source));
        let targets = used.filter_map(|path| resolver.resolve(module, &path, 0)).filter(|target| target != module);
        edges.insert(module.clone(), targets.collect());
    }
    Imports { files: names, edges }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges_of(files: &[(&str, &str)], file: &str) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let imports = imports(&files);
        let (module, _) = imports.files.iter().find(|(_, path)| *path == file).unwrap();
        imports.edges[module].iter().map(|target| target.join("::")).collect()
    }

    #[test]
    fn imports_are_followed_through_groups_reexports_and_inline_paths() {
        let files = [
            ("src/lib.rs", "pub mod a; pub mod b;"),
            (
                "src/a/mod.rs",
                "mod one; mod two; pub use one::One; pub(crate) use two::{Two as Zwei, self as zwei}; pub struct Own;",
            ),
            ("src/a/one.rs", "use std::fmt; use super::{Zwei, Own}; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("src/a/two.rs", "fn f(x: super::one::One) -> crate::b::B { crate::b::deep::g::<u8>() }"),
            ("src/b/mod.rs", "pub mod deep; pub use deep::*; use crate::a; fn h() { a::zwei::i() }"),
            ("src/b/deep.rs", "pub struct B; pub(in crate::b) fn g<T>() {}"),
        ];
        assert_eq!(edges_of(&files, "src/a/mod.rs"), [""; 0]);
        assert_eq!(edges_of(&files, "src/a/one.rs"), ["a", "a::two"]);
        assert_eq!(edges_of(&files, "src/a/two.rs"), ["a::one", "b::deep"]);
        assert_eq!(edges_of(&files, "src/b/mod.rs"), ["a", "a::two"]);
        assert_eq!(edges_of(&files, "src/b/deep.rs"), [""; 0]);
    }
}
