//! From bytes to a batch.

use std::borrow::Cow;

use super::{Batch, Element, Several};
use crate::ojs::create::{ENVELOPES_MAX, Found, jobs_within};
use crate::ojs::envelope::{Envelope, refuse_strays};
use crate::ojs::fault::Fault;
use crate::ojs::key::{Likeness, likeness};
use crate::ojs::scan::Scanner;

impl<'b> Several<'b> {
    /// Reads the body of a batch or a bulk enqueue.
    ///
    /// Errors: a [`Fault`] when the body is not JSON or too large a tree, when a job or the batch itself could be read in two
    /// ways, or when a routing key inside a job stands where it would bind nothing.
    pub fn read(body: &'b [u8], depth_max: usize) -> Result<Self, Fault> {
        let found = jobs_within(body, depth_max)?;
        // The first pass has checked the encoding.
        let text = std::str::from_utf8(body).unwrap_or_default();
        match Frame::read(text)? {
            Some(frame) => frame.batch(text, found).map(Self::Batch),
            None => Ok(Self::Other(found)),
        }
    }
}

/// Where things stand in a batch.
struct Frame<'b> {
    array: (usize, usize),
    elements: Vec<(usize, usize)>,
    atomicity: Option<Cow<'b, str>>,
    keyed: bool,
}

/// The members of the batch itself that are read.
const JOBS: &str = "jobs";
const ATOMICITY: &str = "atomicity";
const KEY: &str = "idempotency_key";

impl<'b> Frame<'b> {
    /// Reads a text that was scanned before; none where it is no batch.
    fn read(text: &'b str) -> Result<Option<Self>, Fault> {
        let mut scanner = Scanner::again(text, 0, &[]);
        if scanner.next() != Some(b'{') {
            return Ok(None);
        }
        let (mut array, mut elements, mut atomicity, mut keyed) = (None, Some(Vec::new()), None, false);
        scanner.object(|scanner, key| {
            let name = key.decode();
            for (known, seen) in [(JOBS, array.is_some()), (ATOMICITY, atomicity.is_some())] {
                match likeness(&name, known) {
                    Likeness::Variant => return Err(Fault::ambiguous(known)),
                    Likeness::Exact if seen => return Err(Fault::ambiguous(known)),
                    Likeness::Exact | Likeness::Different => {}
                }
            }
            keyed |= likeness(&name, KEY) != Likeness::Different;
            match &*name {
                JOBS => array = Some(read_array(scanner, &mut elements)?),
                ATOMICITY if scanner.next() == Some(b'"') => atomicity = Some(scanner.string()?.decode()),
                // Of another type it is the region's to judge, and still no second one may follow.
                ATOMICITY => {
                    scanner.skip()?;
                    atomicity = Some(Cow::Borrowed(""));
                }
                _ => drop(scanner.skip()?),
            }
            Ok(())
        })?;
        let elements = elements.filter(|elements| !elements.is_empty());
        Ok(array.zip(elements).map(|(array, elements)| Self { array, elements, atomicity, keyed }))
    }

    fn batch(self, text: &'b str, found: Found<'b>) -> Result<Batch<'b>, Fault> {
        let mut envelopes = found.envelopes.into_iter().peekable();
        let mut beside = Vec::new();
        let mut jobs = Vec::with_capacity(self.elements.len());
        for &(start, end) in &self.elements {
            while let Some(before) = envelopes.next_if(|envelope| envelope.span().start < start) {
                beside.push(before);
            }
            let envelope = match envelopes.next_if(|envelope| envelope.span().start == start) {
                Some(envelope) => envelope,
                None => Envelope::read_at(&mut Scanner::again(text, start, &[]))?,
            };
            refuse_strays(&text[start..end])?;
            let mut within = Vec::new();
            while let Some(inner) = envelopes.next_if(|envelope| envelope.span().start < end) {
                within.push(inner);
            }
            jobs.push(Element { envelope, within });
        }
        beside.extend(envelopes);
        // The elements stand in order, so the one that may hold a key is found by halving.
        let is_in_a_job = |offset: usize| {
            let next = self.elements.partition_point(|(start, _)| *start <= offset);
            next.checked_sub(1).and_then(|last| self.elements.get(last)).is_some_and(|(_, end)| offset < *end)
        };
        let keys = found.routing.into_iter().filter(|key| !is_in_a_job(key.offset)).collect();
        Ok(Batch { jobs, beside, keys, atomicity: self.atomicity, keyed: self.keyed, text, array: self.array })
    }
}

/// Reads where the elements stand; none once one of them is no object.
fn read_array(
    scanner: &mut Scanner<'_, '_>,
    elements: &mut Option<Vec<(usize, usize)>>,
) -> Result<(usize, usize), Fault> {
    if scanner.next() != Some(b'[') {
        *elements = None;
        return Ok(scanner.skip()?);
    }
    let start = scanner.at();
    scanner.array(|scanner| {
        let is_object = scanner.next() == Some(b'{');
        let place = scanner.skip()?;
        match elements {
            Some(elements) if is_object && elements.len() == ENVELOPES_MAX => {
                return Err(Fault::too_many("jobs", ENVELOPES_MAX));
            }
            Some(elements) if is_object => elements.push(place),
            _ => *elements = None,
        }
        Ok(())
    })?;
    Ok((start, scanner.at()))
}
