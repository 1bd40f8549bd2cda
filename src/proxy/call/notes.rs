//! The notes of one thread's jobs: a note is begun when a job is read, and kept when it is answered.

use std::fmt::Write as _;

use crate::journal::Note;
use crate::ojs::Envelope;
use crate::policy::{DecidedBy, Decision, Origin, RegionIndex, RouteError, View};
use crate::proxy::state::Proxy;
use crate::telemetry::{AccessEvent, AccessJob, event};

/// The request is answered: its line is written where one is asked for, and the note of its job is kept.
pub(crate) fn end(proxy: &Proxy, access: &AccessEvent<'_>, note: Option<Box<Note>>) {
    let shared = &proxy.shared;
    if let Some(line) = access.line(shared.config.log.access, &shared.rations) {
        access.write(line, &note.as_deref().map(|note| job_of(proxy, note)).unwrap_or_default());
    }
    if let Some(mut note) = note {
        note.request_id.set(access.request_id);
        (note.status, note.refusal, note.strategy) = (access.status, access.refusal, access.strategy);
        note.ms = crate::journal::milliseconds(access.duration);
        proxy.notes.keep(&shared.journal, &shared.registry, note, access.went_as_planned());
    }
}

fn job_of<'n>(proxy: &'n Proxy, note: &'n Note) -> AccessJob<'n> {
    let name = |index: RegionIndex| proxy.region(index).id.as_str();
    AccessJob {
        job_id: note.job_id.get(),
        federation_id: note.federation_id.get(),
        queue: note.queue.get(),
        job_type: note.job_type.get(),
        pin: note.pin().map(name),
        moved: note.move_made().map(|(from, to, reason)| [name(from), name(to), reason.as_str()]),
        decided_by: Some(note.grounds.decided_by).filter(|it| *it != DecidedBy::View).map(DecidedBy::as_str),
        refusals: refusals(proxy, note),
    }
}

fn refusals(proxy: &Proxy, note: &Note) -> Option<String> {
    let mut text = String::new();
    for &(place, refusal) in note.grounds.fallen.listed() {
        let region = &proxy.region(RegionIndex::new(place.into())).id;
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{region}:{}", refusal.as_str());
    }
    (!text.is_empty()).then_some(text)
}

/// Writes how many lines were not written where no further one came. Called every few seconds.
pub(crate) fn log_left_over(proxy: &Proxy) {
    proxy.shared.rations.left_over(event::lines_suppressed);
    let now_ms = proxy.shared.rations.now_ms();
    for (region, ration) in proxy.shared.registry.regions().iter().zip(&proxy.failovers) {
        if let Some(suppressed) = ration.left_over(now_ms) {
            event::failovers_suppressed(proxy.metrics(region.index), suppressed);
        }
    }
}

/// Notes the job's demands and the decision. The ids that the job is sent with are noted later.
pub(crate) fn write_down(
    proxy: &Proxy,
    view: &View,
    envelope: &Envelope<'_>,
    routed: &Result<Decision, RouteError>,
    note: &mut Note,
) {
    note.at_ms = proxy.shared.registry.clock().unix_ms_about();
    note.queue.set(envelope.queue().as_bytes());
    note.job_type.set(envelope.job_type().unwrap_or_default().as_bytes());
    let attributes = envelope.attributes();
    match routed {
        Ok(decision) => {
            note.set_candidates(&decision.candidates);
            if let (Origin::Pin, Some(pin)) = (note.grounds.origin, decision.target()) {
                note.set_pin(pin);
            }
        }
        Err(_) => {
            note.job_id.set(envelope.id().unwrap_or_default().as_bytes());
            note.federation_id.set(attributes.federation_id.as_deref().unwrap_or_default().as_bytes());
            if let Some(pin) = attributes.region.as_deref().and_then(|pin| view.index_of(pin)) {
                note.set_pin(pin);
            }
        }
    }
}
