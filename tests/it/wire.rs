//! What a region receives: the client's bytes, and between them nothing but the stamp.

mod stamp;

use bytes::Bytes;

use crate::support::{Answer, Federation};

/// The body of the last enqueue that the local region received.
fn received(federation: &Federation) -> Bytes {
    federation.regions[0].record().requests_to("/ojs/v1/jobs").pop().unwrap().body
}

/// Enqueues a body and checks what the local region received: `expected`, in which `<I>` stands for the minted job id and `<F>`
/// for the minted tracking id, both of which the answer names.
async fn check(federation: &Federation, body: &str, expected: &str) -> Answer {
    let answer = federation.client.enqueue(body.to_owned()).await;
    assert_eq!(answer.status, 201, "{body}: {answer:?}");
    let mut expected = expected.to_owned();
    if expected.contains("<I>") {
        let id = federation.regions[0].jobs().last().unwrap().id.clone();
        assert!(String::from_utf8_lossy(&answer.body).contains(id.as_str()), "{answer:?}");
        assert_is_uuid7(&id);
        expected = expected.replace("<I>", &id);
    }
    if expected.contains("<F>") {
        let id = answer.header("ojs-federation-id").unwrap();
        assert_is_uuid7(id);
        expected = expected.replace("<F>", id);
    }
    let received = received(federation);
    assert_eq!(String::from_utf8_lossy(&received), expected, "{body}");
    let request = federation.regions[0].record().requests_to("/ojs/v1/jobs").pop().unwrap();
    assert_eq!(request.headers["content-length"], received.len().to_string().as_str());
    answer
}

#[track_caller]
fn assert_is_uuid7(id: &str) {
    let uuid = uuid::Uuid::parse_str(id).unwrap();
    assert_eq!((uuid.get_version_num(), uuid.get_variant(), id.len()), (7, uuid::Variant::RFC4122, 36), "{id}");
    assert_eq!(id, id.to_ascii_lowercase());
}
