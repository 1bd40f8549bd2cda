//! The figures of a sidecar's pools of workers, for its hub, which sums them.

use serde::{Deserialize, Serialize};

use super::status::is_name;
use crate::policy::Figures;

/// The longest report, as JSON: 320 rows with a name and five numbers each. Units: bytes.
pub const FIGURES_BYTES_MAX: usize = 256 * 1024;
/// Rows of a report: as many queues in pools as a configuration may have, and pools.
const ROWS_MAX: (usize, usize) = (256, 64);
/// The longest name of a pool or a queue. Units: bytes.
const NAME_BYTES_MAX: usize = 255;

/// A report. Unknown members are left out, so that a later sidecar may add some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiguresReport {
    /// The name of the sidecar in the inventory.
    pub sidecar: String,
    /// The figures of the last minute.
    pub figures: Figures,
}

impl FiguresReport {
    /// The first member that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        let is_text = |name: &str| name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
        let Figures { pools, queues } = &self.figures;
        if !is_name(&self.sidecar) {
            return Some("`sidecar`: expected 1 to 128 bytes of visible ASCII");
        }
        if queues.len() > ROWS_MAX.0 || !queues.iter().all(|it| is_text(&it.name)) {
            return Some("`figures.queues`: expected at most 256 rows with a name of at most 255 bytes");
        }
        if pools.len() > ROWS_MAX.1 || !pools.iter().all(|it| is_text(&it.name)) {
            return Some("`figures.pools`: expected at most 64 rows with a name of at most 255 bytes");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{PoolFigures, QueueFigures};

    fn report(queues: usize, pools: usize, name: &str) -> FiguresReport {
        let queue = |_| QueueFigures { name: name.to_owned(), jobs: u64::MAX, ..QueueFigures::default() };
        let pool = |_| PoolFigures { name: name.to_owned(), active: u64::MAX, ..PoolFigures::default() };
        let figures = Figures { queues: (0..queues).map(queue).collect(), pools: (0..pools).map(pool).collect() };
        FiguresReport { sidecar: "pod".to_owned(), figures }
    }

    #[test]
    fn the_most_and_longest_rows_fit_into_a_report_and_further_ones_are_named() {
        let longest = "\"".repeat(NAME_BYTES_MAX);
        let most = report(ROWS_MAX.0, ROWS_MAX.1, &longest);
        assert_eq!(most.mistake(), None);
        assert!(serde_json::to_string(&most).unwrap().len() < FIGURES_BYTES_MAX);
        for (wrong, member) in [
            (report(ROWS_MAX.0 + 1, 0, "q"), "`figures.queues`"),
            (report(0, ROWS_MAX.1 + 1, "q"), "`figures.pools`"),
            (report(1, 0, &format!("{longest}x")), "`figures.queues`"),
            (report(0, 1, "a\nb"), "`figures.pools`"),
            (FiguresReport { sidecar: "a b".to_owned(), ..report(0, 0, "") }, "`sidecar`"),
        ] {
            assert!(wrong.mistake().is_some_and(|mistake| mistake.starts_with(member)), "{member}");
        }
    }

    #[test]
    fn a_report_of_a_later_sidecar_is_read() {
        let later = r#"{"sidecar":"pod","later":1,"figures":{"later":[],"pools":[{"name":"p","workers":1,"active":2,"later":3}],"queues":[]}}"#;
        let read: FiguresReport = serde_json::from_str(later).unwrap();
        assert_eq!((read.figures.pools[0].active, read.mistake()), (2, None));
    }
}
