//! What came of the cases, and its record in `docs/conformance.md`.

use std::fmt::Write as _;
use std::path::Path;

use ojs_testbed::Dialect;

use super::Broken;
use super::reasons::REASONS;
use super::stage::{Passage, Way};

/// Rewrites the record in place of comparing with it.
const VARIABLE: &str = "CONFORMANCE_UPDATE";

const HEAD: &str = "\
# Conformance

The public conformance cases of levels 0 to 4 and of the federation extension, each run on fresh demo regions:
directly, and through a sidecar in front of three regions, in both dialects of the demo region. `spec` follows the documents of
the specification; `reference` behaves as the servers in Go do, and fails where these do.

A wait that a case names, such as the minute until a cron job fires, moves the clock of the regions and is over at once.

The federation cases ask that metadata survives and that jobs are found again; they do not test where a job goes. `tests/it/`
does that.

The sidecar makes no difference: what passes directly passes through it, and nothing else, also where `scheduling.tenant_queues`
keeps the queues of a case in shards and each enqueued job has a tenant. `tests/conformance/` runs the cases
and fails when this file is not what came of them. To rewrite it: `CONFORMANCE_UPDATE=1 cargo test --test conformance`.
The cases are read from `../shared/conformance` beside the project, or from the folder that `OJS_CONFORMANCE_SUITES` names.
The last section, the federation specification clause by clause, is written by hand; a rewrite keeps it as it stands.
";

/// Where the part of the record begins that is written by hand.
const BY_HAND: &str = "\n## The federation specification, clause by clause\n";

/// What came of one case, by [`Way::ALL`].
pub struct Outcomes {
    name: String,
    outcomes: [Option<Result<(), Broken>>; Way::ALL.len()],
    /// Whether any run left jobs in shards.
    in_shards: bool,
}

/// The dialects in which the cases run.
const DIALECTS: [Dialect; 2] = [Dialect::Spec, Dialect::Reference];

/// What came of all cases.
pub struct Report(pub Vec<Outcomes>);

impl Outcomes {
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), outcomes: [const { None }; Way::ALL.len()], in_shards: false }
    }

    pub fn set(&mut self, way: Way, outcome: Result<(), Broken>, in_shards: bool) {
        let place = Way::ALL.iter().position(|other| *other == way).unwrap();
        self.outcomes[place] = Some(outcome);
        self.in_shards |= in_shards;
    }

    fn outcome(&self, dialect: Dialect, passage: Passage) -> &Result<(), Broken> {
        let place = Way::ALL.iter().position(|way| way.dialect == dialect && way.passage == passage).unwrap();
        self.outcomes[place].as_ref().unwrap()
    }

    fn reason(&self, dialect: Dialect) -> Option<&'static str> {
        let own = REASONS.iter().find(|(name, other, _)| *name == self.name && *other == dialect);
        own.map(|(.., reason)| *reason)
    }
}

impl Report {
    /// How many cases pass directly in the default dialect, of how many.
    pub fn passed_directly(&self) -> (usize, usize) {
        (self.passed(Dialect::Spec, Passage::Direct), self.0.len())
    }

    /// In how many cases jobs were in shards.
    pub fn in_shards(&self) -> usize {
        self.0.iter().filter(|case| case.in_shards).count()
    }

    fn passed(&self, dialect: Dialect, passage: Passage) -> usize {
        self.0.iter().filter(|case| case.outcome(dialect, passage).is_ok()).count()
    }

    /// The cases that do not pass directly, each with what broke.
    pub fn failures(&self) -> Vec<String> {
        let all = self.0.iter().flat_map(|case| DIALECTS.map(|dialect| (case, dialect)));
        let broken = all.filter_map(|(case, dialect)| {
            let broken = case.outcome(dialect, Passage::Direct).as_ref().err()?;
            Some(format!("{} ({}): {broken}", case.name, dialect.as_str()))
        });
        broken.collect()
    }

