//! Parts of lists: by offset, by an opaque cursor, or by page number.
//!
//! A list comes as pairs of a key and an item, and is put in the order of its keys. A cursor is the key of the last
//! returned item, so that no reader sees an item twice or misses a remaining one when items are added or removed
//! meanwhile.
//!
//! Spec: ojs-protocol 6 (paging).

use http::request::Parts;

use super::answer::Object;
use super::context::Context;
use super::dialect::Dialect;
use super::members::Invalid;
use super::problem::Problem;
use super::query::parameter;

/// How many items one answer holds: unless asked otherwise, and at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) usual: usize,
    pub(super) max: usize,
}

/// The bounds of lists without their own.
pub(super) const LISTS: Bounds = Bounds { usual: 50, max: 200 };

/// Dead letters are larger than most; servers in Go hand out more of them all the same.
pub(super) const fn dead_letters(dialect: Dialect) -> Bounds {
    match dialect {
        Dialect::Spec => Bounds { usual: 50, max: 100 },
        Dialect::Reference | Dialect::Redis => Bounds { usual: 50, max: 1_000 },
    }
}

/// Pages of the administration.
const PER_PAGE_MAX: usize = 100;

/// A number in the query. Servers in Go take other values for absent.
///
/// Errors: [`Invalid::Member`], in the dialect of the documents.
fn number(context: &Context, head: &Parts, name: &'static str) -> Result<Option<usize>, Problem> {
    let Some(text) = parameter(&head.uri, name).filter(|text| !text.is_empty()) else { return Ok(None) };
    match (text.parse(), context.reading.dialect) {
        (Ok(number), _) => Ok(Some(number)),
        (Err(_), Dialect::Reference | Dialect::Redis) => Ok(None),
        (Err(_), Dialect::Spec) => Err(Invalid::Member(name, "is a whole number from 0").into()),
    }
}

/// A part of a list, and the figures beside it.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub(super) items: Vec<T>,
    pub(super) total: usize,
    /// Present when there is more.
    pub(super) next_cursor: Option<String>,
    pub(super) pagination: String,
}

#[derive(Debug)]
enum Start {
    Offset(usize),
    /// After the item with this key; `None` is the beginning.
    After(Option<String>),
}

/// Which part of a list is asked for by `limit`, `offset` and `cursor`.
#[derive(Debug)]
pub(super) struct Page {
    limit: usize,
    start: Start,
    /// The region of these cursors: one of another region is refused, so that a mix-up shows.
    region: String,
}

impl Page {
    /// Reads the query. An `offset` wins over a `cursor`; servers in Go know no cursor.
    ///
    /// Errors: [`Invalid::Member`] for a number that is none, or a cursor that this region did not give.
    pub(super) fn read(context: &Context, head: &Parts, bounds: Bounds) -> Result<Self, Problem> {
        let limit = number(context, head, "limit")?.unwrap_or(bounds.usual).min(bounds.max);
        let offset = number(context, head, "offset")?;
        let start = match (offset, context.reading.dialect) {
            (Some(offset), _) => Start::Offset(offset),
            (None, Dialect::Reference | Dialect::Redis) => Start::Offset(0),
            (None, Dialect::Spec) => {
                let cursor = parameter(&head.uri, "cursor").filter(|cursor| !cursor.is_empty());
                Start::After(cursor.map(|cursor| opened(&context.id, &cursor)).transpose()?)
            }
        };
        Ok(Self { limit, start, region: context.id.clone() })
    }

    /// Cuts the part out of a whole list.
    pub(super) fn part<T>(&self, mut list: Vec<(String, T)>) -> Part<T> {
        list.sort_by(|(one, _), (other, _)| one.cmp(other));
        let total = list.len();
        let skipped = match &self.start {
            Start::Offset(offset) => (*offset).min(total),
            Start::After(None) => 0,
            Start::After(Some(last)) => list.partition_point(|(key, _)| key <= last),
        };
        let has_more = skipped.saturating_add(self.limit) < total;
        let part: Vec<(String, T)> = list.into_iter().skip(skipped).take(self.limit).collect();
        let last = part.last().map(|(key, _)| key.clone());
        let next_cursor = has_more.then(|| sealed(&self.region, &last.or_else(|| self.began()).unwrap_or_default()));
        let pagination = self.pagination(total, has_more, next_cursor.as_deref());
        Part { items: part.into_iter().map(|(_, item)| item).collect(), total, next_cursor, pagination }
    }

    fn began(&self) -> Option<String> {
        if let Start::After(last) = &self.start { last.clone() } else { None }
    }

