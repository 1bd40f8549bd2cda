//! Which of two copies was told to go.

use super::*;

#[tokio::test]
async fn of_two_copies_one_is_told_to_go_whichever_rows_speak_of_them() {
    let store = open_at(None, 100);
    let place = |id: &str| Place { region: region(id), job_id: "a".to_owned() };
    let row = |sent: &str, to: &str| Unknown { region: region(sent), going: Some(place(to)), ..unknown("a") };
    for both in [row("us-east-1", "eu-west-1"), row("us-east-1", "eu-west-1"), row("eu-west-1", "us-east-1")] {
        store.record_unknown(both).await;
    }
    let [turned, second, first] = store.due(10, |_| true).try_into().unwrap();
    assert_eq!(store.told(&place("us-east-1"), &first), None);
    let tell = |which| Tell { which, stays_for_good: false, gone: 0 };
    let told = store.tell(&first, tell(Cancelled::Late)).await.unwrap();
    assert_eq!((told.going.as_ref(), told.elsewhere.as_ref()), (None, Some(&place("eu-west-1"))), "both were seen");
    assert_eq!(
        [store.told(&place("us-east-1"), &second), store.told(&place("eu-west-1"), &second)],
        [Some(State::Pending), None]
    );
    // The same one may be told again, the other one not, by no row; unless the first one stays in any case.
    assert!(store.tell(&second, tell(Cancelled::Elsewhere)).await.is_none());
    assert!(store.tell(&turned, tell(Cancelled::Late)).await.is_none());
    assert!(store.tell(&first, tell(Cancelled::Late)).await.is_none(), "it is not as it was found");
    let mut second = store.tell(&second, tell(Cancelled::Late)).await.unwrap();
    // Once it is known to have gone, who looked at it before must look again, and who looked later has seen that.
    for number in [first.number, second.number] {
        store.change(number, |it| it.resolve(State::Landed, 10));
    }
    (second.number, second.cancelled) = (store.record_unknown(row("us-east-1", "eu-west-1")).await, None);
    let second = of(&store, "a").filter(|it| it.number == second.number).unwrap();
    assert_eq!(store.told(&place("us-east-1"), &second), Some(State::Landed));
    assert!(store.tell(&second, tell(Cancelled::Elsewhere)).await.is_none());
    let later = Tell { gone: store.gone(), ..tell(Cancelled::Elsewhere) };
    let another = Unknown { body: [2; 32], ..second.clone() };
    assert_eq!(store.told(&place("us-east-1"), &another), None, "it was another job");
    assert!(store.tell(&second, later).await.is_some());
    assert!(store.tell(&turned, Tell { stays_for_good: true, ..tell(Cancelled::Late) }).await.is_some());
    assert_eq!(writes(&store, JournalWrite::Failed), 0, "what is not told is not written");
}

#[test]
fn a_copy_that_was_only_told_to_go_is_there_as_far_as_anybody_knows() {
    let elsewhere = Place { region: region("eu-west-1"), job_id: "b".to_owned() };
    let told = Unknown { elsewhere: Some(elsewhere.clone()), cancelled: Some(Cancelled::Elsewhere), ..unknown("a") };
    for state in [State::Pending, State::Expired, State::Absent] {
        assert_eq!(Unknown { state, ..told.clone() }.stored_in(), Some(elsewhere.clone()), "{state:?}");
    }
    let gone = Unknown { state: State::Landed, ..told };
    assert_eq!(gone.stored_in(), gone.sent_to());
}
