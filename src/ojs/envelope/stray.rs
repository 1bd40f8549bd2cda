//! Routing keys of a single job in places that no server reads: beside `meta`, in `options.meta`, in a job within the
//! job.
//!
//! Their author meant them to bind a job. Passed over in silence they would let it go anywhere.

use memchr::memchr_iter;

use crate::ojs::attributes::Name;
use crate::ojs::fault::Fault;
use crate::ojs::key::Text;
use crate::ojs::routing_key::{RoutingKind, read_routing_key};
use crate::ojs::scan::{Scanner, Visit};

/// Refuses a job that carries a routing key outside `args`, `meta` and `options.metadata`. `text` was scanned before.
///
/// Shape: one more pass, only over a body in which such a key may be spelled at all.
///
/// Errors: a [`Fault`] for the first such key that is not `null`.
pub(in crate::ojs) fn refuse_strays(text: &str) -> Result<(), Fault> {
    if !may_spell_a_key(text.as_bytes()) {
        return Ok(());
    }
    let mut search = Search::default();
    Scanner::again(text, 0, &[]).walk(&mut search)?;
    for (name, at, after) in search.strays {
        if read_routing_key(text, RoutingKind::Region, at, after)?.is_some() {
            return Err(Fault::stray(name));
        }
    }
    Ok(())
}

/// Whether `.federation` occurs in any case, or an escape that could hide it; most bodies have neither.
fn may_spell_a_key(bytes: &[u8]) -> bool {
    const WORD: &[u8] = b"federation";
    let after = |at: usize, length: usize| bytes.get(at + 1..at + 1 + length);
    memchr_iter(b'.', bytes).any(|at| after(at, WORD.len()).is_some_and(|word| word.eq_ignore_ascii_case(WORD)))
        || memchr_iter(b'\\', bytes).any(|at| after(at, 1) == Some(b"u"))
}

/// The role of a value in the job.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Other,
    Root,
    Options,
    /// Data of the client's, or read as attributes already.
    Settled,
}

/// One open bracket, and the role of the value of the member that is being read.
#[derive(Clone, Copy)]
struct Frame {
    part: Part,
    value: Part,
}

#[derive(Default)]
struct Search {
    frames: Vec<Frame>,
    /// Name, offset of the key, offset behind it.
    strays: Vec<(&'static str, usize, usize)>,
}

impl<'b> Visit<'b> for Search {
    type Error = Fault;

    fn open(&mut self, _: usize, _: bool) -> Result<(), Fault> {
        let part = self.frames.last().map_or(Part::Root, |around| match around.part {
            Part::Settled => Part::Settled,
            _ => around.value,
        });
        self.frames.push(Frame { part, value: Part::Other });
        Ok(())
    }

    fn key(&mut self, key: Text<'b>, after: usize) -> Result<(), Fault> {
        let Some(frame) = self.frames.last_mut().filter(|frame| frame.part != Part::Settled) else { return Ok(()) };
        let name = key.decode();
        frame.value = match frame.part {
            _ if name == "args" => Part::Settled,
            Part::Root if name == "meta" => Part::Settled,
            Part::Root if name == "options" => Part::Options,
            Part::Options if name == "metadata" => Part::Settled,
            _ => Part::Other,
        };
        if let Some((name @ (Name::Region | Name::RegionAffinity | Name::RegionsWith), _)) = Name::of(&name) {
            self.strays.push((name.as_str(), key.at, after));
        }
        Ok(())
    }

    fn close(&mut self, _: usize) {
        self.frames.pop();
    }
}