    /// A caller that names an offset or nothing gets limit and offset, and a caller without an offset the next cursor.
    fn pagination(&self, total: usize, has_more: bool, next: Option<&str>) -> String {
        let object = Object::new().number("total", total);
        let object = match &self.start {
            Start::Offset(offset) => object.number("limit", self.limit).number("offset", offset),
            Start::After(None) => object.number("limit", self.limit).number("offset", 0),
            Start::After(Some(_)) => object,
        };
        let by_cursor = matches!(self.start, Start::After(_));
        object.flag("has_more", has_more).maybe_text("next_cursor", next.filter(|_| by_cursor)).finish()
    }
}

/// Which page of a list is asked for by `page` and `per_page`, as the administration does.
#[derive(Debug)]
pub(super) struct Numbered {
    page: usize,
    per_page: usize,
}

impl Numbered {
    /// Reads the query. A larger number is cut down, where servers in Go go back to the usual one.
    ///
    /// Errors: [`Invalid::Member`] for a number that is none.
    pub(super) fn read(context: &Context, head: &Parts, usual_in_go: usize) -> Result<Self, Problem> {
        let page = number(context, head, "page")?.unwrap_or(1).max(1);
        let asked = number(context, head, "per_page")?;
        let per_page = match context.reading.dialect {
            Dialect::Spec => asked.unwrap_or(20).clamp(1, PER_PAGE_MAX),
            Dialect::Reference | Dialect::Redis => {
                asked.filter(|asked| (1..=PER_PAGE_MAX).contains(asked)).unwrap_or(usual_in_go)
            }
        };
        Ok(Self { page, per_page })
    }

    /// Cuts the page out of a whole list.
    pub(super) fn part<T>(&self, mut list: Vec<(String, T)>) -> Part<T> {
        list.sort_by(|(one, _), (other, _)| one.cmp(other));
        let total = list.len();
        let skipped = (self.page - 1).saturating_mul(self.per_page);
        let items = list.into_iter().skip(skipped).take(self.per_page).map(|(_, item)| item).collect();
        let pagination =
            Object::new().number("total", total).number("page", self.page).number("per_page", self.per_page);
        Part { items, total, next_cursor: None, pagination: pagination.finish() }
    }
}

/// A cursor that is opaque to its caller.
fn sealed(region: &str, key: &str) -> String {
    format!("{region}\n{key}").bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn opened(region: &str, cursor: &str) -> Result<String, Problem> {
    let invalid = || Problem::from(Invalid::Member("cursor", "is one that this region gave"));
    let digits = cursor.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2));
    let bytes: Option<Vec<u8>> = digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
    let text = String::from_utf8(bytes.ok_or_else(invalid)?).map_err(|_| invalid())?;
    let key = text.split_once('\n').filter(|(giver, _)| *giver == region).map(|(_, key)| key.to_owned());
    key.ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: usize, start: Start) -> Page {
        Page { limit, start, region: "r".to_owned() }
    }

    fn list(keys: &[u8]) -> Vec<(String, u8)> {
        keys.iter().map(|key| (format!("{key:03}"), *key)).collect()
    }

    fn after(part: &Part<u8>) -> Start {
        Start::After(part.next_cursor.as_deref().map(|cursor| opened("r", cursor).unwrap()))
    }

    #[test]
    fn a_cursor_neither_repeats_nor_skips_what_stays_while_others_come_and_go() {
        let first = page(2, Start::After(None)).part(list(&[5, 1, 3, 9]));
        assert_eq!((first.items.as_slice(), first.total), (&[1, 3][..], 4));
        let second = page(2, after(&first)).part(list(&[2, 4, 5, 9]));
        assert_eq!(second.items, [4, 5]);
        let third = page(2, after(&second)).part(list(&[2, 9]));
        assert_eq!((third.items.as_slice(), third.next_cursor), (&[9][..], None));
        assert_eq!(third.pagination, r#"{"total":2,"has_more":false}"#);
    }

    #[test]
    fn a_page_that_is_asked_to_hold_nothing_leads_to_itself() {
        let nothing = page(0, Start::After(Some("003".to_owned()))).part(list(&[1, 3, 5]));
        assert!(nothing.items.is_empty());
        assert_eq!(page(9, after(&nothing)).part(list(&[1, 3, 5])).items, [5]);
        assert_eq!(page(0, Start::After(None)).part(list(&[])).next_cursor, None);
    }

    #[test]
    fn only_cursors_of_this_region_are_taken() {
        assert_eq!(opened("r", &sealed("r", "a\nb")).unwrap(), "a\nb");
        for cursor in ["", "0", "zz", "ff", "0a", &sealed("other", "a"), "\u{e9}\u{e9}"] {
            assert!(opened("r", cursor).is_err(), "{cursor}");
        }
    }
}
