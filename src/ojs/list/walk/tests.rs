use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Figures, LIMIT_MAX, Page, merged};
use super::*;

const LIST: &str = "/ojs/v1/jobs";

/// How a simulated region pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// `total`, `limit`, `offset`, `has_more`.
    Offset,
    /// `has_more` and `next_cursor`, which are left out at the end; `total` where this says so.
    Cursor { total: bool },
    /// `total`, `page`, `per_page`.
    Page,
    /// Everything, always.
    Whole,
    /// `cursor` and `has_more`; asked with `after`.
    Log,
}

#[derive(Debug, Clone)]
struct Region {
    items: Vec<String>,
    dialect: Dialect,
    /// The largest page that it gives.
    most: u64,
    down: bool,
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.replace("%3A", ":")).next()
}

impl Region {
    fn answer(&self, query: &str, asked_max: u64) -> Value {
        let number = |name: &str| parameter(query, name).map(|text| text.parse::<u64>().unwrap());
        let asked = number("limit").or(number("per_page")).unwrap_or(50);
        assert!((1..=asked_max).contains(&asked), "{query}");
        let limit = asked.min(self.most);
        let cursor = parameter(query, "cursor").or(parameter(query, "after"));
        let cursor = cursor.map(|text| text.strip_prefix("at:").unwrap().parse::<u64>().unwrap());
        let start = match self.dialect {
            Dialect::Offset => number("offset").unwrap_or(0),
            Dialect::Page => (number("page").unwrap() - 1) * limit,
            Dialect::Cursor { .. } => {
                assert_eq!(number("offset"), None, "this region knows no offset");
                cursor.unwrap_or(0)
            }
            Dialect::Log => cursor.unwrap_or(0),
            Dialect::Whole => return json!({ "jobs": self.items.iter().map(job).collect::<Vec<_>>() }),
        };
        let total = self.items.len() as u64;
        let end = (start + limit).min(total);
        let page: Vec<Value> = self.items.iter().take(end as usize).skip(start as usize).map(job).collect();
        let has_more = end < total;
        match self.dialect {
            Dialect::Offset => {
                json!({ "jobs": page, "pagination": { "total": total, "limit": limit, "offset": start, "has_more": has_more } })
            }
            Dialect::Page => {
                json!({ "items": page, "pagination": { "total": total, "page": start / limit + 1, "per_page": limit } })
            }
            Dialect::Log => json!({ "events": page, "cursor": format!("at:{end}"), "has_more": has_more }),
            Dialect::Cursor { total: tells } => {
                let mut pagination = json!({ "limit": limit });
                if tells {
                    pagination["total"] = total.into();
                }
                if has_more {
                    pagination["has_more"] = true.into();
                    pagination["next_cursor"] = format!("at:{end}").into();
                }
                json!({ "jobs": page, "pagination": pagination })
            }
            Dialect::Whole => unreachable!(),
        }
    }
}

fn job(id: &String) -> Value {
    json!({ "id": id })
}

fn ids(count: usize) -> Vec<RegionId> {
    (0..count).map(|place| RegionId::parse(&format!("r{place}")).unwrap()).collect()
}

/// One page as a client gets it: the answer, and which regions were missing.
fn page(regions: &[Region], query: &str, usual: Paging) -> (Value, Vec<usize>) {
    let wanted = Wanted::read(Some(query), usual);
    let mut walk = Walk::begin(&wanted, LIST, &ids(regions.len())).unwrap();
    let asked_max = wanted.limit.unwrap_or(wanted.usual()).min(LIMIT_MAX);
    let (mut pages, mut missing) = (Vec::new(), Vec::new());
    for round in 0.. {
        let asks = walk.asks();
        if asks.is_empty() {
            break;
        }
        assert!(round <= 4 * regions.len() + 3, "this goes on and on");
        for ask in asks {
            let region = &regions[ask.leg];
            if region.down {
                walk.heard(&ask, None);
                missing.push(ask.leg);
                continue;
            }
            let body = region.answer(&wanted.query(&ask.place, ask.limit), asked_max).to_string();
            pages.push(Page::read(&Bytes::from(body)).unwrap());
            walk.heard(&ask, Some((pages.last().unwrap().counts(), pages.len() - 1)));
        }
    }
    let Some(template) = Page::model(&pages) else { return (Value::Null, missing) };
    let outcome = walk.finish();
    let picked = outcome.picks.iter().flat_map(|pick| (pick.from..pick.to).map(|item| pages[pick.answer].item(item)));
    let items: Vec<Bytes> = picked.collect();
    let figures = Figures {
        total: outcome.total,
        limit: outcome.limit,
        has_more: outcome.has_more,
        cursor: Some(outcome.cursor.encode(LIST)),
        ..Figures::of(&wanted)
    };
    (serde_json::from_slice(&merged(template, &items, &figures)).unwrap(), missing)
}

