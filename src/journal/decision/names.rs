//! The names of regions in notes.

use crate::base::RegionId;

/// The names of regions by numbers that stay the same over reloads.
///
/// Shape: one entry for each id that any configuration of this process had.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Vec<RegionId>);

impl Names {
    pub(super) fn number(&mut self, id: &RegionId) -> u16 {
        let place = self.0.iter().position(|it| it == id).unwrap_or_else(|| {
            self.0.push(id.clone());
            self.0.len() - 1
        });
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    pub(super) fn name(&self, number: u16) -> &str {
        self.0.get(usize::from(number)).map_or("", RegionId::as_str)
    }
}
