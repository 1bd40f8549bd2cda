//! Incidents in the record.

use super::*;

fn saved(id: &str, version: u64, closed_ms: Option<u64>) -> SavedIncident {
    SavedIncident {
        id: id.to_owned(),
        version,
        job_type: "mail".to_owned(),
        tenant: String::new(),
        is_open: closed_ms.is_none(),
        opened_ms: 5,
        closed_ms,
        due_ms: Some(7),
        document: format!("{version}"),
    }
}

#[tokio::test]
async fn one_incident_of_a_type_and_a_tenant_is_open_and_it_is_changed_from_its_version_only() {
    let record = Record::open(&at(None)).unwrap();
    let change = async |it| record.change_incident(it).await.unwrap();
    assert_eq!(change(saved("a", 0, None)).await, Kept::Kept);
    assert_eq!(change(saved("b", 0, None)).await, Kept::Behind, "one is open");
    let other = SavedIncident { tenant: "acme".to_owned(), due_ms: None, ..saved("c", 0, None) };
    assert_eq!(change(other.clone()).await, Kept::Kept, "of another tenant");
    assert_eq!(change(saved("a", 2, None)).await, Kept::Behind);
    assert_eq!(change(saved("a", 1, Some(9))).await, Kept::Kept);
    assert_eq!(change(saved("a", 1, Some(9))).await, Kept::Behind);
    assert_eq!(change(SavedIncident { opened_ms: 6, ..saved("b", 0, None) }).await, Kept::Kept, "the first is closed");
    let ids = |all: Vec<SavedIncident>| all.into_iter().map(|it| it.id).collect::<Vec<_>>();
    let recent = async |since| ids(record.incidents(IncidentQuery::Recent(since)).await.unwrap());
    assert_eq!((recent(9).await.len(), recent(10).await), (3, vec!["b".to_owned(), "c".to_owned()]));
    let due = async |at_ms| ids(record.incidents(IncidentQuery::Due(at_ms, 9)).await.unwrap());
    assert_eq!((due(7).await.len(), due(6).await.len()), (2, 0));
    let page = async |is_open, behind: (u64, &str), max| {
        ids(record.incident_page(is_open, (behind.0, behind.1.to_owned()), max).await.unwrap())
    };
    let last = (i64::MAX as u64, "");
    assert_eq!(page(None, last, 2).await, ["b", "c"]);
    assert_eq!(page(None, (5, "c"), 2).await, ["a"]);
    assert_eq!((page(Some(true), last, 9).await.len(), page(Some(false), last, 9).await), (2, vec!["a".to_owned()]));
    assert_eq!(record.incident("a").await.unwrap().unwrap(), saved("a", 2, Some(9)).with_document("1"));
    record.prune_incidents(10, 0).await.unwrap();
    assert!(record.incident("a").await.unwrap().is_some(), "a message about it is due");
    assert_eq!(change(SavedIncident { due_ms: None, ..saved("a", 2, Some(9)) }).await, Kept::Kept);
    record.prune_incidents(10, 0).await.unwrap();
    assert!(record.incident("a").await.unwrap().is_none());
}

impl SavedIncident {
    fn with_document(self, document: &str) -> Self {
        Self { document: document.to_owned(), ..self }
    }
}