fn items_of(answer: &Value) -> Vec<String> {
    let items = ["jobs", "items", "events"].into_iter().find_map(|name| answer[name].as_array()).unwrap();
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

fn union(regions: &[Region]) -> Vec<String> {
    regions.iter().filter(|region| !region.down).flat_map(|region| region.items.clone()).collect()
}

/// Reads the whole list as a client does that follows cursors.
fn by_cursor(regions: &[Region], limit: u64) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut query = format!("state=a&limit={limit}");
    loop {
        let (answer, _) = page(regions, &query, Paging::Offset);
        pages.push(items_of(&answer));
        assert!(pages.len() < 2000, "the list does not end");
        let Some(cursor) = answer["pagination"]["next_cursor"].as_str() else { break };
        assert_eq!(answer["pagination"]["has_more"], true);
        query = format!("limit={limit}&cursor={cursor}&state=a");
    }
    pages
}

fn by_offset(regions: &[Region], limit: u64) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut offset = 0;
    loop {
        let (answer, _) = page(regions, &format!("limit={limit}&offset={offset}"), Paging::Offset);
        let items = items_of(&answer);
        offset += items.len() as u64;
        pages.push(items);
        if answer["pagination"].is_object() {
            assert_eq!(answer["pagination"]["total"], union(regions).len(), "{answer}");
        }
        if answer["pagination"]["has_more"] != true {
            return pages;
        }
    }
}

fn by_page(regions: &[Region], per_page: u64) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    for number in 1.. {
        let (answer, _) = page(regions, &format!("page={number}&per_page={per_page}"), Paging::Page);
        assert_eq!(answer["pagination"]["page"], number);
        let size = answer["pagination"]["per_page"].as_u64().unwrap();
        let total = answer["pagination"]["total"].as_u64().unwrap();
        pages.push(items_of(&answer));
        if number * size >= total {
            break;
        }
    }
    pages
}

/// A single server would fill every page but the last.
fn assert_full(pages: &[Vec<String>], limit: u64) {
    assert!(pages.iter().rev().skip(1).all(|page| page.len() as u64 == limit), "{pages:?}");
}

fn regions(
    dialects: impl Strategy<Value = Dialect> + Clone + 'static,
    most: u64,
) -> impl Strategy<Value = Vec<Region>> {
    let region = (dialects, 0_usize..40, any::<bool>());
    proptest::collection::vec(region, 1..5).prop_map(move |regions| {
        let region = |(place, (dialect, count, _)): (usize, (Dialect, usize, bool))| Region {
            items: (0..count).map(|item| format!("r{place}-{item}")).collect(),
            dialect,
            most,
            down: false,
        };
        regions.into_iter().enumerate().map(region).collect()
    })
}

