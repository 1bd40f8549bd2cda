//! The merged answer: the shape of the first region that answered, with the items of all.
//!
//! Items are copied as the regions wrote them. Of the rest only the figures of paging are written anew.

use bytes::Bytes;

use super::object::push_quoted;
use super::page::{Figure, Page, Room};
use super::wanted::{Start, Wanted};
use crate::ojs::operation::Paging;

/// The figures of a merged answer.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The number of all items; as the region has it where it is unknown.
    pub total: Option<u64>,
    /// The items that a page holds at most.
    pub limit: Option<u64>,
    /// The items before this page, where the client said so.
    pub offset: Option<u64>,
    /// The page, where the client counts so.
    pub page: Option<u64>,
    /// Whether more follow.
    pub has_more: bool,
    /// The composite cursor, encoded.
    pub cursor: Option<String>,
    /// Whether the list is a log, whose cursor is present at its end, too.
    pub log: bool,
    /// The figures of regions beside the items, added up.
    pub summary: Option<Vec<u8>>,
    /// Items that are not shown.
    pub withheld: usize,
}

impl Figures {
    /// The figures that only repeat the client's parameters.
    #[must_use]
    pub fn of(wanted: &Wanted) -> Self {
        let mut figures = Self { log: wanted.paging == Paging::After, ..Self::default() };
        match &wanted.start {
            Start::Offset(offset) => figures.offset = Some(*offset),
            Start::Page(page) => figures.page = Some(*page),
            Start::Cursor(_) => {}
        }
        figures
    }

