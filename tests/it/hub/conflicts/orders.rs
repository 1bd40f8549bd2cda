//! Orders to cancel a copy: a killed hub, a lost answer, another mode.

use http::Method;
use ojs_testbed::{Fault, Gate, When};
use serde_json::{Value, json};

use super::super::views::regions;
use super::{EU, EU_PLACE, US, US_PLACE, World, counts_one, fetched, id, settings, tracked};
use crate::support::eventually;

#[tokio::test]
async fn a_hub_that_is_killed_while_it_cancels_a_copy_does_so_once_in_the_end() {
    let mut world = World::start("cancel").await;
    let (first, second) = (id(1), id(2));
    let gate = Gate::new();
    let faults = world.federation.regions[US_PLACE].faults();
    faults.add(When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1), Fault::Hold { gate: gate.clone() });
    world.enqueue_both([&first, &second], tracked()).await;
    eventually("the order is held back", async || faults.struck() == 1).await;
    world.of_us.kill();
    assert_eq!(world.state(US_PLACE, &first), "available");
    world.of_us = world.us.again(0).await;
    world.result(&first, "cancelled").await;
    gate.open();
    assert_eq!(
        (world.state(US_PLACE, &first), world.state(EU_PLACE, &second)),
        ("cancelled".to_owned(), "available".to_owned())
    );
    counts_one(&world.of_us, "cancelled").await;
    assert_eq!((fetched(&world.in_us).await, fetched(&world.in_eu).await), (Value::Null, json!(second)));
}

#[tokio::test]
async fn an_order_whose_answer_was_lost_is_not_given_again() {
    let world = World::start("cancel").await;
    let faults = world.federation.regions[US_PLACE].faults();
    let lost = Fault::CutAfterRequest { store: true };
    faults.add(When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1), lost);
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    world.result(&id(1), "cancelled").await;
    assert_eq!((world.cancels(US_PLACE), faults.struck()), (1, 1));
}

#[tokio::test]
async fn an_order_that_a_killed_hub_has_given_is_noted_also_where_copies_are_reported_from_then_on() {
    let mut world = World::start("cancel").await;
    let faults = world.federation.regions[US_PLACE].faults();
    let lost = Fault::CutAfterRequest { store: true };
    faults.add(When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1), lost);
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    eventually("the order is carried out", async || faults.struck() == 1).await;
    world.of_us.kill();
    world.us.set_more(&settings(US, &world.eu, EU, "report", &regions(&world.federation, |_| None)));
    world.of_us = world.us.again(0).await;
    world.result(&id(1), "cancelled").await;
    assert_eq!(world.cancels(US_PLACE), 1);
    let trail = world.us.command("ann", &["audit", "export"]).await;
    assert!(trail.stdout.contains("copies_cancelled") && trail.stdout.contains(&id(1)), "{}", trail.all());
}
