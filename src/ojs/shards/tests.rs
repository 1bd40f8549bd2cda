use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::ojs::{Abridged, Additions, Envelope, stamp};

fn email() -> ShardedQueue {
    let weights = BTreeMap::from([("acme".to_owned(), 5), ("globex".to_owned(), 2)]);
    ShardedQueue::new("email", 32, &[50, 0], &weights, 1, true)
}

fn shards() -> Shards {
    Shards::of(vec![email(), ShardedQueue::new("default", 4, &[], &BTreeMap::new(), 1, true)]).unwrap()
}

fn renamed(document: &str) -> String {
    let bytes = Bytes::copy_from_slice(document.as_bytes());
    String::from_utf8(shards().renamed(&bytes).unwrap_or(bytes).to_vec()).unwrap()
}

/// Every sidecar of every version puts a tenant's jobs into the same shard, or two of them would not keep their order.
#[test]
fn a_tenant_s_shard_is_the_same_for_ever() {
    let queue = ShardedQueue::new("email", 32, &[], &BTreeMap::new(), 1, true);
    let of = |tenant: &str| queue.place(tenant, 0).shard;
    let golden = ["acme", "globex", "initech", "umbrella", "hooli", "t-1", "t-2", "t-3", "ünïcode"].map(of);
    assert_eq!(golden, [17, 4, 14, 29, 14, 28, 23, 14, 3], "golden");
}

#[test]
fn tenants_with_a_weight_have_shards_of_their_own_and_others_share_the_rest() {
    let queue = email();
    let own: Vec<u8> = ["acme", "globex"].iter().map(|tenant| queue.place(tenant, 0).shard).collect();
    assert_ne!(own[0], own[1]);
    let mut used = [0; 32];
    for tenant in 0..3_000 {
        let shard = queue.place(&format!("tenant-{tenant}"), 0).shard;
        assert!(!own.contains(&shard));
        used[usize::from(shard)] += 1;
    }
    let of_own: Vec<u32> = own.iter().map(|shard| queue.weights()[usize::from(*shard)]).collect();
    assert_eq!((of_own, queue.weights().iter().sum::<u32>()), (vec![5, 2], 7 + 30));
    assert!(used.iter().filter(|count| **count > 60).count() == 30, "the others are spread evenly: {used:?}");
    // With more weights than shards some share one, and have their sum.
    let weights = (0..5).map(|at| (format!("t{at}"), 2)).collect();
    let crowded = ShardedQueue::new("email", 4, &[], &weights, 1, true);
    assert_eq!(crowded.weights().iter().sum::<u32>(), 10);
    assert!(crowded.place("other", 0).shard < 4);
}

#[test]
fn a_priority_has_its_band_and_every_place_a_name_that_is_read_back() {
    let (queue, shards) = (email(), shards());
    for (priority, band) in [(100, 0), (50, 0), (49, 1), (0, 1), (-1, 2), (-100, 2)] {
        assert_eq!(queue.place("acme", priority).band, band, "{priority}");
    }
    let names: Vec<String> = queue.names().collect();
    assert_eq!((names.len(), &*names[0], &*names[1], &*names[33]), (97, "email", "email.ojs-t00", "email.ojs-p1-t00"));
    for name in &names[1..] {
        let (own, place) = shards.shard(name).unwrap();
        assert_eq!(format!("email{}", own.suffix(place).unwrap()), *name);
        assert!(name.len() <= "email".len() + SUFFIX_BYTES_MAX);
    }
    for name in [
        "email",
        "email.ojs-t64",
        "email.ojs-p4-t00",
        "email.ojs-p0-t00",
        "email.ojs-t1",
        "email.ojs-t001",
        "sms.ojs-t00",
        "x.email.ojs-t00",
        ".ojs-t00",
        "email.ojs-t+1",
    ] {
        assert!(shards.shard(name).is_none(), "{name}");
    }
}

