//! A scheduled time in a job, wherever servers look for one, and further members of its `options`.

use super::{Slot, Splices, Value};
use crate::ojs::due::Due;
use crate::ojs::envelope::Envelope;

impl Splices {
    /// Writes a time in place of the job's own. Returns whether `options` need it, too.
    pub(super) fn due(&mut self, envelope: &Envelope<'_>, at: &str, due: &Due) -> bool {
        for &(start, end) in &due.values {
            self.splice(start..end, |plan| plan.value(Value::Text(at)));
        }
        if !due.at_root && !matches!(envelope.root, Slot::Object { empty: true, .. }) {
            self.fill(envelope.root, |plan| plan.member(&mut true, "scheduled_at", Value::Text(at)));
        }
        !due.in_options
    }

    /// Puts members into `options`, which are made where there are none: their brace and whether nothing is in them, or where there is `null`. Called once, because the members of one object are written in one go.
    pub(super) fn options(
        &mut self,
        envelope: &Envelope<'_>,
        (open, null): (Option<(usize, bool)>, Option<usize>),
        members: &[(&str, &str)],
    ) {
        let write = |plan: &mut Self| {
            let mut is_first = true;
            for (name, text) in members {
                plan.member(&mut is_first, name, Value::Text(text));
            }
        };
        match (open, null) {
            (Some((open, empty)), _) => self.fill(Slot::Object { open, empty }, write),
            (None, Some(at)) => self.fill(Slot::Null(at), write),
            // A job of no members is refused by its region, wherever it is.
            (None, None) if matches!(envelope.root, Slot::Object { empty: true, .. }) => {}
            (None, None) => self.fill(envelope.root, |plan| {
                plan.text("\"options\":{");
                write(plan);
                plan.text("}");
            }),
        }
    }
}
