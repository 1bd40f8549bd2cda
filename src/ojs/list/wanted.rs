//! Which part of a list a client wants, and how a region is asked for a part of its own.
//!
//! Paging parameters are taken out of the client's query and written anew for each region; the others stay byte for byte.

use super::cursor::Place;
use crate::ojs::operation::Paging;

/// The page of a client that says nothing. Spec: ojs-protocol 6.
const LIMIT_USUAL: u64 = 50;

/// The same of lists that are paged by number, as those of the administration are. Spec: ojs-admin-api, pagination.
const PER_PAGE_USUAL: u64 = 20;

/// The most items that one page holds, as on real servers; asked for more, we give this many and say so.
pub const LIMIT_MAX: u64 = 1000;

/// Where the wanted part begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Behind so many items of the whole.
    Offset(u64),
    /// At this page.
    Page(u64),
    /// Where an earlier answer ended; its cursor.
    Cursor(String),
}

/// The client's parameters of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// How it pages; never by names, which is a way to merge.
    pub paging: Paging,
    /// Where it begins.
    pub start: Start,
    /// How many items at most; `None` when the client does not say.
    pub limit: Option<u64>,
    /// The parameter that says how many.
    size: &'static str,
    /// Whether a number of paging is none, or 0 where that is none: servers refuse some of these, and pass over others.
    pub odd: bool,
    /// The rest of the query, as it was written.
    rest: String,
}

impl Wanted {
    /// Reads the query of a list that is usually paged in one way; parameters of another way win.
    ///
    /// Numbers that are none count as absent, as on real servers; see [`Wanted::odd`].
    #[must_use]
    pub fn read(query: Option<&str>, usual: Paging) -> Self {
        let mut found = Found::default();
        let mut rest = String::new();
        for piece in query.unwrap_or_default().split('&').filter(|piece| !piece.is_empty()) {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            if !found.take(&decoded(name), value, usual) {
                if !rest.is_empty() {
                    rest.push('&');
                }
                rest.push_str(piece);
            }
        }
        let by_page = found.page.is_some() || found.per_page.is_some();
        let by_offset = found.limit.is_some() || found.offset.is_some();
        let page = found.page.unwrap_or(1);
        let (paging, start) = match (usual, found.cursor.filter(|cursor| !cursor.is_empty())) {
            (Paging::After, cursor) => (Paging::After, cursor.map_or(Start::Offset(0), Start::Cursor)),
            (_, Some(cursor)) => (Paging::Offset, Start::Cursor(cursor)),
            (Paging::Page, None) if by_page || !by_offset => (Paging::Page, Start::Page(page)),
            (_, None) if found.page.is_some() || (by_page && !by_offset) => (Paging::Page, Start::Page(page)),
            _ => (Paging::Offset, Start::Offset(found.offset.unwrap_or(0))),
        };
        let size = if paging == Paging::Page && (found.per_page.is_some() || found.limit.is_none()) {
            "per_page"
        } else {
            "limit"
        };
        let limit = if size == "per_page" { found.per_page } else { found.limit.or(found.per_page) };
        Self { paging, start, limit: limit.map(|limit| limit.min(LIMIT_MAX)), size, odd: found.odd, rest }
    }

    /// How many items a page holds at most where the client does not say.
    #[must_use]
    pub const fn usual(&self) -> u64 {
        if matches!(self.paging, Paging::Page) { PER_PAGE_USUAL } else { LIMIT_USUAL }
    }

    /// The query that asks a region for the beginning of its list, as many items as it gives by itself.
    #[must_use]
    pub fn query_unpaged(&self) -> &str {
        &self.rest
    }

    /// The query that asks a region for `limit` items of its list.
    #[must_use]
    pub fn query(&self, place: &Place, limit: u64) -> String {
        let mut query = self.rest.clone();
        let mut push = |name: &str, value: &str| {
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(name);
            query.push('=');
            query.push_str(value);
        };
        if self.paging == Paging::Page {
            let offset = if let Place::Offset(offset) = place { *offset } else { 0 };
            push("page", &(offset / limit.max(1) + 1).to_string());
        }
        push(self.size, &limit.to_string());
        match place {
            Place::Offset(offset) if self.paging != Paging::Page => push("offset", &offset.to_string()),
            Place::Cursor(cursor) => {
                let name = if self.paging == Paging::After { "after" } else { "cursor" };
                push(name, &encoded(cursor));
            }
            Place::Offset(_) | Place::Start | Place::End => {}
        }
        query
    }
}

#[derive(Default)]
struct Found {
    limit: Option<u64>,
    per_page: Option<u64>,
    offset: Option<u64>,
    page: Option<u64>,
    cursor: Option<String>,
    odd: bool,
}

impl Found {
    /// Takes a parameter of paging, the first where there are several; false for any other.
    fn take(&mut self, name: &str, value: &str, usual: Paging) -> bool {
        let number = || decoded(value).parse::<u64>().ok();
        let above_0 = || number().filter(|number| *number > 0);
        self.odd |= match name {
            "limit" | "per_page" | "page" => above_0().is_none(),
            "offset" => number().is_none(),
            _ => false,
        };
        match name {
            "limit" => self.limit = self.limit.or_else(above_0),
            "per_page" => self.per_page = self.per_page.or_else(above_0),
            "offset" => self.offset = self.offset.or_else(number),
            "page" => self.page = self.page.or_else(above_0),
            "cursor" => self.cursor = self.cursor.take().or_else(|| Some(decoded(value))),
            "after" if usual == Paging::After => self.cursor = self.cursor.take().or_else(|| Some(decoded(value))),
            _ => return false,
        }
        true
    }
}

