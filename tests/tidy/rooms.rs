//! The rooms of a folder: its subfolders, with floors of their own.

use std::collections::BTreeMap;

use crate::imports::{Imports, Module, imports};
use crate::{Floor, assert_none, files, floors, read};

/// Rows with a path are rooms; `policy/` names the files that lie in the folder itself.
fn rooms(floors: BTreeMap<String, Floor>) -> BTreeMap<String, Floor> {
    floors.into_iter().filter(|(name, _)| name.contains('/')).collect()
}

/// The room of `module`: the subfolder, or the root of the folder. Nothing for a folder without rooms.
fn room_of(module: &Module, imports: &Imports, rooms: &BTreeMap<String, Floor>) -> Result<Option<String>, String> {
    let [folder, inner @ ..] = module.as_slice() else { return Ok(None) };
    let root = format!("{folder}/");
    let Some(first) = inner.first() else { return Ok(None) };
    let room = format!("{root}{first}");
    if !rooms.contains_key(&root) {
        return Ok(None);
    }
    let is_file =
        imports.files.contains_key(module) && imports.files.values().any(|file| *file == format!("src/{room}.rs"));
    match (rooms.contains_key(&room), is_file) {
        (true, _) => Ok(Some(room)),
        (false, true) => Ok(Some(root)),
        (false, false) => Err(format!("src/{room} is not in the room table of ARCHITECTURE.md")),
    }
}

/// The imports from a room to one that does not lie below it.
fn upward(imports: &Imports, rooms: &BTreeMap<String, Floor>) -> Vec<String> {
    let mut problems = Vec::new();
    for (from, targets) in &imports.edges {
        let own = match room_of(from, imports, rooms) {
            Ok(Some(own)) => own,
            Ok(None) => continue,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        for to in targets.iter().filter(|to| to.first() == from.first()) {
            let Ok(Some(other)) = room_of(to, imports, rooms) else { continue };
            let (above, below) = (&rooms[&own], &rooms[&other]);
            if other != own && below.number >= above.number && !above.also.contains(&other) {
                let (from, to) = (&imports.files[from], &imports.files[to]);
                problems.push(format!("{from} (floor {}) imports {to} (floor {})", above.number, below.number));
            }
        }
    }
    problems
}

#[test]
fn rooms_of_a_folder_import_only_from_lower_floors() {
    let rooms = rooms(floors(&read("ARCHITECTURE.md")));
    let imports = imports(&files(&["src"]));
    let absent =
        rooms.keys().filter(|room| !imports.files.values().any(|file| file.starts_with(&format!("src/{room}"))));
    let mut problems: Vec<_> =
        absent.map(|room| format!("ARCHITECTURE.md has a room src/{room}; there is none")).collect();
    problems.extend(upward(&imports, &rooms));
    assert_none(&problems);
}

#[test]
fn an_import_that_runs_up_between_rooms_is_seen() {
    let table = "| 0 | `a/` | nothing |\n| 1 | `a/low` | floor 0 |\n| 2 | `a/high` | floors 0 to 1 |\n";
    let files = [
        ("src/a/mod.rs", "mod root; mod low; mod high; mod other; pub use high::High;"),
        ("src/a/root.rs", "use super::low::Low; pub struct Root;"),
        ("src/a/low/mod.rs", "use crate::a::{root::Root, High}; pub struct Low;"),
        ("src/a/high.rs", "use super::low::Low; pub struct High;"),
        ("src/a/other/mod.rs", ""),
    ];
    let files: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let expected = [
        "src/a/low/mod.rs (floor 1) imports src/a/high.rs (floor 2)",
        "src/a/other is not in the room table of ARCHITECTURE.md",
        "src/a/root.rs (floor 0) imports src/a/low/mod.rs (floor 1)",
    ];
    assert_eq!(upward(&imports(&files), &rooms(floors(table))), expected);
}
