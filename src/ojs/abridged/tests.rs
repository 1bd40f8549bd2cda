use proptest::prelude::*;

use super::*;
use crate::ojs::attributes::PREFIX;
use crate::ojs::{Additions, Envelope, stamp};

#[test]
fn a_stretch_goes_on_with_a_string_up_to_what_ends_or_breaks_one() {
    let check = |bytes: &[u8], expected: &[u8]| {
        assert_eq!(bytes.get(stretch(bytes)), Some(expected), "{}", bytes.escape_ascii());
    };
    check(b"", b"");
    check(b"plain text, all of it", b"plain text, all of it");
    check(br#"text"],"meta":{}"#, b"text");
    check(br#"a\n\"b\"\u00e9\\"c"#, br#"a\n\"b\"\u00e9\\"#);
    check(b"a\nb", b"a");
    check(br"a\xb", b"a");
    // An escape or a letter that goes on behind these bytes is not part of it.
    check(br"a\", b"a");
    check(br"a\u00e", b"a");
    check(br"a\u00g9", b"a");
    check("aé".as_bytes(), "aé".as_bytes());
    check(&"a😀".as_bytes()[..4], b"a");
    // Nor is the end of one that has begun before.
    check(&"😀a".as_bytes()[1..], b"a");
    check(b"\x80\x80\x80\x80a", b"");
    check(b"a\xffb", b"a");
    // Where there are too many escapes, less is taken, and never a part of one.
    let dense = br"\n".repeat(100);
    let taken = stretch(&dense);
    assert!(taken.start == 0 && taken.end.is_multiple_of(2) && (30..60).contains(&taken.end), "{taken:?}");
}

#[test]
fn an_escape_is_torn_where_it_is_not_whole() {
    for (bytes, expected) in [
        (&b""[..], false),
        (b"plain", false),
        (br"a\", true),
        (br"a\\", false),
        (br"a\\\", true),
        (br"a\n", false),
        (br"\u", true),
        (br"a\u00e", true),
        (br"a\u00e9", false),
        (br"\u00e9\n", false),
    ] {
        assert_eq!(is_torn(bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_document_in_pieces_is_the_same_as_in_others_and_as_no_other() {
    let text = Bytes::from_static(b"[\"~~\",\"~\"]");
    let gap = |at, bytes: &'static str| Gap { at, bytes: Bytes::from_static(bytes.as_bytes()) };
    let gaps = [gap(2, "one"), gap(3, "two")];
    let document = Abridged::new(&text, &gaps);
    let sent = b"[\"onetwo\",\"~\"]";
    assert_eq!((document.pieces().concat(), document.len()), (sent.to_vec(), sent.len()));
    assert_eq!(document.segments().concat(), sent);
    for length in 1..=sent.len() {
        let mut others = Segments::from_iter(sent.chunks(length).map(Bytes::copy_from_slice));
        assert!(document.equals(&others), "in pieces of {length}");
        others.push(Bytes::from_static(b" "));
        assert!(!document.equals(&others), "one byte more");
        others.truncate(others.len() - 2);
        assert!(!document.equals(&others), "a piece less");
        let whole = Bytes::from_static(sent);
        assert!(Abridged::whole(&whole).equals(&document.segments()));
    }
    let mut other = sent.to_vec();
    other[4] ^= 1;
    assert!(!document.equals(&Segments::from_iter([Bytes::from(other)])));
}

/// Keeps apart what it can of these bytes, cut into pieces: whatever a stretch is, and wherever it stands.
fn abridge(sent: &Bytes, cuts: &[usize]) -> (Bytes, Vec<Gap>) {
    let (mut text, mut gaps, mut from) = (Vec::new(), Vec::new(), 0);
    for to in cuts.iter().map(|cut| cut % (sent.len() + 1)).chain([sent.len()]) {
        if to <= from {
            continue;
        }
        let piece = sent.slice(from..to);
        let apart = stretch(&piece);
        text.extend_from_slice(&piece[..apart.start]);
        if !apart.is_empty() {
            gaps.push(Gap { at: text.len(), bytes: piece.slice(apart.clone()) });
            text.push(GAP_MARK);
        }
        text.extend_from_slice(&piece[apart.end..]);
        from = to;
    }
    (text.into(), gaps)
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
        "\"([a-z ~,:0-9\\[{}\\]]|\\\\[nrt\"\\\\/]|\\\\u[0-9a-f]{4}|é|€|😀){0,40}\"",
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::vec(("[a-zé~]{0,12}", inner), 0..3).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn member() -> impl Strategy<Value = String> {
    let of = |name: &'static str| value().prop_map(move |value| format!("\"{name}\":{value}"));
    prop_oneof![
        4 => of("args"),
        4 => of("meta"),
        2 => value().prop_map(|value| format!("\"meta\":{{\"a\":{value},\"b\":1}}")),
        1 => value().prop_map(|value| format!("\"options\":{{\"metadata\":{{\"b\":2,\"a\":{value}}}}}")),
        1 => of("type"),
        1 => of("queue"),
        1 => of("tags"),
        1 => of("id"),
        1 => of("other"),
        1 => Just(format!("\"meta\":{{\"{PREFIX}region\":\"eu-west-1\"}}")),
        1 => Just(format!("\"options\":{{\"queue\":\"q\",\"metadata\":{{\"{PREFIX}region\":\"eu-west-1\"}}}}")),
        1 => Just(format!("\"{PREFIX}region\":\"eu-west-1\"")),
        1 => Just(format!("\"args\":{{\"{PREFIX}region\":\"eu-west-1\"}}")),
    ]
}

/// What a job says, as far as anything here reads it.
fn said(envelope: &Envelope<'_>) -> String {
    let meta = [envelope.meta_text("a"), envelope.meta_text("b")];
    let tags = envelope.tags();
    format!(
        "{:?} {:?} {:?} {tags:?} {meta:?} {:?} {} {} {}",
        envelope.job_type(),
        envelope.queue(),
        envelope.id(),
        envelope.attributes(),
        envelope.lacks_id(),
        envelope.fingerprints_meta(),
        envelope.is_unique(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_read_without_what_is_kept_apart_is_what_all_of_it_says(
        members in proptest::collection::vec(member(), 0..5),
        mut cuts in proptest::collection::vec(0_usize..400, 0..8),
        (broken, byte) in (proptest::option::weighted(0.3, 0_usize..400), any::<u8>()),
    ) {
        let mut sent = format!("{{{}}}", members.join(",")).into_bytes();
        if let Some(at) = broken {
            let length = sent.len();
            sent[at % length] = byte;
        }
        let sent = Bytes::from(sent);
        cuts.iter_mut().for_each(|cut| *cut %= sent.len() + 1);
        cuts.sort_unstable();
        let (text, gaps) = abridge(&sent, &cuts);
        let abridged = Abridged::new(&text, &gaps);
        prop_assert_eq!(abridged.pieces().concat(), &*sent);
        if let Some(read) = Envelope::read_abridged(abridged, 16, |key| key == "a") {
            let whole = Envelope::read(&sent, 16);
            prop_assert!(whole.is_ok(), "{} by {}", sent.escape_ascii(), text.escape_ascii());
            let whole = whole.unwrap();
            prop_assert_eq!(said(&read), said(&whole));
            let additions =
                Additions { id: Some("I"), federation_id: Some("F"), source_region: Some("r"), routed_at: Some("T"), shard: None, due: None };
            for additions in [additions, Additions::default()] {
                let expected = stamp(&whole, Abridged::whole(&sent), &additions).body.concat();
                prop_assert_eq!(stamp(&read, abridged, &additions).body.concat(), expected);
            }
        }
    }
}

#[test]
fn a_text_can_be_kept_apart_where_nothing_reads_it() {
    let check = |before: &str, text: &str, behind: &str, is_read: bool| {
        let sent = Bytes::from([before, text, behind].concat());
        let document = Bytes::from([before, "~", behind].concat());
        let gaps = [Gap { at: before.len(), bytes: sent.slice(before.len()..before.len() + text.len()) }];
        let read = Envelope::read_abridged(Abridged::new(&document, &gaps), 16, |key| key == "tenant");
        assert_eq!(read.is_some(), is_read, "{before}…{behind}");
    };
    check(r#"{"args":[""#, "long", r#""]}"#, true);
    check(r#"{"type":"t","args":[1,{"a":{"b"#, "long", r#"":1}}],"meta":{}}"#, true);
    check(r#"{"args":"a\n"#, "long", r#"b"}"#, true);
    check(r#"{"meta":{"a":""#, "long", r#""}}"#, true);
    check(r#"{"options":{"queue":"q","metadata":{"a":{"b":["c"#, "long", r#""]}}}}"#, true);
    // Here it would be read.
    check(r#"{"type":""#, "long", r#"","args":[]}"#, false);
    check(r#"{"args":[],"queue":""#, "long", r#""}"#, false);
    check(r#"{"meta":{"ojs.federation.federation_id":""#, "long", r#""}}"#, false);
    check(r#"{"meta":{"ojs.federation.weights":{"a"#, "long", r#"":1}}}"#, false);
    check(r#"{"meta":{"ojs.federation.reg"#, "ion", r#"":"a"}}"#, false);
    check(r#"{"meta":{"tenant":""#, "long", r#""}}"#, false);
    check(r#"{"meta":{"ten\u0061nt":{"a":""#, "long", r#""}}}"#, false);
    check(r#"{"options":{"metadata":{"tenant":""#, "long", r#""}}}"#, false);
    check(r#"{"meta":""#, "long", r#""}"#, false);
    check(r#"{"options":{"queue":""#, "long", r#""}}"#, false);
    check(r#"{"options":{"metadat"#, "a", r#"":{}}}"#, false);
    check(r#"{"options":{"unique":{"keys":["args",""#, "meta", r#""]}}}"#, false);
    check(r#"{"tags":["a",""#, "long", r#""]}"#, false);
    check(r#"{"id":""#, "long", r#""}"#, false);
    check(r#"{"args":[],"other":""#, "long", r#""}"#, false);
    check(r#"{"args":[],"arg"#, "long", r#"s":[]}"#, false);
    check(r#"{"a":{"args":[""#, "long", r#""]},"args":[]}"#, false);
    // Here it is in no string.
    check(r#"{"args":["#, "1,2,3", "]}", false);
    check(r#"{"args":[1,"#, "2", ",3]}", false);
    check(r#"{"args":[tr"#, "ue,tr", "ue]}", false);
    // Here it is torn from an escape.
    check(r#"{"args":["\"#, "n", r#""]}"#, false);
    check(r#"{"args":["\u00"#, "e9", r#""]}"#, false);
}
