//! One region's answer to a list, read in place.
//!
//! Servers differ in the name of the items and in the paging dialect, so that both are found by their form. Spec:
//! ojs-protocol 2.7 and 6.

use bytes::Bytes;

use super::object::{Kind, Member, count_of, elements, find, members, text_of};
use crate::ojs::member::DEPTH_MAX;
use crate::ojs::scan::{ScanError, scan};

/// The most items that one answer is read with: ten times the largest page of a server.
pub const PAGE_ITEMS_MAX: usize = 10_000;

/// A region's cursor that is longer than this is not carried around: no server's is, and it travels in a URL.
const CURSOR_BYTES_MAX: usize = 2048;

/// The names of the items, the usual ones first; an array of any other name is taken when none of these is there.
const ITEMS: &[&str] = &[
    "jobs",
    "items",
    "queues",
    "cron_jobs",
    "crons",
    "entries",
    "workflows",
    "events",
    "subscriptions",
    "schemas",
    "workers",
    "data",
];

/// Why an answer is no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPage {
    /// It is not JSON, or nested too deeply.
    #[error("the answer is no JSON: {0}")]
    Json(#[from] ScanError),
    /// It has no array that could be the items.
    #[error("the answer has no array of items")]
    NoItems,
    /// It has more than [`PAGE_ITEMS_MAX`].
    #[error("the answer has more than {PAGE_ITEMS_MAX} items")]
    TooMany,
    /// Its cursor is longer than any that a server gives.
    #[error("the answer's cursor is too long")]
    Cursor,
}

/// A member about paging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    Total,
    TotalPages,
    Count,
    Limit,
    Offset,
    Page,
    HasMore,
    NextCursor,
    /// `cursor` beside the events: where to go on, also at the end.
    Cursor,
}

impl Figure {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "total" | "total_count" | "total_estimate" => Self::Total,
            "total_pages" => Self::TotalPages,
            "count" => Self::Count,
            "limit" | "per_page" => Self::Limit,
            "offset" => Self::Offset,
            "page" => Self::Page,
            "has_more" => Self::HasMore,
            "next_cursor" => Self::NextCursor,
            "cursor" => Self::Cursor,
            _ => return None,
        })
    }
}

/// Where an object of the answer can take further members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Offset of the closing brace.
    pub(super) close: usize,
    pub(super) empty: bool,
}

/// A region's answer to a list.
#[derive(Debug, Clone)]
pub struct Page {
    body: Bytes,
    items: Vec<(usize, usize)>,
    /// Where the array of items stands.
    pub(super) array: (usize, usize),
    /// The members about paging, and the places of their values.
    pub(super) figures: Vec<(Figure, usize, usize)>,
    /// `None` for an answer that is a bare array.
    pub(super) root: Option<Room>,
    pub(super) pagination: Option<Room>,
    /// Figures of the whole beside the items, such as those of workers.
    pub(super) summary: Option<(usize, usize)>,
    told: Told,
}

/// The paging members of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The items in it.
    pub items: usize,
    /// The items in all.
    pub total: Option<u64>,
    /// The items that a page holds at most; may be less than was asked for.
    pub limit: Option<u64>,
    /// Whether more follow.
    pub has_more: Option<bool>,
    /// Where the next page begins.
    pub next: Option<String>,
    /// Whether there is any paging; an answer without holds all that there is.
    pub paged: bool,
    /// Whether the region counts by offset, so that a page may end within one of its own.
    pub by_offset: bool,
}

