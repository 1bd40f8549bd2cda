//! The book: its table of contents, its links, and the pages that are made of what the program says.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use super::{command, documents, file, pages_of, quoted, read};

const SUMMARY: &str = "docs/SUMMARY.md";
const COMMANDS: &str = "docs/reference/cli.md";
/// Folders whose files documents name by their paths.
const SOURCES: [&str; 11] =
    [".ci/", "benches/", "config/", "crates/", "deploy/", "docs/", "fuzz/", "src/", "tests/", "tools/", "target/"];
/// Two screens.
const README_BYTES_MAX: usize = 8_000;
const SECURITY_BYTES_MAX: usize = 6_000;

/// The places that a page links to, as they are written.
fn links(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let links = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter(|link| !link.contains("://")).map(str::to_owned).collect()
}

/// A path relative to a page, from the folder of the project; none where it leads out of that.
fn resolved(page: &str, link: &str) -> Option<PathBuf> {
    let mut path = PathBuf::from(page).parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir if !path.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            part => path.push(part),
        }
    }
    Some(path)
}

/// The anchor of a heading, as Markdown readers make it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    kept.replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// What is wrong with a link.
fn broken(page: &str, link: &str) -> Option<String> {
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { PathBuf::from(page) } else { resolved(page, path)? };
    if !file(target.to_str()?).exists() {
        return Some(format!("{page} links to {link}, which does not exist"));
    }
    if page.starts_with("docs/") && !target.starts_with("docs") {
        return Some(format!("{page} links to {link}, which is not in the book: name the file by its path"));
    }
    if !is_in_book(page, &target) {
        return Some(format!("{page} links to {link}, which {SUMMARY} does not list"));
    }
    let is_there = place.is_empty() || anchors(&read(target.to_str()?)).contains(place);
    (!is_there).then(|| format!("{page} links to {link}, a heading that does not exist"))
}

/// Whether the book shows a page that another page of the book links to. The figures of measurements are files beside it.
fn is_in_book(page: &str, target: &Path) -> bool {
    let is_free = !page.starts_with("docs/") || target.extension().is_none_or(|it| it != "md");
    is_free || target.starts_with("docs/performance") || pages().iter().any(|page| target == Path::new(page))
}

/// The pages of the book.
fn pages() -> Vec<String> {
    links(&read(SUMMARY)).iter().map(|link| format!("docs/{link}")).collect()
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let pages: Vec<String> = pages();
    let listed: BTreeSet<&String> = pages.iter().collect();
    assert_eq!(listed.len(), pages.len(), "a page is listed twice");
    let written: Vec<String> = ["docs", "docs/guide", "docs/reference"].into_iter().flat_map(pages_of).collect();
    for page in written.iter().filter(|page| *page != SUMMARY) {
        assert!(listed.contains(page), "{page} is not in {SUMMARY}");
    }
    for page in listed {
        assert!(file(page).exists(), "{SUMMARY} lists {page}, which does not exist");
    }
}

#[test]
fn links_lead_to_pages_and_headings_that_exist() {
    let pages = documents().into_iter().chain(pages()).collect::<BTreeSet<_>>();
    let of = |page: &String| links(&read(page)).iter().filter_map(|link| broken(page, link)).collect::<Vec<_>>();
    let wrong: Vec<String> = pages.iter().flat_map(of).collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn a_broken_link_is_seen() {
    assert_eq!(links("[a](b.md) ```[c](d.md)``` [e](https://example.com) [f](g.md#h)"), ["b.md", "g.md#h"]);
    assert_eq!(anchor("What is not there, `yet`"), "what-is-not-there-yet");
    for (page, link) in [
        ("docs/limits.md", "nothing.md"),
        ("docs/limits.md", "../README.md"),
        ("docs/limits.md", "outcomes.md#nothing"),
    ] {
        assert!(broken(page, link).is_some(), "{link}");
    }
    assert_eq!(broken("docs/guide/demo.md", "../limits.md#fleets"), None);
    assert!(!is_in_book("docs/limits.md", Path::new("docs/other.md")));
}

#[test]
fn files_named_in_documents_exist() {
    let mut wrong = Vec::new();
    for page in documents().iter().filter(|page| *page != "docs/decisions.md") {
        for word in quoted(&read(page)) {
            let is_path = SOURCES.iter().any(|folder| word.starts_with(folder)) && !word.contains(['*', ' ', '{']);
            // What a build makes is not there before it.
            if is_path && !word.starts_with("target/") && !file(&word).exists() {
                wrong.push(format!("{page} names {word}, which does not exist"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_readme_is_two_screens() {
    assert!(read("README.md").len() <= README_BYTES_MAX, "README is longer than {README_BYTES_MAX} bytes");
    assert!(read("SECURITY.md").len() <= SECURITY_BYTES_MAX, "SECURITY is longer than {SECURITY_BYTES_MAX} bytes");
}

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// The help of the program and of all its commands, in Markdown.
fn commands_markdown() -> String {
    let mut text = String::new();
    let mut waiting = vec![Vec::new()];
    while let Some(name) = waiting.pop() {
        let line: Vec<&str> = name.iter().map(String::as_str).chain(["--help"]).collect();
        let help = command(&line, &[], "").stdout;
        let below = listed(&help).into_iter().rev();
        waiting.extend(below.map(|below| name.iter().cloned().chain([below]).collect::<Vec<_>>()));
        let title = if name.is_empty() { "ojs-sidecar".to_owned() } else { name.join(" ") };
        let _ = writeln!(text, "## {title}\n\n```text\n{}\n```\n", help.trim_end());
    }
    text
}

#[test]
fn the_reference_has_the_help_of_every_command() {
    let (open, close) = ("<!-- commands -->\n", "<!-- /commands -->");
    let page = read(COMMANDS);
    let (before, rest) = page.split_once(open).unwrap();
    let (_, after) = rest.split_once(close).unwrap();
    let expected = format!("{before}{open}\n{}{close}{after}", commands_markdown());
    if std::env::var_os("DOCS_UPDATE").is_some() {
        std::fs::write(file(COMMANDS), &expected).unwrap();
    } else {
        assert!(page == expected, "{COMMANDS} is out of date; run: DOCS_UPDATE=1 cargo test --test it documents::");
    }
}
