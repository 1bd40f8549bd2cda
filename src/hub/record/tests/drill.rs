//! Failover drills in the record.

use super::*;

#[tokio::test]
async fn one_drill_is_on_at_a_time_and_it_is_changed_from_its_version_only() {
    let record = Record::open(&at(None)).unwrap();
    let saved = |id: &str, version, is_open| SavedDrill {
        id: id.to_owned(),
        number: if id == "a" { 1 } else { 2 },
        version,
        document: format!("{version}"),
        is_open,
        began_ms: 5,
    };
    assert_eq!(record.change_drill(saved("a", 0, true)).await.unwrap(), Kept::Kept);
    assert_eq!(record.change_drill(saved("b", 0, true)).await.unwrap(), Kept::Behind, "one at a time");
    for (version, kept) in [(0, Kept::Behind), (2, Kept::Behind), (1, Kept::Kept), (1, Kept::Behind)] {
        assert_eq!(record.change_drill(saved("a", version, true)).await.unwrap(), kept, "{version}");
    }
    assert_eq!(record.change_drill(saved("a", 2, false)).await.unwrap(), Kept::Kept);
    assert_eq!(record.change_drill(saved("b", 0, true)).await.unwrap(), Kept::Kept);
    let last = record.last_drills().await.unwrap();
    assert_eq!(last.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["b"], "the open and the last one");
    assert_eq!(record.change_drill(saved("b", 1, false)).await.unwrap(), Kept::Kept);
    let same = SavedDrill { number: 2, ..saved("c", 0, false) };
    assert_eq!(record.change_drill(same).await.unwrap(), Kept::Behind, "another hub has taken the number");
    let open: Vec<bool> = record.drills().await.unwrap().iter().map(|it| it.is_open).collect();
    assert_eq!(open, [false, false]);
}

#[tokio::test]
async fn counts_replace_those_of_the_same_process_and_go_with_their_drill() {
    let record = Record::open(&at(None)).unwrap();
    let numbered = |sidecar: &str, started_ms, seq, document: &str| {
        let (sidecar, document) = (sidecar.to_owned(), document.to_owned());
        SavedCounts { sidecar, started_ms, seq, document }
    };
    let counts = |sidecar: &str, started_ms, document: &str| numbered(sidecar, started_ms, 5, document);
    let (first, second) =
        (vec![counts("a", 1, "x"), counts("b", 1, "x")], vec![counts("a", 1, "y"), counts("a", 2, "z")]);
    for some in [first, second] {
        record.keep_drill_counts("d", some).await.unwrap();
    }
    let expected = [counts("a", 1, "y"), counts("a", 2, "z"), counts("b", 1, "x")];
    assert_eq!(record.drill_counts("d").await.unwrap(), expected);
    record.keep_drill_counts("d", vec![numbered("a", 1, 4, "older")]).await.unwrap();
    assert_eq!(record.drill_counts("d").await.unwrap(), expected, "another hub had it before");
    assert!(record.drill_counts("e").await.unwrap().is_empty());
    let named = |id: &str, number, version, is_open| SavedDrill {
        id: id.to_owned(),
        number,
        version,
        document: String::new(),
        is_open,
        began_ms: 5,
    };
    let of = |version, is_open| named("d", 1, version, is_open);
    record.change_drill(of(0, true)).await.unwrap();
    record.prune_drills(u64::MAX >> 1).await.unwrap();
    assert_eq!(record.drill_counts("d").await.unwrap().len(), 3, "one that is on stays");
    record.change_drill(of(1, false)).await.unwrap();
    record.prune_drills(6).await.unwrap();
    assert_eq!(record.drills().await.unwrap().len(), 1, "the last one keeps the number");
    record.change_drill(named("e", 2, 0, false)).await.unwrap();
    record.prune_drills(6).await.unwrap();
    assert!(record.drills().await.unwrap().len() == 1 && record.drill_counts("d").await.unwrap().is_empty());
}
