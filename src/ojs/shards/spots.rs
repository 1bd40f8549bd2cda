//! Where a job names its queue and its priority.

use super::super::envelope::Envelope;
use super::super::scan::{ScanError, Scanner};

/// The value of a member that names the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ojs) enum Spot {
    /// A text that is the queue's name: the offset of its last quote.
    Named(usize),
    /// An empty text: the offset of its last quote.
    Empty(usize),
    /// `null`, and its offset.
    Null(usize),
    /// Another value: no server takes it for a queue.
    Odd,
}

/// Where a job names its queue, and its priority.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spots {
    pub(in crate::ojs) at_root: Option<Spot>,
    pub(in crate::ojs) in_options: Option<Spot>,
    /// The brace of `options`, and whether nothing is in it.
    pub(in crate::ojs) options: Option<(usize, bool)>,
    /// Whether `options` is there and no object: `null`, and its offset.
    pub(in crate::ojs) null_options: Option<usize>,
    /// The priority, 0 where the job has none.
    pub priority: i64,
}

impl Spots {
    /// Looks a job through that was read before.
    #[must_use]
    pub fn of(envelope: &Envelope<'_>) -> Self {
        let (mut spots, mut own) = (Self::default(), None);
        let text = envelope.text;
        let mut inner = None;
        let read = Scanner::again(text, envelope.span().start, &[]).object(|scanner, key| {
            match &*key.decode() {
                "queue" => spots.at_root = spot(envelope, scanner)?,
                "priority" => own = number(text, scanner)?,
                "options" if scanner.next() == Some(b'{') => {
                    let open = scanner.at();
                    let any = scanner.object(|scanner, key| {
                        match &*key.decode() {
                            "queue" => spots.in_options = spot(envelope, scanner)?,
                            "priority" => inner = number(text, scanner)?,
                            _ => drop(scanner.skip()?),
                        }
                        Ok::<(), ScanError>(())
                    })?;
                    spots.options = Some((open, !any));
                }
                "options" => spots.null_options = Some(scanner.skip()?.0),
                _ => drop(scanner.skip()?),
            }
            Ok::<(), ScanError>(())
        });
        debug_assert!(read.is_ok(), "the job was read before");
        spots.priority = inner.or(own).unwrap_or_default();
        spots
    }
}

fn spot(envelope: &Envelope<'_>, scanner: &mut Scanner<'_, '_>) -> Result<Option<Spot>, ScanError> {
    Ok(match scanner.next() {
        Some(b'"') => {
            let text = scanner.string()?;
            let last = scanner.at() - 1;
            let name = text.decode();
            if name.is_empty() {
                Some(Spot::Empty(last))
            } else {
                (name == envelope.queue()).then_some(Spot::Named(last))
            }
        }
        Some(b'n') => Some(Spot::Null(scanner.skip()?.0)),
        _ => {
            scanner.skip()?;
            Some(Spot::Odd)
        }
    })
}

fn number(text: &str, scanner: &mut Scanner<'_, '_>) -> Result<Option<i64>, ScanError> {
    let (start, end) = scanner.skip()?;
    let digits = text.get(start..end).unwrap_or_default();
    // A server may take `60.0` for 60.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a priority is far below 2^53, and another value is at the end of the range"
    )]
    let whole = || digits.parse::<f64>().ok().filter(|number| number.fract() == 0.0).map(|number| number as i64);
    Ok(digits.parse().ok().or_else(whole))
}
