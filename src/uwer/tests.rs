//! Tests of reading and writing tasks.

use super::*;

const KEY: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn plain() -> String {
    format!(
        r#"<UWER_Task xmlns="http://uwer.internal/schema/v4">
    <Metadata>
        <WorkflowId>1b4e28ba-2fa1-4ad2-883f-0016d3cca427</WorkflowId>
        <IdempotencyKey>{KEY}</IdempotencyKey>
        <Priority>HIGH</Priority>
        <OriginService>inventory-sync-service</OriginService>
    </Metadata>
    <ExecutionStrategy>
        <MaxRetries>5</MaxRetries>
        <BackoffMultiplier>1.50</BackoffMultiplier>
        <TimeoutMs>30000</TimeoutMs>
    </ExecutionStrategy>
    <Payload encoding="b64">
        AAECAwQF
        Bgc=
    </Payload>
</UWER_Task>
"#
    )
}

fn refused(document: &str) -> Flaw {
    read_xml_text(document).expect_err(document)
}

#[test]
fn a_task_is_read_with_its_values_as_they_were_sent() {
    let task = read_xml(plain().as_bytes()).unwrap();
    assert_eq!(task.workflow_id(), "1b4e28ba-2fa1-4ad2-883f-0016d3cca427");
    assert_eq!((task.key(), task.priority(), task.origin()), (KEY, Priority::High, "inventory-sync-service"));
    assert_eq!((task.max_retries(), task.backoff(), task.timeout_ms()), (5, "1.50", 30_000));
    assert_eq!(task.payload(), "AAECAwQFBgc=");
}

#[test]
fn prefixes_declarations_comments_between_elements_and_a_byte_order_mark_change_nothing() {
    let task = read_xml_text(&plain()).unwrap();
    let prefixed =
        plain().replace("xmlns=", "xmlns:u=").replace("</", "</u:").replace('<', "<u:").replace("<u:/u:", "</u:");
    let declared = |declaration: &str| format!("\u{feff}{declaration}\n<!-- of 2019 -->\n{}", plain());
    for same in [
        prefixed,
        declared("<?xml version=\"1.0\"?>"),
        declared("<?xml version='1.0' encoding='utf-8' standalone='yes' ?>"),
        plain().replace("<Priority>", "<!-- class --><Priority>\r\n\t "),
        plain().replace("HIGH", "&#72;IGH"),
    ] {
        assert_eq!(read_xml_text(&same).as_ref(), Ok(&task), "{same}");
    }
}

