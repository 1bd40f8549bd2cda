//! The language of comments: words that hide the subject of a sentence are counted, and may only get fewer.
//!
//! Counted are the comments of production code, in uses of a word among 10 000 words, as docs of other projects are measured.

use std::collections::BTreeMap;
use std::fs;

use crate::{files, read, root};

const LIMITS: &str = "tests/tidy/words.toml";

/// A line of the limits: its name, and the words that it counts.
const COUNTED: &[(&str, &[&str])] = &[
    ("what", &["what", "whatever"]),
    ("tell", &["tell", "tells", "told", "telling"]),
    ("nobody", &["nobody", "somebody", "anybody", "everybody"]),
    ("who", &["who", "whom", "whoever"]),
    ("whose", &["whose"]),
    ("gone", &["gone"]),
];

/// Names of functions that say `tell`, `told` or `gone` instead of what they do.
const NAMES: &[&str] = &["tell", "told", "gone"];

/// The words of all comments of a source, in lower case.
fn words(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let comments = code.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let split = |line: &str| -> Vec<String> {
        let parts = line.split(|c: char| !c.is_alphabetic() && c != '\'').filter(|word| !word.is_empty());
        parts.map(str::to_lowercase).collect()
    };
    comments.flat_map(split).collect()
}

/// How many functions have such a name.
fn named(source: &str) -> usize {
    let names = source.lines().filter_map(|line| line.trim_start().split_once("fn "));
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    names.filter(|(_, rest)| name(rest).split('_').any(|part| NAMES.contains(&part))).count()
}

/// The counts of these sources by the names of their limits; uses per 10 000 words, rounded up.
fn count<'s>(sources: impl Iterator<Item = &'s str>) -> BTreeMap<String, usize> {
    let (mut all, mut functions) = (Vec::new(), 0);
    for source in sources {
        all.extend(words(source));
        functions += named(source);
    }
    let uses = |counted: &[&str]| all.iter().filter(|word| counted.contains(&word.as_str())).count();
    let rate = |counted: &[&str]| (uses(counted) * 10_000).div_ceil(all.len().max(1));
    let rates = COUNTED.iter().map(|(name, counted)| ((*name).to_owned(), rate(counted)));
    rates.chain([("functions".to_owned(), functions)]).collect()
}

fn parse(limits: &str) -> BTreeMap<String, usize> {
    let lines = limits.lines().filter_map(|line| line.split_once(" = "));
    lines.map(|(name, limit)| (name.to_owned(), limit.parse().unwrap())).collect()
}

#[test]
fn comments_name_their_subjects() {
    let is_code = |path: &str| path.ends_with(".rs") && !path.contains("/tests/") && !path.ends_with("tests.rs");
    let sources: Vec<_> = files(&["src", "crates"]).into_iter().filter(|(path, _)| is_code(path)).collect();
    assert!(sources.len() > 300, "the sources are not where they were");
    let found = count(sources.iter().map(|(_, text)| text.as_str()));
    let (text, allowed) = (read(LIMITS), parse(&read(LIMITS)));
    if std::env::var_os("LIMITS_UPDATE").is_some() {
        let head: String =
            text.lines().take_while(|line| line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
        let lines = found.iter().map(|(name, count)| format!("{name} = {count}\n"));
        fs::write(root().join(LIMITS), head + "\n" + &lines.collect::<String>()).unwrap();
        return;
    }
    for (name, count) in found {
        let limit = allowed.get(&name).copied().unwrap_or(0);
        assert!(
            count <= limit,
            "`{name}`: {count}, at most {limit}: name the subject of the sentence (CONTRIBUTING.md)"
        );
    }
}

#[test]
fn a_word_that_hides_its_subject_is_seen() {
    let source = "/// What is told: nobody's.\nfn tell_all() { /* told */ }\nfn report() {}\n#[cfg(test)]\nmod tests {\n    // who\n}\n";
    let found = count(std::iter::once(source));
    assert_eq!((found["what"], found["tell"], found["who"], found["functions"]), (2_500, 2_500, 0, 1));
}