    /// The cases that pass only on one side of the sidecar, or that break otherwise with shards than without.
    pub fn differences(&self) -> Vec<String> {
        let all = self.0.iter().flat_map(|case| DIALECTS.map(|dialect| (case, dialect)));
        let differ = all.filter_map(|(case, dialect)| {
            let [direct, through, shards] =
                [Passage::Direct, Passage::Sidecar, Passage::Shards].map(|way| case.outcome(dialect, way));
            (direct.is_ok() != through.is_ok() || through != shards).then(|| {
                format!(
                    "{} ({}): direct {direct:?}, through {through:?}, shards {shards:?}",
                    case.name,
                    dialect.as_str()
                )
            })
        });
        differ.collect()
    }

    /// The cases that fail without a reason, and the reasons of cases that pass.
    pub fn unexplained(&self) -> Vec<String> {
        let failing = |case: &Outcomes, dialect| case.outcome(dialect, Passage::Direct).as_ref().err().cloned();
        let all = self.0.iter().flat_map(|case| DIALECTS.map(|dialect| (case, dialect)));
        let silent = all.filter_map(|(case, dialect)| {
            let broken = failing(case, dialect).filter(|_| case.reason(dialect).is_none())?;
            Some(format!("{} ({}) has no reason: {broken}", case.name, dialect.as_str()))
        });
        let stale = REASONS.iter().filter(|(name, dialect, _)| {
            !self.0.iter().any(|case| case.name == *name && failing(case, *dialect).is_some())
        });
        silent.chain(stale.map(|(name, dialect, _)| format!("{name} passes in {dialect:?}"))).collect()
    }

    /// Compares with the record, or rewrites it when asked to.
    pub fn keep(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/conformance.md");
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let text = self.text() + kept.find(BY_HAND).map_or("", |place| &kept[place..]);
        if std::env::var_os(VARIABLE).is_some() {
            std::fs::write(path, text).unwrap();
            return;
        }
        let differing = text.lines().filter(|line| !kept.lines().any(|other| other == *line));
        let shown: Vec<&str> = differing.take(20).collect();
        assert!(
            kept == text,
            "docs/conformance.md is out of date; run: {VARIABLE}=1 cargo test --test conformance\nnew lines:\n{}",
            shown.join("\n")
        );
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        text.push_str("\n| dialect | cases | pass directly | pass through the sidecar |\n|---|---|---|---|\n");
        for dialect in DIALECTS {
            let (direct, through) = (self.passed(dialect, Passage::Direct), self.passed(dialect, Passage::Sidecar));
            writeln!(text, "| `{}` | {} | {direct} | {through} |", dialect.as_str(), self.0.len()).unwrap();
        }
        for dialect in DIALECTS {
            self.write_failures(&mut text, dialect);
        }
        text.push_str("\n## All cases\n\n| case | `spec` direct | through | `reference` direct | through |\n");
        text.push_str("|---|---|---|---|---|\n");
        for case in &self.0 {
            let ways = Way::ALL.iter().filter(|way| way.passage != Passage::Shards);
            let words: Vec<_> = ways
                .map(|way| if case.outcome(way.dialect, way.passage).is_ok() { "pass" } else { "**fail**" })
                .collect();
            writeln!(text, "| {} | {} |", case.name, words.join(" | ")).unwrap();
        }
        text
    }

    fn write_failures(&self, text: &mut String, dialect: Dialect) {
        writeln!(text, "\n## What does not pass in `{}`\n", dialect.as_str()).unwrap();
        let rows =
            self.0.iter().filter_map(|case| Some((case, case.outcome(dialect, Passage::Direct).as_ref().err()?)));
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            text.push_str("Every case passes.\n");
            return;
        }
        text.push_str("| case | what is not as expected | why |\n|---|---|---|\n");
        for (case, broken) in rows {
            let reason = case.reason(dialect).unwrap_or_default();
            writeln!(text, "| {} | {} | {reason} |", case.name, broken.replace('|', "\\|")).unwrap();
        }
    }
}