#[test]
fn a_document_that_two_parsers_may_read_as_two_is_refused_with_field_and_line() {
    let with = |from: &str, to: &str| plain().replacen(from, to, 1);
    for (document, kind, field, line) in [
        (with("HIGH", "HI<!-- -->GH"), FlawKind::Syntax, "Priority", 5),
        (with("HIGH", "<![CDATA[HIGH]]>"), FlawKind::Syntax, "UWER_Task", 5),
        (with("<Priority>", "<![CDATA[]]><Priority>"), FlawKind::Syntax, "UWER_Task", 5),
        (with("<Priority>", "<?php x?><Priority>"), FlawKind::Syntax, "UWER_Task", 5),
        (format!("<!DOCTYPE UWER_Task>{}", plain()), FlawKind::Syntax, "DOCTYPE", 1),
        (format!("<!DOCTYPE UWER_Task []>{}", plain()), FlawKind::Syntax, "DOCTYPE", 1),
        (
            format!("<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]>{}", with("HIGH", "&b;")),
            FlawKind::Syntax,
            "DOCTYPE",
            1,
        ),
        (with("HIGH", "&b;"), FlawKind::Syntax, "UWER_Task", 5),
        (format!("<?xml version='1.0' encoding='ISO-8859-1'?>{}", plain()), FlawKind::Encoding, "encoding", 1),
        (format!("<?xml version='1.1'?>{}", plain()), FlawKind::Syntax, "version", 1),
        (format!("<?xml version='1.0' encoding-='UTF-8'?>{}", plain()), FlawKind::Syntax, "xml", 1),
        (format!("<?xml version='1.0'encoding='UTF-8'?>{}", plain()), FlawKind::Syntax, "xml", 1),
        (format!("<?xml encoding='UTF-8' version='1.0'?>{}", plain()), FlawKind::Syntax, "xml", 1),
        (format!("<?xml version='1.0' standalone='maybe'?>{}", plain()), FlawKind::Syntax, "xml", 1),
        (with("http://uwer.internal/schema/v4", "http://uwer.internal/schema/v5"), FlawKind::Structure, "UWER_Task", 1),
        (with(" xmlns=\"http://uwer.internal/schema/v4\"", ""), FlawKind::Structure, "UWER_Task", 1),
        (with("<Priority>", "<Priority a=\"1\">"), FlawKind::Structure, "Priority/@*", 5),
        (with("<Priority>", "<Priority xml:lang=\"en\">"), FlawKind::Structure, "Priority/@*", 5),
        (with(" encoding=\"b64\"", ""), FlawKind::Structure, "Payload/@encoding", 13),
        (with("\"b64\"", "\"hex\""), FlawKind::Structure, "Payload/@*", 13),
        (with("    <Priority>", "x   <Priority>"), FlawKind::Structure, "Metadata", 4),
        (with("HIGH", "<High/>"), FlawKind::Structure, "Priority", 5),
        (with("<Priority>HIGH</Priority>", "<Class>HIGH</Class>"), FlawKind::Structure, "Priority", 5),
        (
            with("<Priority>HIGH</Priority>", "<Priority>HIGH</Priority><Priority>LOW</Priority>"),
            FlawKind::Structure,
            "OriginService",
            5,
        ),
        (with("<Priority>HIGH</Priority>\n", "\n"), FlawKind::Structure, "Priority", 6),
        (with("</UWER_Task>", "<Payload encoding=\"b64\"/></UWER_Task>"), FlawKind::Structure, "UWER_Task", 17),
        (with("</UWER_Task>", ""), FlawKind::Syntax, "UWER_Task", 18),
        (format!("{}<a/>", plain()), FlawKind::Syntax, "UWER_Task", 18),
        (with("<Priority>", "<:Priority>"), FlawKind::Syntax, "UWER_Task", 5),
        (with("</Priority>", "</:Priority>"), FlawKind::Syntax, "UWER_Task", 5),
        (with(" xmlns=", " :xmlns="), FlawKind::Syntax, "UWER_Task", 1),
        (with(" xmlns=", " xmlns='' xmlns="), FlawKind::Syntax, "UWER_Task", 1),
        (with("HIGH", "URGENT"), FlawKind::Value, "Priority", 5),
        (with("1.50", "0.5"), FlawKind::Value, "BackoffMultiplier", 10),
        (with("1.50", "1e1"), FlawKind::Value, "BackoffMultiplier", 10),
        (with("30000", "030000"), FlawKind::Value, "TimeoutMs", 11),
        (with(">5<", ">-1<"), FlawKind::Value, "MaxRetries", 9),
        (with("Bgc=", "Bgd="), FlawKind::Value, "Payload", 13),
        (with("Bgc=", "Bgc=Bgc="), FlawKind::Value, "Payload", 13),
        (with("Bgc=", "Bgc"), FlawKind::Value, "Payload", 13),
        (with("4ad2", "1ad2"), FlawKind::Value, "WorkflowId", 3),
        (with(&KEY[1..], "0"), FlawKind::KeyMalformed, "IdempotencyKey", 4),
    ] {
        let flaw = refused(&document);
        assert_eq!((flaw.kind, flaw.field.as_str(), flaw.line), (kind, field, line), "{flaw}\n{document}");
    }
    let key = format!("<IdempotencyKey>{KEY}</IdempotencyKey>");
    let flaw = refused(&with(&key, ""));
    assert_eq!((flaw.kind, flaw.field.as_str(), flaw.line), (FlawKind::KeyMissing, "IdempotencyKey", 5));
    let wide: Vec<u8> = plain().encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(matches!(read_xml(&wide).unwrap_err().kind, FlawKind::Encoding | FlawKind::Syntax));
    let flaw = read_xml(b"<UWER_Task>\n\xe9</UWER_Task>").unwrap_err();
    assert_eq!((flaw.kind, flaw.line), (FlawKind::Encoding, 2));
}

