use proptest::prelude::*;

use super::*;
use crate::ojs::attributes::PREFIX;
use crate::ojs::due::Due;
use crate::ojs::shards::Spots;
use crate::ojs::{Abridged, segments_len};

const ALL: Additions<'_> = Additions {
    id: Some("I"),
    federation_id: Some("F"),
    source_region: Some("us-east-1"),
    routed_at: Some("T"),
    shard: None,
    due: None,
};
const USUAL: Additions<'_> =
    Additions { id: Some("I"), federation_id: Some("F"), source_region: None, routed_at: None, shard: None, due: None };

fn stamped(body: &str, additions: &Additions<'_>) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let envelope = Envelope::read(&body, 16).unwrap();
    let segments = stamp(&envelope, Abridged::whole(&body), additions).body;
    let joined = segments.concat();
    assert_eq!(segments_len(&segments), joined.len());
    String::from_utf8(joined).unwrap()
}

fn check(additions: &Additions<'_>, body: &str, expected: &str) {
    let expected = expected.replace("@", PREFIX);
    assert_eq!(stamped(&body.replace("@", PREFIX), additions), expected);
}

#[test]
fn what_is_lacking_is_spliced_in_front_and_the_rest_stays_byte_for_byte() {
    check(&USUAL, r#"{}"#, r#"{"id":"I","meta":{"@federation_id":"F"}}"#);
    check(&USUAL, "{ }\n", "{\"id\":\"I\",\"meta\":{\"@federation_id\":\"F\"} }\n");
    check(
        &USUAL,
        "{ \"args\" : [ 1E400,\t123456789012345678901234567890 ] , \"meta\" : { \"a\":1 } } ",
        "{\"id\":\"I\", \"args\" : [ 1E400,\t123456789012345678901234567890 ] , \"meta\" : {\"@federation_id\":\"F\", \"a\":1 } } ",
    );
    check(&USUAL, r#"{"id":null,"meta":null}"#, r#"{"id":"I","meta":{"@federation_id":"F"}}"#);
    check(
        &ALL,
        r#"{"id":7,"meta":{}}"#,
        r#"{"id":7,"meta":{"@federation_id":"F","@source_region":"us-east-1","@routed_at":"T"}}"#,
    );
    check(&Additions::default(), r#"{"id":null}"#, r#"{"id":null}"#);
}

#[test]
fn what_the_client_set_is_kept() {
    check(&USUAL, r#"{"id":"","meta":{"@federation_id":"odd"}}"#, r#"{"id":"","meta":{"@federation_id":"odd"}}"#);
    check(&USUAL, r#"{"id":"x","meta":{"@federation_id":null}}"#, r#"{"id":"x","meta":{"@federation_id":"F"}}"#);
    check(
        &ALL,
        r#"{"id":"x","meta":{"@source_region":null,"@routed_at":5}}"#,
        r#"{"id":"x","meta":{"@federation_id":"F","@source_region":"us-east-1","@routed_at":5}}"#,
    );
}

#[test]
fn keys_go_where_the_region_looks_and_a_pin_goes_with_them() {
    check(
        &USUAL,
        r#"{"id":"x","meta":{"a":1},"options":{"metadata":{"b":2}}}"#,
        r#"{"id":"x","meta":{"a":1},"options":{"metadata":{"@federation_id":"F","b":2}}}"#,
    );
    check(
        &USUAL,
        r#"{"id":"x","options":{"metadata":null},"meta":{"@region":"\u0065u","@region_affinity":"geo-pin"}}"#,
        r#"{"id":"x","options":{"metadata":{"@federation_id":"F","@region":"\u0065u","@region_affinity":"geo-pin"}},"meta":{"@region":"\u0065u","@region_affinity":"geo-pin"}}"#,
    );
    check(
        &USUAL,
        r#"{"id":"x","meta":{"@region":"eu"},"options":{"metadata":{"@region":null}}}"#,
        r#"{"id":"x","meta":{"@region":"eu"},"options":{"metadata":{"@federation_id":"F","@region":"eu"}}}"#,
    );
    check(
        &USUAL,
        r#"{"id":"x","meta":{"@federation_id":"own"},"options":{"metadata":{}}}"#,
        r#"{"id":"x","meta":{"@federation_id":"own"},"options":{"metadata":{"@federation_id":"own"}}}"#,
    );
}

#[test]
fn a_job_whose_uniqueness_covers_meta_gets_an_id_and_nothing_else() {
    check(
        &ALL,
        r#"{"meta":{"@region":"eu"},"options":{"metadata":{},"unique":{"keys":["meta"]}}}"#,
        r#"{"id":"I","meta":{"@region":"eu"},"options":{"metadata":{},"unique":{"keys":["meta"]}}}"#,
    );
}

#[test]
fn a_large_body_is_sent_from_where_it_is_and_a_small_one_in_one_piece() {
    for (length, expected) in [(COPIED_BYTES_MAX - 100, (1, 0)), (COPIED_BYTES_MAX, (5, 3))] {
        let body = Bytes::from(format!(r#"{{"args":["{}"],"meta":{{"a":1}}}}"#, "x".repeat(length)));
        let StampedBody { body: segments, cuts } =
            stamp(&Envelope::read(&body, 16).unwrap(), Abridged::whole(&body), &USUAL);
        assert_eq!(cuts.is_some(), expected.1 == 0, "what shares the client's bytes needs no way back");
        let own = segments.iter().filter(|segment| body.as_ptr_range().contains(&segment.as_ptr()));
        assert_eq!((segments.len(), own.count()), expected);
    }
}

#[test]
fn additions_are_escaped() {
    let additions = Additions { id: Some("a\"\\\n"), ..Additions::default() };
    assert_eq!(stamped("{}", &additions), r#"{"id":"a\"\\\u000a"}"#);
}

fn attribute() -> impl Strategy<Value = Option<String>> {
    let member = |name: &'static str, value: &'static str| Just(Some(format!("\"{PREFIX}{name}\" :{value}")));
    prop_oneof![
        Just(None),
        member("region", "\"eu-west-1\""),
        member("region", "null"),
        member("region_affinity", "\"overflow\""),
        member("federation_id", "\"own\""),
        member("federation_id", "null"),
        member("source_region", "null"),
        member("routed_at", "[1E400]"),
        member("unknown", "{\"a\": 1}"),
        Just(Some("\"plain\":\"\\ud800\"".to_owned())),
    ]
}

fn place() -> impl Strategy<Value = Option<String>> {
    let object = proptest::collection::btree_map(0_u8..9, attribute(), 0..4).prop_map(|members| {
        let mut names = std::collections::BTreeSet::new();
        let name = |member: &str| member.split_once(':').map(|(name, _)| name.trim().to_owned());
        let members: Vec<String> =
            members.into_values().flatten().filter(|member| names.insert(name(member))).collect();
        Some(format!("{{ {} }}", members.join(" ,")))
    });
    prop_oneof![1 => Just(None), 1 => Just(Some("null".to_owned())), 6 => object]
}

fn job() -> impl Strategy<Value = String> {
    let id = prop_oneof![Just(None), Just(Some("null")), Just(Some("\"own\"")), Just(Some("7"))];
    (id, place(), place(), any::<bool>()).prop_map(|(id, meta, metadata, options_first)| {
        let id = id.map(|id| format!("\"id\":{id}"));
        let meta = meta.map(|meta| format!("\"meta\" : {meta}"));
        let options = metadata.map(|metadata| format!("\"options\":{{\"queue\":\"q\",\"metadata\":{metadata}}}"));
        let args = Some("\"args\":[ 1E400, {\"meta\":null} ]".to_owned());
        let members = if options_first { [id, options, args, meta] } else { [meta, args, options, id] };
        format!(" {{{}}}\n", members.into_iter().flatten().collect::<Vec<_>>().join(", "))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn stamping_adds_exactly_what_is_lacking_and_changes_no_other_byte(body in job(), origin in any::<bool>()) {
        let additions = if origin { ALL } else { USUAL };
        let bytes = Bytes::from(body.clone());
        let before = Envelope::read(&bytes, 16).unwrap();
        let segments = splices(&before, &additions).pieces(Abridged::whole(&bytes));
        let after = Bytes::from(segments.concat());
        let StampedBody { body: whole, cuts } = stamp(&before, Abridged::whole(&bytes), &additions);
        prop_assert_eq!((whole.len(), &whole.concat()[..]), (1, &after[..]), "a small body is one piece");

        let around = cuts.map_or_else(|| after.to_vec(), |cuts| cuts.around(&after).concat());
        prop_assert_eq!(&around[..], &bytes[..], "the way back leads to what the client sent");

        // What is shared with the client's bytes, in order, is those bytes but for nulls that were replaced.
        let own: Vec<u8> = segments
            .iter()
            .filter(|segment| bytes.as_ptr_range().contains(&segment.as_ptr()))
            .flat_map(|segment| segment.to_vec())
            .collect();
        let mut rest = bytes.as_ref();
        for byte in &own {
            while rest.first() != Some(byte) && rest.starts_with(b"null") {
                rest = &rest[4..];
            }
            prop_assert_eq!(rest.first(), Some(byte));
            rest = &rest[1..];
        }
        prop_assert!(rest.is_empty() || rest == b"null");

        // Read again, it says the same and what was added.
        let read = Envelope::read(&after, 16).unwrap();
        let mut expected = before.attributes().clone();
        expected.federation_id = expected.federation_id.or(Some("F".into()));
        expected.source_region |= origin;
        expected.routed_at |= origin;
        prop_assert_eq!(read.attributes(), &expected);
        prop_assert_eq!(read.queue(), before.queue());
        let id = if before.lacks_id() { Some("I") } else { before.id() };
        prop_assert_eq!(read.id(), id);

        // A server that lets options.metadata replace meta still sees the pin, and a second stamp has nothing to do.
        let seen = if matches!(read.metadata.slot, Slot::Absent) { &read.meta } else { &read.metadata };
        let kept = read.text_in(seen, Name::Region.as_str()).text;
        if segments.len() > 1 && read.text_in(seen, Name::FederationId.as_str()).text.as_deref() == Some("F") {
            prop_assert_eq!(kept.as_deref(), expected.region.as_deref());
        }
        let again = stamp(&read, Abridged::whole(&after), &additions).body;
        prop_assert_eq!(again.concat(), after.to_vec());
    }
}

const AT: &str = "2030-01-01T00:00:00.000Z";

fn due(body: &str) -> Due {
    Due::of(&Envelope::read(body.as_bytes(), 16).unwrap())
}

/// The job with another time, and all that a stamp may add beside it.
fn delayed(body: &str, is_sharded: bool) -> serde_json::Value {
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let envelope = Envelope::read(&bytes, 16).unwrap();
    let (due, spots) = (Due::of(&envelope), Spots::of(&envelope));
    let shard = is_sharded.then_some((".~t01", &spots));
    let additions = Additions { shard, due: Some((AT, &due)), ..USUAL };
    let stamped = stamp(&envelope, Abridged::whole(&bytes), &additions);
    serde_json::from_slice(&stamped.body.concat()).unwrap_or_else(|error| panic!("{body}: {error}"))
}

#[test]
fn a_time_goes_wherever_servers_look_for_one() {
    for body in [
        r#"{"type":"a","args":[]}"#,
        r#"{"type":"a","options":null}"#,
        r#"{"type":"a","options":{}}"#,
        r#"{"type":"a","options":{"queue":"q"}}"#,
        r#"{"type":"a","scheduled_at":"2020-01-01T00:00:00Z"}"#,
        r#"{"type":"a","scheduled_at":null,"options":{"delay_until":"2020-01-01T00:00:00Z","queue":null}}"#,
        r#"{"options":{"scheduled_at":"x","metadata":{}},"queue":"q","delay_until":7,"type":"a"}"#,
    ] {
        for is_sharded in [false, true] {
            let job = delayed(body, is_sharded);
            let options = &job["options"];
            assert_eq!(job["scheduled_at"], AT, "{job}");
            assert!(options["scheduled_at"] == AT || options["delay_until"] == AT, "{job}");
            let times = [&job["delay_until"], &options["scheduled_at"], &options["delay_until"]];
            assert!(times.iter().all(|time| time.is_null() || **time == AT), "{job}");
            let queue = options["queue"].as_str().or(job["queue"].as_str()).unwrap_or("default");
            assert_eq!((queue.ends_with(".~t01"), &job["id"]), (is_sharded, &serde_json::json!("I")), "{job}");
        }
    }
}

#[test]
fn the_own_time_of_a_job_is_the_earliest_one_and_one_that_cannot_be_read_is_unclear() {
    let of = |body: &str| (due(body).own_ms, due(body).unclear);
    assert_eq!(of(r#"{"type":"a","options":{"scheduled_at":null}}"#), (None, false));
    let both = r#"{"scheduled_at":"1970-01-01T00:00:09Z","options":{"delay_until":"1970-01-01T00:00:05Z"}}"#;
    assert_eq!(of(both), (Some(5_000), false));
    assert_eq!(of(r#"{"scheduled_at":"+PT5S"}"#), (None, true));
    assert_eq!(of(r#"{"Scheduled_At":7,"options":{"delay_until":"1970-01-01T00:00:05Z"}}"#), (Some(5_000), true));
    assert_eq!(of(r#"{"args":[{"scheduled_at":"1970-01-01T00:00:05Z"}]}"#), (None, false));
}
