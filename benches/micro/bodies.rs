//! Jobs of a wanted size.

/// A job as clients send it, with one long text.
pub(crate) fn job(bytes: usize) -> Vec<u8> {
    let around = r#"{"type":"email.send","args":["someone@example.com","welcome",{"locale":"en"}],"options":{"queue":"default","priority":0},"meta":{"tenant":"t-1","note":""}}"#;
    let text = "x".repeat(bytes.saturating_sub(around.len()));
    around.replace(r#""note":"""#, &format!(r#""note":"{text}""#)).into_bytes()
}

/// A job whose arguments are many short members.
pub(crate) fn job_of_tokens(bytes: usize) -> Vec<u8> {
    const MEMBER: &str = r#"{"sku":"a-1","count":2,"price":19.5,"gift":false},"#;
    let members = MEMBER.repeat(bytes / MEMBER.len());
    format!(r#"{{"type":"order.place","args":[{}],"meta":{{"tenant":"t-1"}}}}"#, members.trim_end_matches(','))
        .into_bytes()
}