#[test]
fn documents_have_the_queue_s_own_name_and_what_clients_wrote_stays() {
    for (document, expected) in [
        (
            r#"{"jobs":[{"queue":"email.ojs-t07","args":["email.ojs-t07"]}]}"#,
            r#"{"jobs":[{"queue":"email","args":["email.ojs-t07"]}]}"#,
        ),
        (r#"{"queue" : "email.ojs-p2-t31" , "id":"a"}"#, r#"{"queue" : "email" , "id":"a"}"#),
        (
            r#"{"meta":{"queue":"email.ojs-t07"},"queue":"email.ojs-t07"}"#,
            r#"{"meta":{"queue":"email.ojs-t07"},"queue":"email"}"#,
        ),
        (r#"{"result":"email.ojs-t07","queue":"email.ojs-t07"}"#, r#"{"result":"email.ojs-t07","queue":"email"}"#),
        (
            r#"{"args":[{"a":[1,{"queue":"email.ojs-t07"}]},"x"],"queue":"email.ojs-t07"}"#,
            r#"{"args":[{"a":[1,{"queue":"email.ojs-t07"}]},"x"],"queue":"email"}"#,
        ),
        (
            r#"{"queues":["email.ojs-t00","default.ojs-t03","sms.ojs-t00"]}"#,
            r#"{"queues":["email","default","sms.ojs-t00"]}"#,
        ),
        (r#"{"by_queue":{"email.ojs-t00":{"n":1}}}"#, r#"{"by_queue":{"email":{"n":1}}}"#),
        (
            r#"{"error":{"message":"queue 'email.ojs-t00' is paused"}}"#,
            r#"{"error":{"message":"queue 'email' is paused"}}"#,
        ),
        (r#"{"subject":"queue:email.ojs-t00"}"#, r#"{"subject":"queue:email"}"#),
        (
            r#"["my.email.ojs-t00","email.ojs-t00x","email.ojs-t99","email.ojs-p7-t00","email.ojs-"]"#,
            r#"["my.email.ojs-t00","email.ojs-t00x","email.ojs-t99","email.ojs-p7-t00","email.ojs-"]"#,
        ),
        (r#"{"a":"\"email.ojs-t00\\","b":"email.ojs-t00ü"}"#, r#"{"a":"\"email\\","b":"emailü"}"#),
        (
            "id: 7\nevent: x's \"odd\ndata: {\"queue\":\"email.ojs-t00\"}\n\n",
            "id: 7\nevent: x's \"odd\ndata: {\"queue\":\"email\"}\n\n",
        ),
    ] {
        assert_eq!(renamed(document), expected);
    }
}

#[test]
fn the_jobs_of_a_fetch_are_counted_by_shard_and_nothing_else_is() {
    let document = Bytes::from_static(
        br#"{"job":{"queue":"email.ojs-t07"},"jobs":[{"queue":"email.ojs-t07","options":{"queue":"email.ojs-t07"}},{"id":"email.ojs-t01","queue":"email.ojs-p1-t02"},{"queue":"default"}]}"#,
    );
    let mut came = Vec::new();
    shards().renamed_with(&document, |queue, place| came.push((queue, place.band, place.shard)));
    assert_eq!(came, [(0, 0, 7), (0, 1, 2)]);
}

fn stamped(body: &str) -> String {
    let envelope = Envelope::read(body.as_bytes(), 64).unwrap();
    let spots = Spots::of(&envelope);
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let additions = Additions { shard: Some((".ojs-t07", &spots)), ..Additions::default() };
    let stamped = stamp(&envelope, Abridged::whole(&bytes), &additions);
    String::from_utf8(stamped.body.into_vec().concat()).unwrap()
}

#[test]
fn a_job_gets_its_shard_wherever_it_names_its_queue_and_else_stays_as_it_is() {
    for (body, expected) in [
        (
            r#"{"type":"t","args":[],"options":{"queue":"email"}}"#,
            r#"{"type":"t","args":[],"options":{"queue":"email.ojs-t07"}}"#,
        ),
        (r#"{"queue": "e\u006dail","x":1E400}"#, r#"{"queue": "e\u006dail.ojs-t07","x":1E400}"#),
        (
            r#"{"queue":"email","options":{"queue":"email"}}"#,
            r#"{"queue":"email.ojs-t07","options":{"queue":"email.ojs-t07"}}"#,
        ),
        (r#"{"queue":"sms","options":{"queue":"email"}}"#, r#"{"queue":"sms","options":{"queue":"email.ojs-t07"}}"#),
        (r#"{"queue":"email","options":{"queue":null}}"#, r#"{"queue":"email.ojs-t07","options":{"queue":null}}"#),
        (r#"{"type":"t"}"#, r#"{"options":{"queue":"default.ojs-t07"},"type":"t"}"#),
        (r#"{"type":"t","options":{}}"#, r#"{"type":"t","options":{"queue":"default.ojs-t07"}}"#),
        (
            r#"{"options":{"tags":[]},"queue":""}"#,
            r#"{"options":{"queue":"default.ojs-t07","tags":[]},"queue":"default.ojs-t07"}"#,
        ),
        (r#"{"options":null,"queue":null}"#, r#"{"options":{"queue":"default.ojs-t07"},"queue":"default.ojs-t07"}"#),
        (r#"{"options":{"queue":""}}"#, r#"{"options":{"queue":"default.ojs-t07"}}"#),
        (r#"{"options":{"queue":5}}"#, r#"{"options":{"queue":5}}"#),
        ("{}", "{}"),
    ] {
        assert_eq!(stamped(body), expected);
    }
}

#[test]
fn the_priority_is_that_of_the_options_else_of_the_job() {
    for (body, priority) in [
        (r#"{"priority":7}"#, 7),
        (r#"{"priority":7,"options":{"priority":-3}}"#, -3),
        (r#"{"priority":7,"options":{"priority":null}}"#, 7),
        (r#"{"priority":60.0}"#, 60),
        (r#"{"priority":6e1}"#, 60),
        (r#"{"priority":"7"}"#, 0),
    ] {
        assert_eq!(Spots::of(&Envelope::read(body.as_bytes(), 64).unwrap()).priority, priority, "{body}");
    }
}

proptest! {
    #[test]
    fn a_document_is_renamed_alike_however_it_is_cut(
        cuts in prop::collection::vec(0_usize..400, 0..6),
        args in "[a-z\"\\\\{}\\[\\]:,.é-]{0,12}",
        long in prop::sample::select(vec![0_usize, 1_500]),
    ) {
        let value = serde_json::json!({
            "jobs": [{"args": [args, "email.ojs-t01"], "queue": "email.ojs-t01", "note": format!("{}email.ojs-t03", "x".repeat(long))}],
            "a": {"b": [{"name": "email.ojs-p1-t30"}, "default.ojs-t00"]},
        });
        let (whole, shards) = (value.to_string().into_bytes(), shards());
        let (mut renamer, mut out, mut from) = (Renamer::default(), Vec::new(), 0);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < whole.len()).chain([whole.len()]).collect();
        cuts.sort_unstable();
        for cut in cuts {
            renamer.push(&shards, &whole[from..cut], &mut out, &mut |_, _| {});
            from = cut;
        }
        renamer.end(&shards, &mut out, &mut |_, _| {});
        let expected = shards.renamed(&Bytes::from(whole)).unwrap();
        prop_assert_eq!(&out, &expected);
        let after: serde_json::Value = serde_json::from_slice(&out).unwrap();
        prop_assert_eq!(&after["jobs"][0]["args"], &value["jobs"][0]["args"]);
        prop_assert_eq!(&after["jobs"][0]["queue"], "email");
        prop_assert_eq!(&after["a"]["b"], &serde_json::json!([{"name": "email"}, "default"]));
    }
}