impl Page {
    /// Reads an answer.
    ///
    /// Errors: [`NoPage`].
    pub fn read(body: &Bytes) -> Result<Self, NoPage> {
        scan(body, DEPTH_MAX)?;
        let text = std::str::from_utf8(body).unwrap_or_default();
        let start = text.len() - text.trim_start_matches([' ', '\n', '\r', '\t']).len();
        let end = text.trim_end_matches([' ', '\n', '\r', '\t']).len();
        let whole = &text[start..end];
        if Kind::of(whole) == Kind::Array {
            let items = elements(text, start, PAGE_ITEMS_MAX).ok_or(NoPage::TooMany)?;
            let told = Told { items: items.len(), ..Told::default() };
            let (array, figures) = ((start, end), Vec::new());
            let (root, pagination, summary) = (None, None, None);
            return Ok(Self { body: body.clone(), items, array, figures, root, pagination, summary, told });
        }
        let root = members(whole);
        let holder = items_of(&root).ok_or(NoPage::NoItems)?;
        let array = (start + holder.at, start + holder.at + holder.value.len());
        let items = match Kind::of(holder.value) {
            Kind::Array => elements(text, array.0, PAGE_ITEMS_MAX).ok_or(NoPage::TooMany)?,
            _ => Vec::new(),
        };
        let mut figures = figures_of(&root, start);
        let mut pagination = None;
        if let Some(member) = find(&root, "pagination").filter(|member| Kind::of(member.value) == Kind::Object) {
            let inner = members(member.value);
            figures.extend(figures_of(&inner, start + member.at));
            let close = start + member.at + member.value.len() - 1;
            pagination = Some(Room { close, empty: inner.is_empty() });
        }
        let summary = find(&root, "summary").filter(|member| Kind::of(member.value) == Kind::Object);
        let summary = summary.map(|member| (start + member.at, start + member.at + member.value.len()));
        let told = counts(text, items.len(), &figures, pagination.is_some())?;
        let root = Some(Room { close: end - 1, empty: root.is_empty() });
        Ok(Self { body: body.clone(), items, array, figures, root, pagination, summary, told })
    }

    /// The answer whose shape the merged one takes: the first one with pages, so that the next page can be named, else
    /// the first.
    #[must_use]
    pub fn model<'p>(pages: impl IntoIterator<Item = &'p Self>) -> Option<&'p Self> {
        let mut first = None;
        for page in pages {
            if page.told.paged {
                return Some(page);
            }
            first = first.or(Some(page));
        }
        first
    }

    /// The answer as it came.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Its paging members.
    #[must_use]
    pub const fn counts(&self) -> &Told {
        &self.told
    }

    /// The figures beside the items; empty where there are none.
    #[must_use]
    pub fn summary(&self) -> &[u8] {
        self.summary.and_then(|(start, end)| self.body.get(start..end)).unwrap_or_default()
    }

    /// One item as the region wrote it.
    #[must_use]
    pub fn item(&self, place: usize) -> Bytes {
        self.items.get(place).map_or_else(Bytes::new, |(start, end)| self.body.slice(*start..*end))
    }

    /// All items as the region wrote them.
    pub fn items(&self) -> impl Iterator<Item = Bytes> {
        (0..self.items.len()).map(|place| self.item(place))
    }

    /// Whether its `count` is that of its own items.
    pub(super) fn counts_items(&self) -> bool {
        let count = self.figures.iter().find(|(figure, ..)| *figure == Figure::Count);
        let value = count.and_then(|(_, start, end)| std::str::from_utf8(self.body.get(*start..*end)?).ok());
        value.and_then(count_of) == Some(self.items.len() as u64)
    }

    /// The `id` of the last item: servers that log events let a client go on behind one.
    #[must_use]
    pub fn last_id(&self) -> Option<String> {
        let last = self.item(self.items.len().checked_sub(1)?);
        let last = members(std::str::from_utf8(&last).ok()?);
        text_of(find(&last, "id")?.value).map(std::borrow::Cow::into_owned)
    }
}

fn items_of<'m, 'b>(root: &'m [Member<'b>]) -> Option<&'m Member<'b>> {
    let is_array = |member: &&Member<'_>| Kind::of(member.value) == Kind::Array;
    // Servers in Go write a list of nothing as `null`.
    let is_nothing = |member: &&Member<'_>| Kind::of(member.value) == Kind::Null;
    let named = || ITEMS.iter().filter_map(|name| find(root, name));
    named().find(is_array).or_else(|| root.iter().find(is_array)).or_else(|| named().find(is_nothing))
}

