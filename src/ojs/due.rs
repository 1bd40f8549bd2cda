//! When a job is to run by its own word, and the places for another time.

use super::envelope::Envelope;
use super::key::{Likeness, likeness};
use super::scan::{ScanError, Scanner};
use crate::base::text::read_rfc3339;

/// The members that schedule a job, of the job and of its `options`.
const NAMES: [&str; 2] = ["scheduled_at", "delay_until"];

/// The scheduled time of a job, and the places where it stands, or would.
#[derive(Debug, Default)]
pub struct Due {
    /// Start and end of each value.
    pub(super) values: Vec<(usize, usize)>,
    /// Whether the job itself has `scheduled_at`.
    pub(super) at_root: bool,
    /// Whether its `options` have either member.
    pub(super) in_options: bool,
    /// The brace of `options`, and whether nothing is in it.
    pub(super) options: Option<(usize, bool)>,
    /// Where `options` is `null`.
    pub(super) null_options: Option<usize>,
    /// The earliest of its times. Units: milliseconds since the Unix epoch.
    pub own_ms: Option<u64>,
    /// Whether a time cannot be read: servers may take a form that this program does not know.
    pub unclear: bool,
}

impl Due {
    /// Looks a job through that was read before.
    #[must_use]
    pub fn of(envelope: &Envelope<'_>) -> Self {
        let mut due = Self::default();
        let read = Scanner::again(envelope.text, envelope.span().start, &[]).object(|scanner, key| {
            let name = key.decode();
            if NAMES.iter().any(|own| likeness(&name, own) != Likeness::Different) {
                due.at_root |= name == NAMES[0];
                return due.value(scanner);
            }
            match (&*name, scanner.next()) {
                ("options", Some(b'{')) => {
                    let open = scanner.at();
                    let any = scanner.object(|scanner, key| {
                        let name = key.decode();
                        if NAMES.iter().any(|own| likeness(&name, own) != Likeness::Different) {
                            due.in_options |= NAMES.contains(&&*name);
                            return due.value(scanner);
                        }
                        scanner.skip().map(drop)
                    })?;
                    due.options = Some((open, !any));
                }
                ("options", Some(b'n')) => due.null_options = Some(scanner.skip()?.0),
                _ => drop(scanner.skip()?),
            }
            Ok::<(), ScanError>(())
        });
        debug_assert!(read.is_ok(), "the job was read before");
        due
    }

    fn value(&mut self, scanner: &mut Scanner<'_, '_>) -> Result<(), ScanError> {
        let first = scanner.next();
        let time = match first {
            Some(b'"') => {
                let text = scanner.string()?;
                self.values.push((text.at, text.end()));
                read_rfc3339(&text.decode())
            }
            _ => {
                self.values.push(scanner.skip()?);
                None
            }
        };
        // `null` counts as absent.
        self.unclear |= time.is_none() && first != Some(b'n');
        self.own_ms = match (self.own_ms, time) {
            (Some(own), Some(time)) => Some(own.min(time)),
            (own, time) => own.or(time),
        };
        Ok(())
    }
}