/// A parameter as servers read it.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digit = |place: usize| behind.get(place).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = &behind[2..];
                continue;
            }
            (b'+', ..) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
        rest = behind;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A value with everything escaped that means something in a URL.
fn encoded(text: &str) -> String {
    let mut url = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_recognised_and_the_rest_of_the_query_stays() {
        for (query, usual, paging, start, limit, rest) in [
            ("", Paging::Offset, Paging::Offset, Start::Offset(0), None, ""),
            ("", Paging::Page, Paging::Page, Start::Page(1), None, ""),
            ("state=a%2Cb&limit=7&x", Paging::Offset, Paging::Offset, Start::Offset(0), Some(7), "state=a%2Cb&x"),
            ("offset=20&limit=5&offset=9", Paging::Offset, Paging::Offset, Start::Offset(20), Some(5), ""),
            ("limit=5&offset=3", Paging::Page, Paging::Offset, Start::Offset(3), Some(5), ""),
            ("page=3&per_page=20&queue=q", Paging::Offset, Paging::Page, Start::Page(3), Some(20), "queue=q"),
            ("page=3&limit=20", Paging::Page, Paging::Page, Start::Page(3), Some(20), ""),
            ("per_page=20", Paging::Page, Paging::Page, Start::Page(1), Some(20), ""),
            ("cursor=a%2Bb+c&limit=5", Paging::Offset, Paging::Offset, Start::Cursor("a+b c".into()), Some(5), ""),
            ("cursor=&offset=4", Paging::Offset, Paging::Offset, Start::Offset(4), None, ""),
            ("after=e1&limit=5&types=x", Paging::After, Paging::After, Start::Cursor("e1".into()), Some(5), "types=x"),
            ("after=2024", Paging::Offset, Paging::Offset, Start::Offset(0), None, "after=2024"),
            ("l%69mit=5", Paging::Offset, Paging::Offset, Start::Offset(0), Some(5), ""),
            ("limit=0&offset=-1", Paging::Offset, Paging::Offset, Start::Offset(0), None, ""),
            ("limit=99999", Paging::Offset, Paging::Offset, Start::Offset(0), Some(LIMIT_MAX), ""),
            ("limit=99999999999999999999", Paging::Offset, Paging::Offset, Start::Offset(0), None, ""),
            ("page=0", Paging::Page, Paging::Page, Start::Page(1), None, ""),
        ] {
            let wanted = Wanted::read(Some(query), usual);
            let read = (wanted.paging, wanted.start, wanted.limit, wanted.rest.as_str());
            assert_eq!(read, (paging, start, limit, rest), "{query}");
        }
    }

    #[test]
    fn what_is_no_number_is_noticed_and_the_usual_page_is_that_of_the_style() {
        for (query, usual, odd, limit) in [
            ("", Paging::Offset, false, 50),
            ("", Paging::Page, false, 20),
            ("", Paging::After, false, 50),
            ("offset=3", Paging::Page, false, 50),
            ("limit=x", Paging::Offset, true, 50),
            ("limit=-1", Paging::Offset, true, 50),
            ("limit=0", Paging::Offset, true, 50),
            ("offset=0", Paging::Offset, false, 50),
            ("offset=a", Paging::Offset, true, 50),
            ("page=&per_page=7", Paging::Page, true, 20),
            ("queue=x", Paging::Page, false, 20),
        ] {
            let wanted = Wanted::read(Some(query), usual);
            assert_eq!((wanted.odd, wanted.usual()), (odd, limit), "{query}");
        }
    }

    #[test]
    fn a_region_is_asked_in_the_clients_own_style() {
        let offset = Wanted::read(Some("queue=q&offset=7&limit=3"), Paging::Offset);
        let page = Wanted::read(Some("page=2&per_page=3"), Paging::Page);
        let limited_page = Wanted::read(Some("page=2&limit=3"), Paging::Page);
        let log = Wanted::read(None, Paging::After);
        let cursor = Place::Cursor("a&b=c é".to_owned());
        for (wanted, place, limit, expected) in [
            (&offset, Place::Start, 3, "queue=q&limit=3"),
            (&offset, Place::Offset(7), 2, "queue=q&limit=2&offset=7"),
            (&offset, cursor.clone(), 2, "queue=q&limit=2&cursor=a%26b%3Dc%20%C3%A9"),
            (&page, Place::Start, 3, "page=1&per_page=3"),
            (&page, Place::Offset(6), 3, "page=3&per_page=3"),
            (&limited_page, Place::Offset(3), 3, "page=2&limit=3"),
            (&log, cursor, 5, "limit=5&after=a%26b%3Dc%20%C3%A9"),
        ] {
            assert_eq!(wanted.query(&place, limit), expected);
        }
    }
}
