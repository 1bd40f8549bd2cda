//! Page by page, a merged list is the regions' lists one behind the other.

use serde_json::Value;

use super::{Random, dead_letters, fill, ids, own_lists, parameter};
use crate::support::{Client, Federation, Setup};

/// Contents and page sizes that are tried; `LISTS=100` for more.
fn rounds() -> u64 {
    std::env::var_os("LISTS").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(3)
}

async fn page(client: &Client, target: &str) -> Value {
    let answer = client.get(target).await;
    assert_eq!(answer.status, 200, "{target}: {answer:?}");
    assert_eq!(answer.header("ojs-federation-partial"), None);
    answer.json()
}

/// All pages of a client that counts.
async fn by_offset(client: &Client, path: &str, limit: u64) -> Vec<Vec<String>> {
    let mut pages: Vec<Vec<String>> = Vec::new();
    loop {
        let offset: usize = pages.iter().map(Vec::len).sum();
        let answer = page(client, &format!("{path}?limit={limit}&offset={offset}")).await;
        assert_eq!(answer["pagination"]["offset"], offset, "{answer}");
        pages.push(ids(&answer));
        if answer["pagination"]["has_more"] != true {
            return pages;
        }
    }
}

/// All pages of a client that follows cursors; each by the next of the clients, as if it were restarted in between.
async fn by_cursor(clients: &[Client], path: &str, limit: u64) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut target = format!("{path}?limit={limit}");
    for client in clients.iter().cycle() {
        let answer = page(client, &target).await;
        pages.push(ids(&answer));
        let Some(cursor) = answer["pagination"]["next_cursor"].as_str() else { break };
        target = format!("{path}?cursor={cursor}&limit={limit}");
    }
    pages
}

async fn by_number(client: &Client, path: &str, per_page: u64) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    for number in 1.. {
        let answer = page(client, &format!("{path}?page={number}&per_page={per_page}")).await;
        assert_eq!(
            (&answer["pagination"]["page"], &answer["pagination"]["per_page"]),
            (&number.into(), &per_page.into())
        );
        pages.push(ids(&answer));
        if number * per_page >= answer["pagination"]["total"].as_u64().unwrap() {
            break;
        }
    }
    pages
}

#[track_caller]
fn assert_union(pages: &[Vec<String>], union: &[String], limit: u64, what: &str) {
    assert_eq!(pages.concat(), union, "{what}");
    assert!(pages.iter().rev().skip(1).all(|page| page.len() as u64 == limit), "{what}: not every page is full");
}

/// No region was asked for more than a page of the client's at once.
#[track_caller]
fn assert_bounded(federation: &Federation, limit: u64) {
    for region in &federation.regions {
        for request in region.record().requests().iter().filter(|request| !request.path.contains("health")) {
            let asked = ["limit", "per_page"].iter().find_map(|name| parameter(&request.path, name));
            assert!(asked.is_some_and(|asked| asked.parse::<u64>().unwrap() <= limit), "{}", request.path);
        }
        region.record().clear();
    }
}

/// What the regions hold, which is what their own lists say.
async fn held(federation: &Federation, path: &str) -> Vec<String> {
    let union = own_lists(&federation.client, path).await.concat();
    let mut stored: Vec<String> = Vec::new();
    for region in &federation.regions {
        stored.extend(region.jobs().iter().map(|job| job.id.clone()));
    }
    let mut listed = union.clone();
    stored.sort();
    listed.sort();
    assert_eq!(listed, stored);
    for region in &federation.regions {
        region.record().clear();
    }
    union
}

#[tokio::test]
async fn pages_of_every_style_are_the_union_also_over_a_restart() {
    let federation = Setup::default().by_the_documents().start().await;
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        fill(&federation, [random.below(60), random.below(60), random.below(60)]);
        let (limit, jobs) = (1 + random.below(40), "/ojs/v1/jobs");
        let union = held(&federation, jobs).await;
        let restarted = federation.sidecar_in("us-east-1", &[]).await;
        let (client, clients) = (federation.client, [federation.client, restarted.client]);
        let what = format!("seed {seed}, limit {limit}");
        assert_union(&by_offset(&client, jobs, limit).await, &union, limit, &what);
        assert_union(&by_cursor(&clients, jobs, limit).await, &union, limit, &what);
        assert_union(&by_cursor(&clients, "/ojs/v1/queues/q/jobs", limit).await, &union, limit, &what);
        assert_union(&by_number(&client, "/ojs/v1/admin/jobs", limit).await, &union, limit, &what);
        assert_bounded(&federation, limit);
    }
}