#[test]
fn deep_and_wide_documents_are_refused_before_they_are_walked() {
    for document in ["<a>".repeat(100_000), format!("<a>{}</a>", "<b/>".repeat(100_000))] {
        assert_eq!(refused(&document).kind, FlawKind::Structure);
    }
}

#[test]
fn many_attributes_are_refused_before_the_parser_compares_them() {
    let many = |count: usize| (0..count).map(|number| format!(" a{number}='='")).collect::<String>();
    let with = |attributes: &str| format!("<UWER_Task xmlns='x'{attributes}><!-- a='b' <a c=''> -->{}", "</UWER_Task>");
    let flaw = refused(&with(&many(1_000_000)));
    assert_eq!((flaw.kind, flaw.line), (FlawKind::Structure, 1));
    assert!(flaw.expected.contains("at most 64 attributes"), "{flaw}");
    // One less is for the walk to judge; those in quotes and comments are none.
    assert!(refused(&with(&many(63))).expected.contains("namespace"));
    assert!(refused(&with(&many(64))).expected.contains("at most 64 attributes"));
    assert_eq!(known_in_xml(with(&many(1_000_000)).as_bytes()), Known::default());
    for open in ["<", "<a ='", "<!--", "<?", "<![CDATA["] {
        assert!(read_xml_text(&format!("{}{open}", plain())).is_err(), "{open}");
    }
}

#[test]
fn a_flaw_has_no_value_of_the_task() {
    for document in [
        plain().replace("inventory-sync-service", "c4nary c4nary"),
        plain().replace("HIGH", "&c4nary;"),
        plain().replace("Bgc=", "c4nary!"),
        plain().replace("Priority>", "c4nary>"),
        plain().replace("<Priority>", "<Priority c4nary='1'>"),
    ] {
        let flaw = refused(&document);
        assert!(!flaw.to_string().contains("c4nary"), "{flaw}");
    }
}

#[test]
fn xml_json_and_job_are_one_task() {
    let task = read_xml_text(&plain()).unwrap();
    assert_eq!(read_xml_text(&write_xml(&task)), Ok(task.clone()));
    let json = write_json(&task);
    assert_eq!(read_json(json.as_bytes()), Ok(task.clone()), "{json}");
    let shape = JobShape { job_type: "uwer.task", queue: "legacy" };
    let job = job_of(&task, "0193e8f0-7b1a-7c3e-9c57-2f0a3d1b4c5d", &shape);
    assert_eq!(
        job,
        format!(
            r#"{{"id":"0193e8f0-7b1a-7c3e-9c57-2f0a3d1b4c5d","type":"uwer.task","args":["AAECAwQFBgc="],"meta":{{"uwer.workflow_id":"1b4e28ba-2fa1-4ad2-883f-0016d3cca427","uwer.idempotency_key":"{KEY}","uwer.priority":"HIGH","uwer.origin_service":"inventory-sync-service"}},"options":{{"queue":"legacy","priority":10,"timeout_ms":30000,"retry":{{"max_attempts":6,"backoff_coefficient":1.50}}}}}}"#
        )
    );
    assert_eq!(task_of(job.as_bytes()), Ok(task));
}

