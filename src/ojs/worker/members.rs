//! The known members at the top of a body, and where their values stand.

use std::borrow::Cow;

use crate::ojs::fault::Fault;
use crate::ojs::key::{Likeness, Text, likeness, may_fold};
use crate::ojs::scan::Scanner;

/// Start and end of a value.
pub(super) type Span = (usize, usize);

/// A member of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// Where its name begins.
    pub(super) name_at: usize,
    pub(super) value: Span,
    /// The name that it has, where that is one of those for sidecars, or another spelling of it.
    own: Option<(OwnName, Likeness)>,
    /// Whether it is left out of the body.
    pub(super) goes: bool,
}

/// The names of members that are for sidecars, and may be left out of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnName {
    Pool,
    Strategy,
    Weights,
}

impl OwnName {
    const ALL: [Self; 3] = [Self::Pool, Self::Strategy, Self::Weights];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Strategy => "strategy",
            Self::Weights => "weights",
        }
    }

    /// The one that a name is, or is like. `may_vary`: whether folding changes the name.
    fn of(key: &str, may_vary: bool) -> Option<(Self, Likeness)> {
        let like = |own: &Self| may_vary || key == own.as_str();
        let mut found = Self::ALL.into_iter().filter(like).map(|own| (own, likeness(key, own.as_str())));
        found.find(|(_, likeness)| *likeness != Likeness::Different)
    }
}

impl Member {
    /// Whether it has one of the names for sidecars, or a name like one.
    pub(super) const fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// How its name relates to one of those for sidecars.
    pub(super) fn likeness(self, name: OwnName) -> Likeness {
        self.own.filter(|(own, _)| *own == name).map_or(Likeness::Different, |(_, likeness)| likeness)
    }
}

/// The known members of one object. They are asked for by their place among the names that it was read with.
pub(super) struct Members<'b, const N: usize> {
    pub(super) text: &'b str,
    open: usize,
    empty: bool,
    spans: [Option<Span>; N],
}

impl<'b, const N: usize> Members<'b, N> {
    /// Reads a body that is one object.
    ///
    /// Errors: a [`Fault`] when it is not, or when a known member is written twice or in another case: servers in Go fold the
    /// case and take the last one, others take the exact name or the first.
    pub(super) fn read(body: &'b [u8], depth_max: usize, names: [&'static str; N]) -> Result<Self, Fault> {
        Self::read_all(body, depth_max, names, |_| {})
    }

    /// As [`Self::read`]; `each` hears of all members in their order.
    pub(super) fn read_all(
        body: &'b [u8],
        depth_max: usize,
        names: [&'static str; N],
        mut each: impl FnMut(Member),
    ) -> Result<Self, Fault> {
        let mut scanner = Scanner::new(body, depth_max)?;
        if scanner.next() != Some(b'{') {
            scanner.skip()?;
            scanner.end()?;
            return Err(Fault::body_not_an_object());
        }
        let open = scanner.at();
        let mut spans = [None; N];
        let any = scanner.object(|scanner, key| {
            let name_at = key.at;
            let key = key.decode();
            let value = scanner.skip()?;
            let (mut is_known, may_vary) = (false, may_fold(&key));
            for (name, found) in names.iter().zip(&mut spans) {
                if !may_vary && *key != **name {
                    continue;
                }
                match likeness(&key, name) {
                    Likeness::Different => {}
                    Likeness::Exact if found.is_none() => (*found, is_known) = (Some(value), true),
                    Likeness::Exact | Likeness::Variant => return Err(Fault::ambiguous(*name)),
                }
            }
            let own = if is_known { None } else { OwnName::of(&key, may_vary) };
            each(Member { name_at, value, own, goes: false });
            Ok::<(), Fault>(())
        })?;
        scanner.end()?;
        Ok(Self { text: scanner.text(), open, empty: !any, spans })
    }

    /// Where the value of a member stands.
    pub(super) fn span(&self, place: usize) -> Option<Span> {
        self.spans.get(place).copied().flatten()
    }

    /// The value of a member, as it stands.
    pub(super) fn raw(&self, place: usize) -> Option<&'b str> {
        slice(self.text, self.span(place)?)
    }

    /// The value of a member that is a string.
    pub(super) fn text(&self, place: usize) -> Option<Cow<'b, str>> {
        text_of(self.raw(place)?)
    }

    /// The value of a member that is a whole number from 0 up.
    pub(super) fn number(&self, place: usize) -> Option<u64> {
        self.raw(place)?.parse().ok()
    }

    /// The elements of a member that is an array; `None` when it is none.
    ///
    /// Errors: a [`Fault`] for more than `max` of them, which are `what`.
    pub(super) fn elements(&self, place: usize, what: &str, max: usize) -> Result<Option<Vec<Span>>, Fault> {
        let Some((start, _)) = self.span(place) else { return Ok(None) };
        if !self.raw(place).is_some_and(|raw| raw.starts_with('[')) {
            return Ok(None);
        }
        let mut spans = Vec::new();
        Scanner::again(self.text, start, &[]).array(|scanner| {
            let span = scanner.skip()?;
            if spans.len() == max {
                return Err(Fault::too_many(what, max));
            }
            spans.push(span);
            Ok(())
        })?;
        Ok(Some(spans))
    }

    /// Where a further member is written, and the comma that follows it there when others do.
    pub(super) const fn front(&self) -> (Span, &'static str) {
        ((self.open + 1, self.open + 1), if self.empty { "" } else { "," })
    }
}

pub(super) fn slice(text: &str, (start, end): Span) -> Option<&str> {
    text.get(start..end)
}

/// The text of a JSON string; `None` for any other value.
pub(super) fn text_of(raw: &str) -> Option<Cow<'_, str>> {
    raw.starts_with('"').then(|| Text::quoted(raw, 0).decode())
}

/// The inside of an array or object: the bytes between its brackets.
pub(super) const fn inside((start, end): Span) -> Span {
    (start + 1, end - 1)
}

/// Values of an array, written behind each other.
pub(super) fn joined<'t>(values: impl IntoIterator<Item = &'t str>) -> String {
    let mut text = String::new();
    for value in values {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(value);
    }
    text
}