#[tokio::test]
async fn pages_are_the_union_over_servers_in_the_field_which_only_count() {
    let federation = Federation::start().await;
    let dead = "/ojs/v1/dead-letter";
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        dead_letters(&federation, [random.below(15), random.below(15), random.below(15)]).await;
        let (limit, client) = (1 + random.below(10), federation.client);
        let union = held(&federation, dead).await;
        let what = format!("seed {seed}, limit {limit}");
        assert_union(&by_offset(&client, dead, limit).await, &union, limit, &what);
        assert_union(&by_cursor(&[client], dead, limit).await, &union, limit, &what);
        assert_union(&by_number(&client, "/ojs/v1/admin/dead-letter", limit).await, &union, limit, &what);
        assert_bounded(&federation, limit);
    }
}

#[tokio::test]
async fn a_page_larger_than_servers_give_says_how_large_it_is() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [250, 10, 250]);
    let union = own_lists(&federation.client, "/ojs/v1/jobs").await.concat();
    let answer = page(&federation.client, "/ojs/v1/jobs?limit=100000").await;
    assert_eq!((&answer["pagination"]["limit"], &answer["pagination"]["total"]), (&200.into(), &510.into()));
    assert_eq!(ids(&answer), union[..200]);
    let answer = page(&federation.client, "/ojs/v1/admin/jobs?per_page=100000&page=4").await;
    assert_eq!((&answer["pagination"]["per_page"], &answer["pagination"]["total"]), (&100.into(), &510.into()));
    assert_eq!(ids(&answer), union[300..400]);
}

#[tokio::test]
async fn the_log_of_all_regions_is_followed_without_gap_or_repetition() {
    let federation = Setup::default().by_the_documents().start().await;
    let mut seen: Vec<String> = Vec::new();
    let mut target = "/ojs/v1/events?limit=7".to_owned();
    for counts in [[9, 0, 4], [2, 5, 0], [0, 0, 0]] {
        fill(&federation, counts);
        loop {
            let answer = page(&federation.client, &target).await;
            assert!(answer["events"].as_array().unwrap().len() <= 7);
            let subjects = answer["events"].as_array().unwrap().iter();
            seen.extend(
                subjects
                    .map(|event| event["data"]["job_id"].as_str().or(event["subject"].as_str()).unwrap().to_owned()),
            );
            if let Some(cursor) = answer["cursor"].as_str() {
                target = format!("/ojs/v1/events?limit=7&after={cursor}");
            }
            if answer["has_more"] != true {
                break;
            }
        }
    }
    let mut stored: Vec<String> = Vec::new();
    for region in &federation.regions {
        stored.extend(region.jobs().iter().map(|job| job.id.clone()));
    }
    stored.sort();
    seen.sort();
    assert_eq!(seen, stored);
}

#[tokio::test]
async fn the_client_s_own_parameters_reach_every_region_and_filter_there() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [3, 4, 5]);
    federation.regions[1].fill("other", 6);
    let request = http::Request::get("/ojs/v1/jobs?queue=other&x=%2F&limit=4").header("if-none-match", "\"tag\"");
    let answer = federation.client.send(request, "").await.json();
    assert_eq!(federation.seen("if-none-match"), [0_usize; 0], "each region would decide by its own");
    assert_eq!((ids(&answer).len(), &answer["pagination"]["total"]), (4, &6.into()));
    for region in &federation.regions {
        let asked = region.record().requests_to("/ojs/v1/jobs");
        assert!(asked.iter().all(|request| request.path.contains("?queue=other&x=%2F&limit=")), "{asked:?}");
    }
}

#[tokio::test]
async fn a_damaged_or_foreign_cursor_is_refused_and_nothing_is_asked() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [5, 5, 5]);
    let first = page(&federation.client, "/ojs/v1/jobs?limit=3").await;
    let cursor = first["pagination"]["next_cursor"].as_str().unwrap();
    for region in &federation.regions {
        region.record().clear();
    }
    let cut = &cursor[..cursor.len() - 2];
    for target in [
        format!("/ojs/v1/jobs?cursor={cut}"),
        "/ojs/v1/jobs?cursor=75732d656173742d31".to_owned(),
        format!("/ojs/v1/dead-letter?cursor={cursor}"),
        "/ojs/v1/queues?limit=1&cursor=x".to_owned(),
    ] {
        federation.client.get(&target).await.check_error(400, "invalid_request", "invalid_cursor");
    }
    assert_eq!(federation.seen("cursor="), [0_usize; 0]);
}
