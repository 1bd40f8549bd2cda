//! The program and the schema file for senders accept the same tasks: `xmllint --schema` judges the same documents.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use ojs_sidecar::uwer::{Flaw, read_xml};

const KEY: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
/// Documents of one call of `xmllint`.
const AT_ONCE: usize = 2_000;

/// A seeded generator, so that a failure can be played again: `UWER_SCHEMA_SEED`.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

fn valid() -> Vec<String> {
    let plain = format!(
        "<UWER_Task xmlns=\"http://uwer.internal/schema/v4\">\n<Metadata>\n<WorkflowId>1b4e28ba-2fa1-4ad2-883f-0016d3cca427</WorkflowId>\n\
         <IdempotencyKey>{KEY}</IdempotencyKey>\n<Priority>HIGH</Priority>\n<OriginService>inventory-sync-service</OriginService>\n</Metadata>\n\
         <ExecutionStrategy>\n<MaxRetries>5</MaxRetries>\n<BackoffMultiplier>1.5</BackoffMultiplier>\n<TimeoutMs>30000</TimeoutMs>\n\
         </ExecutionStrategy>\n<Payload encoding=\"b64\">AAECAwQFBgc=</Payload>\n</UWER_Task>\n"
    );
    let prefixed =
        plain.replace("xmlns=", "xmlns:u=").replace("</", "</u:").replace('<', "<u:").replace("<u:/u:", "</u:");
    let spaced =
        plain.replace("HIGH", " LOW\n").replace("AAECAwQFBgc=", "\n  AAEC AwQF\n  Bgc=\n").replace(">5<", ">\t0 <");
    let declared = format!("\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a -->\n{plain}<!-- b -->");
    let tight = plain.replace('\n', "").replace("1.5", "100.000").replace("AAECAwQFBgc=", "");
    vec![plain, prefixed, spaced, declared, tight]
}

/// Changes a document at one place or two.
fn mutated(document: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = document.as_bytes().to_vec();
    for _ in 0..1 + random.below(2) {
        bytes = once(&bytes, random);
    }
    bytes
}

const PIECES: &[&str] = &[
    "<",
    ">",
    "/",
    "\"",
    "'",
    "=",
    "&",
    ";",
    " ",
    "\n",
    "\t",
    "\r",
    "0",
    "1",
    "9",
    ".",
    "-",
    "+",
    "a",
    "A",
    "Z",
    "g",
    "_",
    ":",
    "&#32;",
    "&#65;",
    "&#x35;",
    "&amp;",
    "&lt;",
    "&b;",
    "<!-- c -->",
    "<![CDATA[]]>",
    "<![CDATA[1]]>",
    "<?p i?>",
    "<!DOCTYPE UWER_Task>",
    "<Extra/>",
    "<Priority>LOW</Priority>",
    " a=\"1\"",
    " xmlns=\"\"",
    " xmlns:v=\"http://uwer.internal/schema/v4\"",
    " encoding=\"b64\"",
    " encoding=\" b64\"",
    " xml:space=\"preserve\"",
    "\u{0}",
    "\u{1}",
    "\u{85}",
    "\u{a0}",
    "\u{2028}",
    "\u{fffe}",
    "é",
    "]]>",
    "--",
    "<?xml version=\"1.0\"?>",
    "==",
    "=",
    "AA==",
    "1e3",
    "00",
    "HIGH",
    "high",
];

fn once(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    if bytes.is_empty() {
        return b"<".to_vec();
    }
    let at = random.below(bytes.len());
    let end = bytes.len().min(at + 1 + random.below(3));
    let (before, behind) = (&bytes[..at], &bytes[at..]);
    match random.below(8) {
        0 => [before, &bytes[end..]].concat(),
        1 => [before, random.one(PIECES).as_bytes(), behind].concat(),
        2 => [before, random.one(PIECES).as_bytes(), &bytes[end..]].concat(),
        3 => {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1 << random.below(8);
            changed
        }
        // An element is dropped, doubled, moved to another place, or gets another text.
        4..=6 => element(bytes, random),
        _ => {
            let from = random.below(bytes.len());
            let to = bytes.len().min(from + random.below(40));
            [before, &bytes[from..to], behind].concat()
        }
    }
}

const ELEMENTS: &[&str] = &[
    "WorkflowId",
    "IdempotencyKey",
    "Priority",
    "OriginService",
    "Metadata",
    "MaxRetries",
    "BackoffMultiplier",
    "TimeoutMs",
    "ExecutionStrategy",
    "Payload",
];

const VALUES: &[&str] = &[
    "0",
    "1",
    "5",
    "999",
    "1000",
    "-1",
    "+1",
    "01",
    "1.0",
    "1.",
    ".5",
    "99.999999",
    "99.9999999",
    "100",
    "100.1",
    "100.0",
    "0.9",
    "99999999",
    "100000000",
    "HIGH",
    "NORMAL",
    "LOW",
    "low",
    "",
    " ",
    "a",
    "a.b_c-d",
    ".a",
    "A",
    "AA==",
    "AB==",
    "AAA=",
    "AAB=",
    "AAAA",
    "A A A A",
    "AAAA====",
    "A===",
    "AA",
    "AAE",
    "AA=A",
    "____",
    "é",
    "1b4e28ba-2fa1-1ad2-883f-0016d3cca427",
    "1B4E28BA-2FA1-4AD2-C83F-0016D3CCA427",
    "1B4E28BA-2FA1-4AD2-A83F-0016D3CCA427",
    KEY,
];

