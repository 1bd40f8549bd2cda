//! Within the call: found, absent, or not to be found out.

use ojs_testbed::{Fault, When};

use super::{OWN, jobs, outcomes, quiet};
use crate::support::{job, pinned};

/// A job under the client's own id, perhaps pinned.
fn own(pin: &str) -> String {
    let meta = if pin.is_empty() { String::new() } else { format!(r#","meta":{{"ojs.federation.region":"{pin}"}}"#) };
    format!(r#"{{"id":"{OWN}","type":"email.send","args":["own"]{meta}}}"#)
}

#[tokio::test]
async fn an_answer_that_was_lost_is_given_again_from_the_region_that_has_the_job() {
    for http2 in [false, true] {
        let federation = if http2 { quiet().http2() } else { quiet() }.start().await;
        let faults = [
            Fault::CutAfterRequest { store: true },
            Fault::CutMidResponse { after_bytes: 0 },
            Fault::CutMidResponse { after_bytes: 1_000_000 },
        ];
        for (number, fault) in faults.into_iter().enumerate() {
            for body in [job(&format!("flexible-{number}")), pinned("us-east-1", &format!("pinned-{number}"))] {
                federation.regions[0].faults().add(When::enqueue().next(1), fault.clone());
                let answer = federation.client.enqueue(body).await;
                assert_eq!((answer.status.as_u16(), answer.region()), (201, "us-east-1"), "{answer:?}");
                assert_eq!(answer.header("ojs-federation-attempts"), Some("1"));
                assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
            }
        }
        assert_eq!((federation.enqueues(0), federation.enqueues(1)), (6, 0), "each was sent once");
        assert_eq!(federation.regions[0].jobs().len(), 6);
        assert_eq!(federation.metric(r#"outcomes_resolved_total{result="found"}"#).await, 6.0);
        assert_eq!(federation.metric(r#"unknown_outcomes_total{region="us-east-1"}"#).await, 0.0);
        assert!(outcomes(&federation.client).await["outcomes"].as_array().unwrap().is_empty(), "nothing is journalled");
    }
}

#[tokio::test]
async fn the_region_is_asked_on_a_connection_of_its_own() {
    let federation = quiet().start().await;
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: true });
    federation.client.enqueue(job("a")).await;
    let requests = federation.regions[0].record().requests_to("/ojs/v1/jobs");
    let [sent, asked] = requests.as_slice() else { panic!("{requests:?}") };
    let others = federation.regions[0].record().requests();
    let shared = others.iter().filter(|it| it.connection == asked.connection).count();
    assert!(sent.connection != asked.connection && shared == 1);
}

#[tokio::test]
async fn a_job_that_was_never_stored_goes_to_the_next_region_once_and_a_pinned_one_to_its_own_again() {
    for http2 in [false, true] {
        for fault in [Fault::CutAfterRequest { store: false }, Fault::CutBeforeBody] {
            let federation = if http2 { quiet().http2() } else { quiet() }.start().await;
            let faults = federation.regions[0].faults();
            for (body, region, place) in [
                (job("flexible"), "eu-west-1", 1),
                (own(""), "eu-west-1", 1),
                (pinned("us-east-1", "pinned"), "us-east-1", 0),
            ] {
                faults.add(When::enqueue().next(1), fault.clone());
                let answer = federation.client.enqueue(body).await;
                assert_eq!((answer.status.as_u16(), answer.region()), (201, region), "{answer:?}");
                assert_eq!(answer.header("ojs-federation-attempts"), Some("2"));
                assert_eq!(federation.stored(&answer.job_id()), [(place, 1)]);
            }
            assert_eq!(jobs(&federation).len(), 3, "nothing is stored twice");
            assert_eq!(federation.seen("pinned"), [0]);
            assert_eq!(federation.metric(r#"outcomes_resolved_total{result="absent"}"#).await, 3.0);
            assert_eq!(federation.metric(r#"failovers_total{from_region="us-east-1",reason="absent"}"#).await, 2.0);
        }
    }
}

#[tokio::test]
async fn a_pinned_job_under_the_clients_own_id_keeps_it_when_it_is_sent_again() {
    let federation = quiet().start().await;
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
    let answer = federation.client.enqueue(own("us-east-1")).await;
    assert_eq!((answer.status.as_u16(), answer.job_id().as_str()), (201, OWN));
    assert_eq!((federation.stored(OWN), federation.enqueues(0)), (vec![(0, 1)], 2));
    let newest = outcomes(&federation.client).await["outcomes"][0].take();
    assert_eq!((&newest["state"], newest["copies"].as_array().unwrap().len()), (&"watched".into(), 2), "{newest}");
}

#[tokio::test]
async fn a_job_that_gets_lost_twice_in_its_only_region_is_unknown() {
    let federation = quiet().start().await;
    federation.regions[0].faults().add(When::enqueue().next(2), Fault::CutAfterRequest { store: false });
    let answer = federation.client.enqueue(pinned("us-east-1", "a")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    assert_eq!((federation.enqueues(0), federation.enqueues(1)), (2, 0));
    assert!(jobs(&federation).is_empty());
}

#[tokio::test]
async fn while_nobody_answers_for_the_job_it_is_unknown_and_goes_nowhere() {
    let federation = quiet().start().await;
    federation.mute(0);
    for store in [false, true] {
        federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store });
        let answer = federation.client.enqueue(job("a")).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
        let shown = outcomes(&federation.client).await;
        let newest = &shown["outcomes"][0];
        assert_eq!(newest["job_id"], answer.json()["error"]["details"]["job_id"]);
        assert_eq!((&newest["state"], &newest["region"]), (&"unknown".into(), &"us-east-1".into()));
        assert_eq!(newest["request_id"].as_str(), answer.header("x-request-id"));
    }
    assert_eq!((federation.enqueues(0), federation.enqueues(1)), (2, 0));
    assert_eq!(federation.metric(r#"outcomes_pending{state="unknown"}"#).await, 2.0);
}

#[tokio::test]
async fn a_404_that_is_no_word_of_the_region_proves_nothing() {
    let federation = quiet().start().await;
    let page = ojs_testbed::FaultAnswer::balancer(http::StatusCode::NOT_FOUND);
    federation.regions[0]
        .faults()
        .add(When::path("/ojs/v1/jobs/").method(http::Method::GET), Fault::Answer { answer: page, store: false });
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: true });
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!((answer.status.as_u16(), federation.enqueues(1)), (500, 0), "{answer:?}");
}
