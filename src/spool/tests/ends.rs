//! How jobs leave their lane: set aside, damaged, cancelled, too old.

use super::*;

#[tokio::test]
async fn an_operator_sets_a_waiting_job_aside_with_its_sends_and_a_row_stays_short() {
    let stage = Stage::new();
    let spool = stage.open();
    for (id, nonce) in [("a", 2), ("b", 3)] {
        assert!(matches!(store(&spool, id, nonce).await, Stored::Held));
    }
    let place = Place { region: RegionId::parse("r").unwrap(), job_id: "a".to_owned() };
    let copy = Copy::sending(place, None, crate::outcome::Moment(5));
    let gone = Copy { fate: Fate::Absent { by: Absence::Final }, ..copy.clone() };
    let mut taken = spool.take().unwrap();
    assert!(taken.record(&[gone.clone(), gone, copy.clone()]).await);
    assert_eq!(taken.copies, std::slice::from_ref(&copy), "the last one stands for the others");
    drop(taken);
    assert_eq!(spool.aside("a").await, Ordered::Done);
    assert_eq!(spool.aside("a").await, Ordered::NotFound);
    stage.time.advance(Duration::from_secs(60));
    assert_eq!((spool.counts().refused, spool.take().unwrap().head().job_id()), (1, "b"), "the lane goes on");
    assert_eq!(spool.retry("a").await, Ordered::Done);
    stage.time.advance(Duration::from_secs(60));
    assert_eq!(spool.take().unwrap().copies, [copy]);
}

#[tokio::test]
async fn a_passing_read_error_sets_nothing_aside_and_damage_that_cannot_be_marked_does() {
    for (trouble, damaged) in [("io_error", 0), ("corrupt", 1)] {
        let stage = Stage::new();
        let spool = stage.open();
        assert!(matches!(store(&spool, "a", 2).await, Stored::Held));
        *stage.control.read.lock() = Some(trouble);
        stage.control.set(Next::IsDamaged);
        let loaded = spool.take().unwrap().load().await;
        assert_eq!(loaded, Err(if damaged == 1 { Unloaded::ForGood } else { Unloaded::NotNow }), "{trouble}");
        ready(&spool).await;
        assert_eq!(spool.counts().damaged, damaged, "{trouble}");
    }
}

#[tokio::test]
async fn a_cancellation_whose_commit_fails_says_so_and_leaves_the_job_to_its_lane() {
    let stage = Stage::new();
    let spool = stage.open();
    assert!(matches!(store(&spool, "a", 2).await, Stored::Held));
    let known = spool.of_id("a", || [0; 32]).unwrap();
    stage.control.set(Next::Fails);
    assert_eq!(spool.cancel(&known).await, Ordered::Unknown);
    ready(&spool).await;
    assert_eq!(spool.take().unwrap().head().job_id(), "a");
    stage.control.set(Next::FailsLate);
    until(|| spool.take().is_none()).await;
    stage.time.advance(Duration::from_secs(60));
    assert_eq!(spool.cancel(&known).await, Ordered::Unknown);
    ready(&spool).await;
    assert!(ids(&spool).is_empty() && spool.take().is_none(), "the file says that it is gone");
}

#[tokio::test]
async fn an_age_follows_no_jump_of_the_wall_clock_and_a_retry_begins_it_anew() {
    let stage = Stage::new();
    let spool = stage.open();
    assert!(matches!(store(&spool, "a", 2).await, Stored::Held));
    let hour = Duration::from_secs(3_600);
    stage.time.set_wall(1_000_000 + 100 * 3_600_000);
    assert!(!spool.take().unwrap().is_too_old());
    stage.time.advance(25 * hour);
    let taken = spool.take().unwrap();
    assert!(taken.is_too_old());
    taken.set_aside(RowState::Expired, "max_age".to_owned()).await;
    assert!(spool.take().is_none() && spool.way(&lane(), false) == Way::Direct);
    assert_eq!(spool.retry("a").await, Ordered::Done);
    assert_eq!(spool.retry("a").await, Ordered::NotFound);
    assert!(!spool.take().unwrap().is_too_old());
    drop(spool);
    let spool = stage.open();
    assert!(!spool.take().unwrap().is_too_old(), "also after a restart");
}

#[tokio::test]
async fn a_lane_pauses_longer_each_time_and_others_do_not_wait_for_it() {
    let stage = Stage::new();
    let spool = stage.open();
    assert!(matches!(store(&spool, "a", 2).await, Stored::Held));
    for pause in [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000] {
        drop(spool.take().unwrap());
        stage.time.advance(Duration::from_millis(pause - 1));
        assert!(spool.take().is_none(), "{pause}");
        stage.time.advance(Duration::from_millis(1));
    }
    let mut other = head("b");
    other.lane.pin = Some("r".to_owned());
    drop(spool.take().unwrap());
    assert!(matches!(spool.store(other, content("b"), Vec::new(), [9; 12]).await, Stored::Held));
    assert_eq!(spool.take().unwrap().head().job_id(), "b");
}

#[test]
fn tries_that_a_region_ends_with_an_error_are_final_after_five_over_ten_minutes() {
    let (mut failures, now) = (Failures::default(), std::time::Instant::now());
    let later = now + Duration::from_secs(10 * 60);
    (0..4).for_each(|_| failures.note(now));
    assert!(!failures.are_final(later));
    failures.note(now);
    assert_eq!((failures.are_final(now), failures.are_final(later)), (false, true));
}
