//! The metrics of the ledger, with the names of the orchestrator's document. Spec: source-job-orchestrator §5.

use std::fmt::Write as _;

use super::ledger_figures::{Counts, LATENCY_BOUNDS, LedgerFigures, Subject};
use super::ledger_step::Step;

/// The counters: the name, the help, and the steps that they count.
const COUNTERS: [(&str, &str, &[Step]); 3] = [
    (
        "job_failures_total",
        "Failures of workers that this hub has heard of",
        &[Step::Failed, Step::Retried, Step::DeadLettered],
    ),
    ("job_retry_total", "Those of them after which the region gives the job to a worker again", &[Step::Retried]),
    ("lease_extensions_total", "Extensions of leases, one for each minute of a lease", &[Step::Extended]),
];

/// Writes the metrics.
pub(super) fn write(figures: &LedgerFigures, out: &mut String) {
    let (_, depth) = figures.depth();
    let name = "job_queue_depth";
    // Writing to a String cannot fail.
    let _ = writeln!(out, "# HELP {name} Jobs of the ledger that wait, counted once a minute\n# TYPE {name} gauge");
    for (subject, jobs) in depth {
        let _ = writeln!(out, "{name}{{{}}} {jobs}", labels(&subject));
    }
    let subjects = figures.subjects();
    for (name, help, steps) in COUNTERS {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
        for (subject, counts) in &subjects {
            let count: u64 = steps.iter().map(|step| counts.steps[*step as usize]).sum();
            let _ = writeln!(out, "{name}{{{}}} {count}", labels(subject));
        }
    }
    let name = "job_latency_seconds";
    let help = "From the enqueue to the end of completed jobs";
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
    for (subject, counts) in subjects.iter().filter(|(_, counts)| counts.within.iter().any(|count| *count > 0)) {
        write_latency(name, subject, counts, out);
    }
}

fn write_latency(name: &str, subject: &Subject, counts: &Counts, out: &mut String) {
    let (labels, mut within) = (labels(subject), 0);
    for (bound, count) in LATENCY_BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]).zip(counts.within) {
        within += count;
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {within}");
    }
    let _ = writeln!(out, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {within}", counts.latency_sum);
}

/// Types and tenants are the words of clients: any text.
fn labels(subject: &Subject) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("jobType=\"{}\",tenant=\"{}\"", escaped(&subject.job_type), escaped(&subject.tenant))
}

#[cfg(test)]
mod tests {
    use super::super::ledger_figures::Taken;
    use super::*;

    #[test]
    fn metrics_have_the_names_of_the_document_and_no_text_of_a_client_ends_a_label() {
        let figures = LedgerFigures::default();
        let subject = Subject::new(Some("a\"b"), Some("c\\"));
        let taken = |step, latency_ms| Taken { subject: subject.clone(), step, latency_ms };
        let all = vec![
            taken(Step::Retried, None),
            taken(Step::DeadLettered, None),
            taken(Step::Extended, None),
            taken(Step::Succeeded, Some(2_000)),
        ];
        figures.note(all, 5);
        figures.note_depth(vec![(subject, 9)], 5);
        let mut out = String::new();
        write(&figures, &mut out);
        let labels = "jobType=\"a\\\"b\",tenant=\"c\\\\\"";
        for line in [
            format!("job_queue_depth{{{labels}}} 9"),
            format!("job_failures_total{{{labels}}} 2"),
            format!("job_retry_total{{{labels}}} 1"),
            format!("lease_extensions_total{{{labels}}} 1"),
            format!("job_latency_seconds_bucket{{{labels},le=\"1\"}} 0"),
            format!("job_latency_seconds_bucket{{{labels},le=\"5\"}} 1"),
            format!("job_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 1"),
            format!("job_latency_seconds_sum{{{labels}}} 2"),
            format!("job_latency_seconds_count{{{labels}}} 1"),
        ] {
            assert!(out.lines().any(|it| it == line), "{line} is not in\n{out}");
        }
    }
}
