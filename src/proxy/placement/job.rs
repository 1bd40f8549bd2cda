//! A call that creates jobs, from its plan to its answer: the id that it is sent under, and what its answers prove.

use http::{HeaderValue, StatusCode};

use super::send_history::SendHistory;
use crate::journal::Note;
use crate::ojs::answer::{existing_job_id, job_id_of};
use crate::ojs::header::REQUEST_ID;
use crate::ojs::{Uuid7, Uuid7Room, hint, replace_minted};
use crate::policy::{Decision, RegionIndex};
use crate::proxy::{
    body::shown_job::Expected,
    call::attempt::{Call, Ended, Tried},
    state::{Proxy, RegionAnswer},
};
use crate::telemetry::{AttemptOutcome, FailoverReason};

/// A call that creates jobs, ready to be tried.
pub(crate) struct Job {
    pub(crate) call: Call,
    pub(crate) decision: Decision,
    /// The id, where the call creates one job and it has one.
    pub(crate) job_id: Option<String>,
    /// The region that the id hints at, where it is ours and follows the job wherever it goes.
    pub(crate) hint: Option<RegionIndex>,
    pub(crate) trail: SendHistory,
    /// The note of a single job.
    pub(crate) note: Option<Box<Note>>,
}

impl Job {
    /// The id of the client's request, which every call has among its headers.
    pub(crate) fn request_id(&self) -> HeaderValue {
        self.call.headers.all().get(REQUEST_ID).cloned().unwrap_or(HeaderValue::from_static(""))
    }

    /// Notes that it goes to another region than the one it was meant for, or was tried in.
    pub(crate) fn note_move(&mut self, from: RegionIndex, to: Option<RegionIndex>, reason: FailoverReason) {
        if let (Some(note), Some(to)) = (&mut self.note, to) {
            note.moved(from, to, reason);
        }
    }

    /// Notes how a try ended.
    pub(crate) fn note_try(&mut self, index: RegionIndex, outcome: AttemptOutcome, tried: &Tried, ended: Ended) {
        if let Some(note) = &mut self.note {
            let status = tried.answer.as_ref().map(|answer| answer.status.as_u16());
            note.tried(index, outcome, status, tried.reason, ended.took);
            if tried.passed_over || tried.shed.is_some() {
                note.spared();
            }
        }
    }

    /// Notes that the region of the last try was asked for it, and has it.
    pub(crate) fn note_found(&mut self) {
        if let Some(note) = &mut self.note {
            note.found();
        }
    }

    /// Gives a minted id the hint of the region where the job goes now; no region has stored the id that it had.
    pub(crate) fn hint_at(&mut self, proxy: &Proxy, index: RegionIndex) {
        let Some(id) = self.job_id.as_mut().filter(|_| self.hint.is_some()) else { return };
        self.hint = Some(index);
        let hinted = hint::give_text(id, proxy.region(index).id.as_str());
        replace_minted(&mut self.call.body, id, &hinted);
        *id = hinted;
    }

    /// Replaces a minted id by a new one, so that a copy sent under the old one is distinguishable; false where the id
    /// is the client's own.
    pub(crate) fn mint_again(&mut self, proxy: &Proxy, index: RegionIndex) -> bool {
        let Some(id) = self.job_id.as_mut().filter(|_| self.trail.minted()) else { return false };
        let mut fresh = Uuid7::new(proxy.shared.registry.clock().unix_ms(), proxy.random.uuid_bits());
        if proxy.shared.config.routing.id_hint {
            fresh = hint::give(fresh, proxy.region(index).id.as_str());
            self.hint = self.hint.and(Some(index));
        }
        let fresh = fresh.text(&mut Uuid7Room::default()).to_owned();
        replace_minted(&mut self.call.body, id, &fresh);
        *id = fresh;
        true
    }

    /// Replaces our tracking id by a new one, so that an earlier copy under the client's own id is distinguishable.
    pub(crate) fn stamp_again(&mut self, proxy: &Proxy) {
        let Some(id) = self.trail.federation_id.clone().filter(|_| self.trail.stamped) else { return };
        let fresh = Uuid7::new(proxy.shared.registry.clock().unix_ms(), proxy.random.uuid_bits());
        let mut room = Uuid7Room::default();
        let fresh = fresh.text(&mut room);
        if let (Ok(id), Ok(header)) = (id.to_str(), HeaderValue::from_str(fresh)) {
            replace_minted(&mut self.call.body, id, fresh);
            self.trail.federation_id = Some(header);
        }
    }

    /// Remembers the job's region, as the answer shows it. Where the id itself hints at that region, nothing is stored:
    /// a later look-up asks there first, and most jobs are never looked up.
    pub(crate) fn learn(&self, proxy: &Proxy, index: RegionIndex, answer: &RegionAnswer) {
        let (owners, region) = (&proxy.shared.owners, &proxy.region(index).id);
        match (answer.status, &self.job_id) {
            (StatusCode::CREATED, Some(_)) if self.hint == Some(index) => {}
            (StatusCode::CREATED, Some(id)) => owners.learn(id, region),
            // A unique policy may have answered with another job than the one that was sent.
            (status, _) if status.is_success() => {
                if let Some(id) = job_id_of(&answer.body) {
                    owners.learn(&id, region);
                }
            }
            (StatusCode::CONFLICT, _) => {
                if let Some(id) = existing_job_id(&answer.body) {
                    // The answer does not show the job that has this id: it may be a tombstone, with the job elsewhere.
                    let is_own = self.job_id.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(&id));
                    if !is_own {
                        owners.learn(&id, region);
                    }
                    // By its `unique` policy a job may be refused for another one that is like it.
                    let is_refused = matches!(self.trail.expected, Expected::Job { unique: false, .. });
                    if is_refused && is_own {
                        proxy.region(index).has_refused_id();
                    }
                }
            }
            _ => {}
        }
    }
}
