//! The queues of the region with streams to read.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::super::event_settings::EventSettings;
use crate::policy::Glob;
use crate::replica::is_text;

/// Streams of one region at once: each is a connection where the region speaks HTTP/1.1, and a server may permit a hundred of one client.
pub(super) const STREAMS_MAX: usize = 64;

/// A list of queues.
#[derive(Debug, Deserialize)]
struct Listed {
    queues: Vec<ListedQueue>,
}

/// One of them: an object with its name, or the name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ListedQueue {
    Named { name: String },
    Name(String),
}

/// The names in an answer to `GET /ojs/v1/queues`; none where it is no list of queues.
pub(super) fn listed(body: &[u8]) -> Option<Vec<String>> {
    let Listed { queues } = serde_json::from_slice(body).ok()?;
    let name = |it: ListedQueue| match it {
        ListedQueue::Named { name } | ListedQueue::Name(name) => name,
    };
    Some(queues.into_iter().map(name).filter(|name| is_text(name)).collect())
}

/// The queues with streams to read, and how many more there are than that may be.
pub(super) fn wanted(settings: &EventSettings, globs: &[Glob], listed: &[String]) -> (BTreeSet<String>, usize) {
    let mut wanted: BTreeSet<String> = settings.named().map(str::to_owned).collect();
    let fitting = listed.iter().filter(|name| globs.iter().any(|glob| glob.matches(name)));
    let mut left = 0;
    for name in fitting.collect::<BTreeSet<_>>() {
        if wanted.len() < STREAMS_MAX {
            wanted.insert(name.clone());
        } else if !wanted.contains(name) {
            left += 1;
        }
    }
    (wanted, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_read_in_both_forms_and_chosen_by_name_and_glob_within_a_bound() {
        let list = br#"{"queues":[{"name":"email","available":1},"mail-eu",{"name":"mail-us"},{"name":"other"}]}"#;
        let names = listed(list).unwrap();
        assert_eq!(names, ["email", "mail-eu", "mail-us", "other"]);
        for body in ["", "[]", "{}", r#"{"queues":[7]}"#, "<html>"] {
            assert_eq!(listed(body.as_bytes()), None, "{body}");
        }
        let settings: EventSettings = serde_saphyr::from_str("{ queues: [later, \"mail-*\"] }").unwrap();
        let (chosen, left) = wanted(&settings, &settings.globs(), &names);
        assert_eq!(
            (chosen.into_iter().collect::<Vec<_>>(), left),
            (["later", "mail-eu", "mail-us"].map(str::to_owned).to_vec(), 0)
        );
        let many: Vec<String> = (0..100).map(|number| format!("mail-{number}")).collect();
        let (chosen, left) = wanted(&settings, &settings.globs(), &many);
        assert_eq!((chosen.len(), left), (STREAMS_MAX, 100 + 1 - STREAMS_MAX));
        assert!(chosen.contains("later"));
    }
}