fn figures_of(members: &[Member<'_>], start: usize) -> Vec<(Figure, usize, usize)> {
    let figures = members.iter().filter_map(|member| {
        // A structure by such a name is something else.
        let figure = Figure::of(&member.name).filter(|_| Kind::of(member.value).is_scalar())?;
        Some((figure, start + member.at, start + member.at + member.value.len()))
    });
    figures.collect()
}

fn counts(text: &str, items: usize, figures: &[(Figure, usize, usize)], paginated: bool) -> Result<Told, NoPage> {
    let mut told = Told { items, paged: paginated, ..Told::default() };
    for (figure, start, end) in figures {
        let value = &text[*start..*end];
        // A count alone only gives the number of the items, which the page shows anyway.
        told.paged |= *figure != Figure::Count;
        match figure {
            Figure::Total => told.total = count_of(value),
            Figure::Limit => told.limit = count_of(value),
            Figure::HasMore => told.has_more = (Kind::of(value) == Kind::Flag).then_some(value == "true"),
            Figure::NextCursor | Figure::Cursor => {
                let cursor = text_of(value).filter(|cursor| !cursor.is_empty());
                if cursor.as_ref().is_some_and(|cursor| cursor.len() > CURSOR_BYTES_MAX) {
                    return Err(NoPage::Cursor);
                }
                told.next = cursor.map(std::borrow::Cow::into_owned).or(told.next);
            }
            Figure::Offset => told.by_offset = true,
            Figure::TotalPages | Figure::Count | Figure::Page => {}
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<(Vec<String>, Told), NoPage> {
        let page = Page::read(&Bytes::copy_from_slice(body.as_bytes()))?;
        let items = page.items().map(|item| String::from_utf8(item.to_vec()).unwrap()).collect();
        Ok((items, page.counts().clone()))
    }

    #[test]
    fn items_and_paging_are_found_in_every_dialect() {
        let told = Told { items: 1, paged: true, ..Told::default() };
        for (body, expected) in [
            (
                r#"{"tags":[],"jobs":[{"id":"1"}],"pagination":{"total":9,"limit":5,"offset":0,"has_more":true}}"#,
                Told { total: Some(9), limit: Some(5), has_more: Some(true), by_offset: true, ..told.clone() },
            ),
            (
                r#"{"jobs":[{"id":"1"}],"pagination":{"has_more":true,"next_cursor":"a\u0062"}}"#,
                Told { has_more: Some(true), next: Some("ab".to_owned()), ..told.clone() },
            ),
            (
                r#" { "items":[{"id":"1"}],"pagination":{"total":9,"page":1,"per_page":5} } "#,
                Told { total: Some(9), limit: Some(5), ..told.clone() },
            ),
            (
                r#"{"events":[{"id":"1"}],"cursor":"c","has_more":false}"#,
                Told { has_more: Some(false), next: Some("c".to_owned()), ..told.clone() },
            ),
            (r#"{"pagination":null,"things":[{"id":"1"}],"count":1}"#, Told { paged: false, ..told.clone() }),
            (r#" [{"id":"1"}] "#, Told { paged: false, ..told }),
        ] {
            assert_eq!(read(body), Ok((vec![r#"{"id":"1"}"#.to_owned()], expected)), "{body}");
        }
    }

    #[test]
    fn what_is_no_list_is_said_so() {
        assert_eq!(read(r#"{"jobs":null}"#).unwrap().0, Vec::<String>::new());
        assert_eq!(read(r#"{"jobs":{}}"#), Err(NoPage::NoItems));
        assert_eq!(read("7"), Err(NoPage::NoItems));
        assert!(matches!(read("<html>"), Err(NoPage::Json(_))));
        let many = format!("[{}0]", "0,".repeat(PAGE_ITEMS_MAX));
        assert_eq!(read(&many), Err(NoPage::TooMany));
        let cursor = "x".repeat(CURSOR_BYTES_MAX + 1);
        assert_eq!(read(&format!(r#"{{"jobs":[],"cursor":"{cursor}"}}"#)), Err(NoPage::Cursor));
    }

    #[test]
    fn a_log_can_be_followed_by_its_last_event() {
        let page = |body: &'static str| Page::read(&Bytes::from(body)).unwrap();
        assert_eq!(page(r#"{"events":[{"id":"1"},{"id":"2"}]}"#).last_id().as_deref(), Some("2"));
        assert_eq!(page(r#"{"events":[{"id":2}]}"#).last_id(), None);
        assert_eq!(page(r#"{"events":[]}"#).last_id(), None);
    }
}
