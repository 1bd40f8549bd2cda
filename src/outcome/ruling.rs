//! An operator's ruling about a copy of which its region shows nothing.

use super::copy::{Absence, Copy, Fate, Place, Ruling};
use super::placement::{Placement, Settlement};
use super::word::Progress;
use crate::base::RegionId;

impl Copy {
    /// Whether an operator may rule on it: its region has not shown its fate yet.
    const fn is_undecided(&self) -> bool {
        matches!(self.fate, Fate::Unknown { .. } | Fate::Cancelling { .. } | Fate::Absent { by: Absence::Watched(_) })
    }
}

impl Placement {
    /// Whether it goes by this name: its number, an id that the job was sent with or is known by, or a tracking id.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        let is_stamp = |copy: &Copy| copy.stamp.as_deref() == Some(name);
        name.parse() == Ok(self.number) || self.ids().any(|id| id == name) || self.copies.iter().any(is_stamp)
    }

    /// The places on which an operator may rule, each once; with an id as the name, only the places of that id.
    #[must_use]
    pub fn undecided(&self, name: &str, region: Option<&RegionId>) -> Vec<Place> {
        let is_over = self.settled.is_some_and(|settled| settled.how != Settlement::Expired);
        let open = self.copies.iter().filter(|copy| !is_over && copy.is_undecided()).map(|copy| &copy.place);
        let open = open.filter(|place| region.is_none_or(|region| place.region == *region));
        let is_told_apart = open.clone().any(|place| place.job_id == name);
        let mut places: Vec<Place> = Vec::new();
        for place in open.filter(|place| !is_told_apart || place.job_id == name) {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
        places
    }

    /// Takes an operator's word about a place. Under one id there is one job, so that of several copies the last one is the one.
    pub(super) fn decide(&mut self, place: &Place, ruling: &Ruling) {
        let mut is_stored = ruling.stored;
        for copy in self.copies.iter_mut().rev().filter(|copy| copy.place == *place && copy.is_undecided()) {
            // An expired placement is open again, as far as the operator left it open.
            self.settled = None;
            copy.set(if std::mem::take(&mut is_stored) {
                Fate::Stored { progress: Progress::Waiting }
            } else {
                Fate::Absent { by: Absence::Final }
            });
            copy.ruling = Some(Box::new(ruling.clone()));
        }
    }
}
