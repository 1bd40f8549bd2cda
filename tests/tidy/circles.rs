//! Circles: files and folders side by side that import each other, directly or over others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::imports::{Imports, Module, imports};
use crate::{PACKAGES, assert_none, package_files, read, root};

/// The circles that still exist; they may only get fewer and smaller.
const LIMITS: &str = "tests/tidy/limits.toml";
/// How a folder's own file is named beside what lies in the folder.
const OWN: &str = "mod";

type Circle = BTreeSet<String>;
type Circles = BTreeMap<String, Vec<Circle>>;

/// The imports between the direct children of each folder: folder, importing child, imported child, and one example each.
type Siblings = BTreeMap<Module, BTreeMap<String, BTreeMap<String, String>>>;

fn siblings(imports: &Imports) -> Siblings {
    let mut found = Siblings::new();
    for (from, targets) in &imports.edges {
        for to in targets {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            let unit = |module: &Module| module.get(common).map_or(OWN, String::as_str).to_owned();
            let example = format!("{} imports {}", imports.files[from], imports.files[to]);
            let folder = found.entry(from[..common].to_vec()).or_default();
            folder.entry(unit(from)).or_default().entry(unit(to)).or_insert(example);
        }
    }
    found
}

fn reachable<'a>(from: &'a str, edges: &'a BTreeMap<String, BTreeMap<String, String>>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(unit) = open.pop() {
        let targets = edges.get(unit).into_iter().flat_map(BTreeMap::keys);
        open.extend(targets.map(String::as_str).filter(|target| seen.insert(*target)));
    }
    seen
}

/// The children of one folder that reach themselves, grouped by whom they reach and are reached by.
fn circles_of(edges: &BTreeMap<String, BTreeMap<String, String>>) -> Vec<Circle> {
    let mut found = BTreeSet::new();
    for unit in edges.keys() {
        let ahead = reachable(unit, edges);
        if ahead.contains(unit.as_str()) {
            let both = ahead.into_iter().filter(|other| reachable(other, edges).contains(unit.as_str()));
            found.insert(both.map(str::to_owned).collect::<Circle>());
        }
    }
    found.into_iter().collect()
}

fn name(folder: &Module) -> String {
    std::iter::once("src").chain(folder.iter().map(String::as_str)).collect::<Vec<_>>().join("/")
}

fn circles(siblings: &Siblings) -> Circles {
    let found = siblings.iter().map(|(folder, edges)| (name(folder), circles_of(edges)));
    found.filter(|(_, circles)| !circles.is_empty()).collect()
}

/// The lines `"folder" = ["a b", "c d e"]`.
fn parse(limits: &str) -> Circles {
    let lines = limits.lines().filter(|line| line.starts_with('"')).filter_map(|line| line.split_once('='));
    let words = |text: &str| text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let circle = |text: String| text.split(' ').map(str::to_owned).collect();
    lines.map(|(folder, rest)| (words(folder).concat(), words(rest).into_iter().map(circle).collect())).collect()
}

fn render(limits: &str, circles: &Circles) -> String {
    let mut text: String =
        limits.lines().take_while(|line| !line.starts_with('"')).flat_map(|line| [line, "\n"]).collect();
    for (folder, circles) in circles {
        let circles: Vec<_> = circles
            .iter()
            .map(|circle| format!("\"{}\"", circle.iter().cloned().collect::<Vec<_>>().join(" ")))
            .collect();
        text.push_str(&format!("\"{folder}\" = [{}]\n", circles.join(", ")));
    }
    text
}

/// The circles of `found` that lie in no circle of `allowed`.
fn grown(found: &Circles, allowed: &Circles) -> Vec<(String, Circle)> {
    let all = found.iter().flat_map(|(folder, circles)| circles.iter().map(move |circle| (folder, circle)));
    let new = all.filter(|(folder, circle)| {
        !allowed.get(*folder).is_some_and(|limits| limits.iter().any(|limit| limit.is_superset(circle)))
    });
    new.map(|(folder, circle)| (folder.clone(), circle.clone())).collect()
}

/// The circle and the imports that make it.
fn shown(folder: &str, circle: &Circle, siblings: &Siblings) -> String {
    let edges = siblings.iter().find(|(module, _)| name(module) == folder).map(|(_, edges)| edges);
    let inner = edges.into_iter().flatten().filter(|(from, _)| circle.contains(*from));
    let inner = inner.flat_map(|(_, targets)| targets).filter(|(to, _)| circle.contains(*to));
    let examples: Vec<_> = inner.map(|(_, example)| format!("  {example}")).collect();
    let names: Vec<_> = circle.iter().cloned().collect();
    format!("{folder}: {} import each other in a circle:\n{}", names.join(", "), examples.join("\n"))
}

#[test]
#[expect(clippy::print_stdout, reason = "shown with --nocapture: which imports make the circles that are left")]
fn files_of_a_folder_import_each_other_in_no_new_circle() {
    let (mut found, mut examples) = (Circles::new(), BTreeMap::new());
    for package in PACKAGES {
        let siblings = siblings(&imports(&package_files(package)));
        for (folder, all) in circles(&siblings) {
            for circle in &all {
                let text = shown(&folder, circle, &siblings);
                println!("{package}{text}");
                examples.insert((format!("{package}{folder}"), circle.clone()), text);
            }
            found.insert(format!("{package}{folder}"), all);
        }
    }
    let limits = read(LIMITS);
    let allowed = parse(&limits);
    let new = grown(&found, &allowed);
    let advice = "move what both need into a file of its own";
    let problems: Vec<_> = new.iter().map(|circle| format!("{}\n{advice}", examples[circle])).collect();
    assert_none(&problems);
    if std::env::var_os("LIMITS_UPDATE").is_some() {
        fs::write(root().join(LIMITS), render(&limits, &found)).unwrap();
    } else {
        assert!(found == allowed, "a circle is gone or smaller; hold it: LIMITS_UPDATE=1 cargo test --test tidy");
    }
}

#[test]
fn a_circle_over_three_children_is_found_and_tests_make_none() {
    let files = [
        ("src/a/mod.rs", "mod one; mod two; mod three; pub use one::One;"),
        ("src/a/one.rs", "use super::two::Two; pub struct One;"),
        ("src/a/two/mod.rs", "mod inner; pub struct Two; fn f() { inner::g() }"),
        ("src/a/two/inner.rs", "use super::super::three::Three; pub fn g() {}"),
        ("src/a/three.rs", "pub struct Three(crate::a::One); pub struct Four;"),
        ("src/a/four.rs", "use super::three::Four; #[cfg(test)] mod tests { use super::five::Five; }"),
        ("src/a/five.rs", "use super::four; pub struct Five;"),
    ];
    let files: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let siblings = siblings(&imports(&files));
    let found = circles(&siblings);
    let limits = "# kept: A=1\n\"src/a\" = [\"one three two\"]\n";
    assert_eq!(found, parse(limits));
    assert_eq!(render(limits, &found), limits);
    assert_eq!(grown(&found, &parse("\"src/a\" = [\"one two\"]")).len(), 1);
    assert!(grown(&found, &parse("\"src/a\" = [\"four one three two\"]")).is_empty());
    let shown = shown("src/a", found["src/a"].first().unwrap(), &siblings);
    assert!(shown.contains("\n  src/a/two/inner.rs imports src/a/three.rs"), "{shown}");
}