fn element(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let name = random.one(ELEMENTS);
    let Some(start) = text.find(&format!("<{name}")) else { return bytes.to_vec() };
    let close = format!("</{name}>");
    let Some(end) = text[start..].find(&close).map(|it| start + it + close.len()) else { return bytes.to_vec() };
    let (before, whole, behind) = (&text[..start], &text[start..end], &text[end..]);
    match random.below(5) {
        0 => [before, behind].concat(),
        1 => [before, whole, whole, behind].concat(),
        2 => {
            let rest = [before, behind].concat();
            let at = (0..=random.below(rest.len())).rev().find(|it| rest.is_char_boundary(*it)).unwrap_or(0);
            [&rest[..at], whole, &rest[at..]].concat()
        }
        3 => [before, &whole.replace(name, "Other"), behind].concat(),
        _ => {
            let open = whole.find('>').map_or(0, |it| it + 1);
            let value = random.one(VALUES);
            [before, &whole[..open], value, &close, behind].concat()
        }
    }
    .into_bytes()
}

/// Which of the documents the schema accepts.
fn judged(folder: &Path, documents: &[Vec<u8>]) -> Vec<bool> {
    let names: Vec<String> = (0..documents.len()).map(|it| format!("{it}.xml")).collect();
    for (name, document) in names.iter().zip(documents) {
        std::fs::write(folder.join(name), document).unwrap();
    }
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/uwer-v4.xsd");
    let mut command = Command::new("xmllint");
    command.args(["--nonet", "--noout", "--schema"]).arg(schema).args(&names).current_dir(folder);
    let output = String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned();
    let accepted: std::collections::HashSet<&str> =
        output.lines().filter_map(|line| line.strip_suffix(" validates")).collect();
    names.iter().map(|name| accepted.contains(name.as_str())).collect()
}

/// Whether the walk may refuse a document that the schema accepts: for a part that the schema does not see.
fn is_beyond_schema(document: &[u8], flaw: &Flaw) -> bool {
    let has = |part: &str| document.windows(part.len()).any(|it| it == part.as_bytes());
    match flaw.kind.as_str() {
        "encoding" => !document.is_ascii() || has("encoding"),
        "syntax" | "structure" => has("<!") || has("<?") || has("version"),
        _ => false,
    }
}

fn has_xmllint() -> bool {
    if Command::new("xmllint").arg("--version").output().is_ok_and(|it| it.status.success()) {
        return true;
    }
    let _ =
        writeln!(std::io::stderr(), "SKIPPED: apt-get install libxml2-utils compares tasks in XML with their schema");
    false
}

/// `UWER_SCHEMA_MUTATIONS` and `UWER_SCHEMA_SEED` make it longer, and play a run again.
#[test]
fn a_task_is_accepted_by_the_program_and_by_the_schema_or_by_neither() {
    if !has_xmllint() {
        return;
    }
    let number =
        |name: &str, default: u64| std::env::var_os(name).map_or(default, |it| it.to_str().unwrap().parse().unwrap());
    let (seed, count) = (number("UWER_SCHEMA_SEED", 1), number("UWER_SCHEMA_MUTATIONS", 4_000));
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let (mut random, valid) = (Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), valid());
    let (mut left, mut accepted, mut beyond) = (usize::try_from(count).unwrap(), 0, BTreeMap::<String, usize>::new());
    let mut differences = String::new();
    let mut documents: Vec<Vec<u8>> = valid.iter().map(|it| it.clone().into_bytes()).collect();
    while left > 0 {
        while documents.len() < AT_ONCE.min(left) {
            let base = random.below(valid.len());
            documents.push(mutated(&valid[base], &mut random));
        }
        left = left.saturating_sub(documents.len());
        for (document, by_schema) in documents.iter().zip(judged(folder, &documents)) {
            let read = read_xml(document);
            accepted += usize::from(read.is_ok());
            match (read, by_schema) {
                (Ok(_), true) | (Err(_), false) => {}
                (Err(flaw), true) if is_beyond_schema(document, &flaw) => {
                    *beyond.entry(flaw.expected.clone()).or_default() += 1;
                }
                (read, _) => {
                    let document = String::from_utf8_lossy(document);
                    differences.push_str(&format!("{:?}\n{document}\n", read.map(|_| ())));
                }
            }
        }
        documents.clear();
    }
    assert!(differences.is_empty(), "seed {seed}: {}", differences.chars().take(6000).collect::<String>());
    assert!(accepted > usize::try_from(count).unwrap() / 50, "{accepted} of {count} were accepted");
    assert!(beyond.len() > 2, "{beyond:?}");
}
