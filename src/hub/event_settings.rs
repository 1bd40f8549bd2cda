//! The settings of the event streams that an index is fed from.

use serde::Deserialize;

use crate::policy::Glob;
use crate::replica::is_text;

/// Entries of a list: each may be a glob.
const ENTRIES_MAX: usize = 64;

/// The event streams of the region of an index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventSettings {
    /// The queues with streams to read; with `*` or `?`, those in the region's list of queues that fit.
    pub(super) queues: Vec<String>,
    /// Globs over queues: neither a rule nor the home of a tenant binds a job in them to regions.
    #[serde(default)]
    pub(super) unbound: Vec<String>,
}

impl EventSettings {
    /// The mistakes, each beginning with its key.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !(1..=ENTRIES_MAX).contains(&self.queues.len()) {
            wrong.push(format!(
                "queues: expected 1 to {ENTRIES_MAX} queues or globs over queues, such as [\"email\", \"mail-*\"]"
            ));
        }
        if self.unbound.len() > ENTRIES_MAX {
            wrong.push(format!("unbound: expected at most {ENTRIES_MAX} queues or globs over queues"));
        }
        for (key, list) in [("queues", &self.queues), ("unbound", &self.unbound)] {
            let odd = list.iter().enumerate().filter(|(_, entry)| !is_text(entry));
            wrong.extend(odd.map(|(place, _)| {
                format!(
                    "{key}[{place}]: expected a queue or a glob over queues of 1 to 255 bytes without control characters"
                )
            }));
        }
        wrong
    }

    /// The queues that are named as they are.
    pub(super) fn named(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(String::as_str).filter(|it| !is_glob(it))
    }

    /// The globs over the queues of the region.
    pub(super) fn globs(&self) -> Vec<Glob> {
        self.queues.iter().filter(|it| is_glob(it)).map(|it| Glob::new(it)).collect()
    }

    /// The globs over the queues that no rule binds.
    pub(super) fn unbound(&self) -> Vec<Glob> {
        self.unbound.iter().map(|it| Glob::new(it)).collect()
    }
}

fn is_glob(entry: &str) -> bool {
    entry.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_begins_with_its_key_and_names_are_no_globs() {
        let read = |text: &str| serde_saphyr::from_str::<EventSettings>(text).unwrap();
        let right = read("{ queues: [email, \"mail-*\"], unbound: [\"*\"] }");
        assert_eq!((right.mistakes(), right.named().collect::<Vec<_>>()), (Vec::new(), vec!["email"]));
        assert!(right.globs().iter().any(|it| it.matches("mail-eu")) && right.unbound()[0].matches("email"));
        for (text, key) in [
            ("{ queues: [] }".to_owned(), "queues:"),
            (format!("{{ queues: [{}a] }}", "a, ".repeat(ENTRIES_MAX)), "queues:"),
            ("{ queues: [a, \"\"] }".to_owned(), "queues[1]:"),
            (format!("{{ queues: [{}] }}", "q".repeat(256)), "queues[0]:"),
            ("{ queues: [a], unbound: [\"\"] }".to_owned(), "unbound[0]:"),
        ] {
            let wrong = read(&text).mistakes();
            assert!(wrong.len() == 1 && wrong[0].starts_with(key), "{text}: {wrong:?}");
        }
        assert!(serde_saphyr::from_str::<EventSettings>("{ unbound: [a] }").is_err());
        assert!(serde_saphyr::from_str::<EventSettings>("{ queues: [a], queue: b }").is_err());
    }
}