fn paged() -> impl Strategy<Value = Dialect> + Clone {
    prop_oneof![
        Just(Dialect::Offset),
        Just(Dialect::Cursor { total: true }),
        Just(Dialect::Cursor { total: false }),
        Just(Dialect::Whole)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn pages_by_cursor_are_the_union_in_every_dialect(regions in regions(paged(), 1000), limit in 1_u64..30) {
        let pages = by_cursor(&regions, limit);
        prop_assert_eq!(pages.concat(), union(&regions));
        assert_full(&pages, limit);
    }

    #[test]
    fn pages_by_cursor_are_the_union_where_regions_give_smaller_pages(regions in regions(paged(), 7), limit in 1_u64..30) {
        prop_assert_eq!(by_cursor(&regions, limit).concat(), union(&regions));
    }

    #[test]
    fn pages_by_offset_are_the_union(regions in regions(prop_oneof![Just(Dialect::Offset), Just(Dialect::Whole)], 1000), limit in 1_u64..30) {
        let pages = by_offset(&regions, limit);
        prop_assert_eq!(pages.concat(), union(&regions));
        assert_full(&pages, limit);
    }

    #[test]
    fn any_offset_shows_its_part_of_the_union(regions in regions(Just(Dialect::Offset), 1000), offset in 0_u64..200, limit in 1_u64..60) {
        let (answer, _) = page(&regions, &format!("limit={limit}&offset={offset}"), Paging::Offset);
        let expected: Vec<String> = union(&regions).into_iter().skip(offset as usize).take(limit as usize).collect();
        prop_assert_eq!(items_of(&answer), expected);
    }

    #[test]
    fn pages_by_number_are_the_union(regions in regions(Just(Dialect::Page), 1000), limit in 1_u64..30) {
        let pages = by_page(&regions, limit);
        prop_assert_eq!(pages.concat(), union(&regions));
        assert_full(&pages, limit);
    }

    #[test]
    fn a_log_is_followed_without_gap_or_repetition(mut regions in regions(Just(Dialect::Log), 1000), limit in 1_u64..30) {
        let mut seen = Vec::new();
        let mut query = format!("limit={limit}");
        for _ in 0..2 {
            loop {
                let (answer, _) = page(&regions, &query, Paging::After);
                let items = items_of(&answer);
                prop_assert!(items.len() as u64 <= limit);
                seen.extend(items);
                query = format!("limit={limit}&after={}", answer["cursor"].as_str().unwrap());
                if answer["has_more"] != true {
                    break;
                }
            }
            // What happens later is seen later.
            for region in &mut regions {
                region.items.push(format!("late-{}", region.items.len()));
            }
        }
        for region in &mut regions {
            region.items.pop();
        }
        let mut expected = union(&regions);
        seen.sort();
        expected.sort();
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn a_region_that_is_away_for_some_pages_is_read_when_it_is_back(
        mut regions in regions(paged(), 1000), away in 0_usize..4, from in 0_usize..4, until in 0_usize..4, limit in 1_u64..30,
    ) {
        let away = away % regions.len();
        let mut seen = Vec::new();
        let mut query = format!("limit={limit}");
        for number in 0.. {
            regions[away].down = (from..until).contains(&number);
            let (answer, missing) = page(&regions, &query, Paging::Offset);
            prop_assert!(missing.iter().all(|leg| *leg == away));
            if answer.is_null() {
                continue;
            }
            seen.extend(items_of(&answer));
            let Some(cursor) = answer["pagination"]["next_cursor"].as_str() else { break };
            query = format!("limit={limit}&cursor={cursor}");
        }
        let mut distinct = seen.clone();
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), seen.len(), "something came twice");
        regions[away].down = true;
        for item in union(&regions) {
            prop_assert!(seen.contains(&item), "{} is lost", item);
        }
    }
}

#[test]
fn lists_that_are_not_paged_come_whole() {
    let region = |place: usize| Region {
        items: (0..70).map(|item| format!("r{place}-{item}")).collect(),
        dialect: Dialect::Whole,
        most: 0,
        down: false,
    };
    let regions = [region(0), region(1)];
    assert_eq!(items_of(&page(&regions, "", Paging::Offset).0), union(&regions));
    assert_eq!(items_of(&page(&regions, "", Paging::Page).0), union(&regions));
    assert_eq!(items_of(&page(&regions, "page=2", Paging::Page).0), Vec::<String>::new());
    assert_eq!(items_of(&page(&regions, "limit=3&offset=139", Paging::Offset).0), ["r1-69"]);
}

#[test]
fn a_page_larger_than_regions_give_is_as_small_as_theirs() {
    let region = |place: usize, count: usize, most: u64| Region {
        items: (0..count).map(|item| format!("r{place}-{item}")).collect(),
        dialect: Dialect::Page,
        most,
        down: false,
    };
    let regions = [region(0, 20, 100), region(1, 500, 100), region(2, 130, 200)];
    let pages = by_page(&regions, 1000);
    assert_eq!(pages.concat(), union(&regions));
    assert_full(&pages, 100);
}

#[test]
fn a_page_ends_where_a_region_gives_less_than_it_has() {
    let wanted = Wanted::read(Some("limit=10&offset=2"), Paging::Offset);
    let mut walk = Walk::begin(&wanted, LIST, &ids(2)).unwrap();
    let told =
        |items: usize, total: u64| Told { items, total: Some(total), paged: true, by_offset: true, ..Told::default() };
    for (number, ask) in walk.asks().iter().enumerate() {
        let told = if ask.leg == 0 { told(3, 8) } else { told(1, 9) };
        walk.heard(ask, Some((&told, number)));
    }
    for ask in walk.asks() {
        let told = if ask.leg == 0 { told(3, 8) } else { told(ask.limit as usize, 9) };
        walk.heard(&ask, Some((&told, 2 + ask.leg)));
    }
    assert!(walk.asks().is_empty());
    let outcome = walk.finish();
    let shown: usize = outcome.picks.iter().map(|pick| pick.to - pick.from).sum();
    assert_eq!((shown, outcome.total, outcome.has_more), (3, Some(17), true));
    assert!(outcome.picks.iter().all(|pick| pick.answer != 1 && pick.answer != 3), "nothing of the next region");
}

#[test]
fn a_cursor_of_another_list_is_refused() {
    let cursor = Cursor::default().encode("/ojs/v1/dead-letter");
    let wanted = Wanted::read(Some(&format!("cursor={cursor}")), Paging::Offset);
    assert!(matches!(Walk::begin(&wanted, LIST, &ids(2)), Err(BadCursor)));
}