    /// The value of a figure; `None` leaves it as the region wrote it.
    fn value(&self, figure: Figure, page: &Page, items: usize) -> Option<String> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        match figure {
            Figure::Total => number(self.total),
            Figure::TotalPages => {
                let size = self.limit.filter(|limit| *limit > 0)?;
                self.total.map(|total| total.div_ceil(size).to_string())
            }
            // Some servers count the page, some the whole.
            Figure::Count => {
                let counts_page = self.total.is_none() || page.counts_items();
                Some(if counts_page { items.to_string() } else { number(self.total).unwrap_or_default() })
            }
            Figure::Limit => number(self.limit),
            Figure::Offset => number(self.offset),
            Figure::Page => number(self.page),
            Figure::HasMore => Some(self.has_more.to_string()),
            Figure::NextCursor | Figure::Cursor => Some(self.cursor_json()),
        }
    }

    fn cursor_json(&self) -> String {
        match self.cursor.as_ref().filter(|_| self.has_more || self.log) {
            Some(cursor) => {
                let mut json = String::with_capacity(cursor.len() + 2);
                push_quoted(&mut json, cursor);
                json
            }
            None => "null".to_owned(),
        }
    }

    /// The members that a page which is not the last one needs, and that the region left out: servers leave out `false`
    /// and `null`.
    fn lacking(&self, page: &Page) -> String {
        let has = |wanted: Figure| page.figures.iter().any(|(figure, ..)| *figure == wanted);
        let mut members = String::new();
        if self.page.is_some() || !self.has_more {
            return members;
        }
        if !has(Figure::HasMore) {
            members.push_str(r#""has_more":true"#);
        }
        if !has(Figure::NextCursor) && !has(Figure::Cursor) && self.cursor.is_some() {
            members.push_str(if members.is_empty() { "" } else { "," });
            members.push_str(r#""next_cursor":"#);
            members.push_str(&self.cursor_json());
        }
        members
    }
}

/// Writes the answer in the shape of `page`, with these items and figures.
#[must_use]
pub fn merged(page: &Page, items: &[Bytes], figures: &Figures) -> Vec<u8> {
    let mut splices = vec![(page.array.0, page.array.1, joined(items))];
    for (figure, start, end) in &page.figures {
        if let Some(value) = figures.value(*figure, page, items.len()) {
            splices.push((*start, *end, value.into_bytes()));
        }
    }
    if let (Some((start, end)), Some(summary)) = (page.summary, &figures.summary) {
        splices.push((start, end, summary.clone()));
    }
    let lacking = figures.lacking(page);
    if let Some(room) = page.pagination {
        splices.extend(room.with(&lacking));
    }
    let mut at_root = match () {
        () if page.pagination.is_some() || lacking.is_empty() => String::new(),
        () if page.counts().paged => lacking,
        // This region's list is not paged, and those of others are.
        () => format!(r#""pagination":{{{lacking}}}"#),
    };
    withhold(&mut at_root, figures.withheld);
    if let Some(room) = page.root {
        splices.extend(room.with(&at_root));
    }
    spliced(page, splices)
}

/// Writes one region's own page with other items, its paging untouched. `left_out`: items that do not count, which go off its total where
/// the page holds all that there is.
#[must_use]
pub fn replaced(page: &Page, items: &[Bytes], withheld: usize, left_out: usize) -> Vec<u8> {
    let mut splices = vec![(page.array.0, page.array.1, joined(items))];
    let all = page.counts().items;
    let is_whole = page.counts().total == Some(all as u64);
    for (figure, start, end) in page.figures.iter().filter(|_| left_out > 0) {
        let counts_all = (*figure == Figure::Total && is_whole) || (*figure == Figure::Count && page.counts_items());
        if counts_all {
            splices.push((*start, *end, all.saturating_sub(left_out).to_string().into_bytes()));
        }
    }
    let mut at_root = String::new();
    withhold(&mut at_root, withheld);
    if let Some(room) = page.root {
        splices.extend(room.with(&at_root));
    }
    spliced(page, splices)
}

fn withhold(members: &mut String, withheld: usize) {
    if withheld > 0 {
        members.push_str(if members.is_empty() { "" } else { "," });
        members.push_str(&format!(r#""x-ojs-federation":{{"withheld":{withheld}}}"#));
    }
}

fn spliced(page: &Page, mut splices: Vec<(usize, usize, Vec<u8>)>) -> Vec<u8> {
    splices.sort_unstable_by_key(|splice| splice.0);
    let body = page.body();
    let mut written = Vec::with_capacity(body.len() + splices.iter().map(|splice| splice.2.len()).sum::<usize>());
    let mut from = 0;
    for (start, end, text) in splices {
        written.extend_from_slice(&body[from..start]);
        written.extend_from_slice(&text);
        from = end;
    }
    written.extend_from_slice(&body[from..]);
    written
}

fn joined(items: &[Bytes]) -> Vec<u8> {
    let mut array = Vec::with_capacity(items.iter().map(|item| item.len() + 1).sum::<usize>() + 2);
    array.push(b'[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            array.push(b',');
        }
        array.extend_from_slice(item);
    }
    array.push(b']');
    array
}

impl Room {
    /// Members put behind the others of an object.
    fn with(self, members: &str) -> Option<(usize, usize, Vec<u8>)> {
        let comma = if self.empty { "" } else { "," };
        (!members.is_empty()).then(|| (self.close, self.close, format!("{comma}{members}").into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, items: &[&str], figures: &Figures, expected: &str) {
        let page = Page::read(&Bytes::copy_from_slice(page.as_bytes())).unwrap();
        let items: Vec<Bytes> = items.iter().map(|item| Bytes::copy_from_slice(item.as_bytes())).collect();
        let written = String::from_utf8(merged(&page, &items, figures)).unwrap();
        assert_eq!(written, expected);
        assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok());
    }

    fn figures() -> Figures {
        Figures { total: Some(12), limit: Some(5), has_more: true, cursor: Some("C".to_owned()), ..Figures::default() }
    }

    #[test]
    fn the_answer_keeps_the_regions_shape_and_every_byte_that_is_not_about_paging() {
        let of_offset = Figures { offset: Some(5), ..figures() };
        check(
            " { \"server\" : 1.50E4, \"jobs\" : [ {\"a\": 1 } ,2 ], \"pagination\" : { \"total\": 1, \"limit\":50,\"offset\" : 0, \"has_more\":false, \"own\":[ ] } }\n",
            &["{\"a\": 1 }", "3"],
            &of_offset,
            " { \"server\" : 1.50E4, \"jobs\" : [{\"a\": 1 },3], \"pagination\" : { \"total\": 12, \"limit\":5,\"offset\" : 5, \"has_more\":true, \"own\":[ ] ,\"next_cursor\":\"C\"} }\n",
        );
        let of_page = Figures { page: Some(2), has_more: false, ..figures() };
        check(
            r#"{"items":[],"pagination":{"total":1,"page":1,"per_page":9,"total_pages":1}}"#,
            &[],
            &of_page,
            r#"{"items":[],"pagination":{"total":12,"page":2,"per_page":5,"total_pages":3}}"#,
        );
    }

    #[test]
    fn what_does_not_count_goes_off_the_figures_of_a_page_that_holds_all() {
        let written = |page: &str| {
            let page = Page::read(&Bytes::copy_from_slice(page.as_bytes())).unwrap();
            String::from_utf8(replaced(&page, &[Bytes::from_static(b"1")], 0, 1)).unwrap()
        };
        assert_eq!(
            written(r#"{"jobs":[1,2],"count":2,"pagination":{"total":2,"limit":50}}"#),
            r#"{"jobs":[1],"count":1,"pagination":{"total":1,"limit":50}}"#
        );
        assert_eq!(
            written(r#"{"jobs":[1,2],"pagination":{"total":3,"limit":2}}"#),
            r#"{"jobs":[1],"pagination":{"total":3,"limit":2}}"#
        );
    }

    #[test]
    fn what_servers_leave_out_is_written_where_a_client_needs_it() {
        check(
            r#"{"jobs":[],"pagination":{}}"#,
            &["1"],
            &figures(),
            r#"{"jobs":[1],"pagination":{"has_more":true,"next_cursor":"C"}}"#,
        );
        check(r#"{"crons":[],"count":0}"#, &["1"], &Figures::default(), r#"{"crons":[1],"count":1}"#);
        check(
            r#"{"crons":[]}"#,
            &["1"],
            &Figures { withheld: 2, ..figures() },
            r#"{"crons":[1],"pagination":{"has_more":true,"next_cursor":"C"},"x-ojs-federation":{"withheld":2}}"#,
        );
        let summed = Figures { summary: Some(b"{\"total\":9}".to_vec()), ..Figures::default() };
        check(r#"{"items":[],"summary":{"total":4}}"#, &[], &summed, r#"{"items":[],"summary":{"total":9}}"#);
        check("[ 1 , 2 ]", &["1", "2", "3"], &figures(), "[1,2,3]");
        let last = Figures { has_more: false, ..figures() };
        check(
            r#"{"jobs":[],"pagination":{"next_cursor":"x"}}"#,
            &[],
            &last,
            r#"{"jobs":[],"pagination":{"next_cursor":null}}"#,
        );
        let log = Figures { log: true, ..last };
        check(r#"{"events":[],"cursor":"x"}"#, &[], &log, r#"{"events":[],"cursor":"C"}"#);
    }
}