#[test]
fn a_task_in_json_has_each_member_once_and_no_other() {
    let task = read_xml_text(&plain()).unwrap();
    let json = write_json(&task);
    let with = |from: &str, to: &str| json.replacen(from, to, 1);
    for (document, kind, field) in [
        (with("\"HIGH\"", "\"high\""), FlawKind::Value, "metadata.priority"),
        (with("\"HIGH\"", "\"HIGH\",\"priority\":\"LOW\""), FlawKind::Structure, "body"),
        (with("\"HIGH\"", "\"HIGH\",\"tenant\":1"), FlawKind::Structure, "body"),
        (with("1.50", "15e-1"), FlawKind::Value, "executionStrategy.backoffMultiplier"),
        (with(":5,", ":\"5\","), FlawKind::Value, "executionStrategy.maxRetries"),
        (with("b64", "hex"), FlawKind::Value, "payload.encoding"),
        (with(&format!("\"idempotencyKey\":\"{KEY}\","), ""), FlawKind::KeyMissing, "metadata.idempotencyKey"),
        (with(KEY, "00"), FlawKind::KeyMalformed, "metadata.idempotencyKey"),
        (json[..json.len() - 1].to_owned(), FlawKind::Syntax, "body"),
        (json[1..].to_owned(), FlawKind::Structure, "body"),
        (String::new(), FlawKind::Syntax, "body"),
    ] {
        let flaw = read_json(document.as_bytes()).unwrap_err();
        assert_eq!((flaw.kind, flaw.field.as_str()), (kind, field), "{flaw} {document}");
    }
}

#[test]
fn every_ojs_state_has_its_code() {
    for (state, code) in [
        ("scheduled", Some("0x10")),
        ("available", Some("0x10")),
        ("pending", Some("0x10")),
        ("active", Some("0x20")),
        ("retryable", Some("0x30")),
        ("discarded", Some("0xFF")),
        ("completed", None),
        ("cancelled", None),
    ] {
        assert_eq!(code_of(state, false).map(Code::hex), code, "{state}");
    }
    assert_eq!(code_of("active", true).map(Code::name), Some("ORPHANED_LEASE"));
    assert_eq!(code_of("retryable", true).map(Code::name), Some("RETRY_BACKOFF"));
}

#[test]
fn a_task_that_is_spelt_otherwise_is_the_same_and_one_with_another_value_is_not() {
    let task = read_xml_text(&plain()).unwrap();
    let upper = read_xml_text(&plain().replace(KEY, &KEY.to_uppercase())).unwrap();
    assert_eq!(upper.identity(), task.identity());
    assert_eq!(read_json(write_json(&task).as_bytes()).unwrap().identity(), task.identity());
    for (from, to) in [("1.50", "1.5"), ("HIGH", "LOW"), ("AAEC", "AAED"), (">5<", ">6<"), ("30000", "30001")] {
        assert_ne!(read_xml_text(&plain().replace(from, to)).unwrap().identity(), task.identity(), "{to}");
    }
}

#[test]
fn of_a_document_that_is_no_task_the_readable_names_are_known() {
    let known = known_in_xml(plain().replace("HIGH", "URGENT").as_bytes());
    assert_eq!((known.key.as_deref(), known.origin.as_deref()), (Some(KEY), Some("inventory-sync-service")));
    let known = known_in_xml(plain().replace(KEY, "none").as_bytes());
    assert_eq!((known.key, known.workflow_id.is_some()), (None, true));
    assert_eq!(known_in_xml(&plain().as_bytes()[1..]), Known::default());
    let json = write_json(&read_xml_text(&plain()).unwrap());
    assert_eq!(known_in_json(json.replace("HIGH", "URGENT").as_bytes()).key.as_deref(), Some(KEY));
    assert_eq!(known_in_json(b"[]"), Known::default());
    let doubled = json.replacen("\"originService\"", "\"originService\":\"mail\",\"originService\"", 1);
    assert_eq!(known_in_json(doubled.as_bytes()), Known::default(), "of two services neither");
    for split in ["inventory<!-- -->-sync-service", "<a>inventory</a>-sync-service"] {
        let known = known_in_xml(plain().replace("inventory-sync-service", split).as_bytes());
        assert_eq!((known.origin, known.key.as_deref()), (None, Some(KEY)), "{split}");
    }
}
