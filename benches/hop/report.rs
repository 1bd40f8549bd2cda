//! What is told: tables in Markdown, to read and to commit.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::bars::bars;
use super::cases::RATE_ROUNDS;
use super::figures::Sample;
use super::memory::Row;
use super::options::Options;
use super::steady::Steady;

/// Tables, and charts by their names.
pub(crate) struct Report {
    text: String,
    charts: Vec<(String, String)>,
}

impl Report {
    pub(crate) fn new(machine: &str, options: &Options) -> Self {
        let version = |program: &str, flag: &str| {
            let output = Command::new(program).arg(flag).output().ok();
            let text = output.map(|it| [it.stdout, it.stderr].concat()).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().next().unwrap_or("not found").to_owned()
        };
        let mut text = format!("Machine: {machine}.\n");
        let _ = writeln!(
            text,
            "Versions: {}; {}; {}.",
            version("nginx", "-v"),
            version("haproxy", "-v"),
            version("wrk", "-v")
        );
        let _ = writeln!(
            text,
            "Medians of {} rounds of {} s ({} at fixed rates), peers in turn, all of them alive.",
            options.rounds,
            options.time.as_secs(),
            options.rounds * RATE_ROUNDS
        );
        Self { text, charts: Vec::new() }
    }

    fn table(&mut self, title: &str, head: &[String], rows: &[Vec<String>]) {
        let _ = writeln!(self.text, "\n### {title}\n\n| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        for row in rows {
            let _ = writeln!(self.text, "| {} |", row.join(" | "));
        }
    }

    /// Throughput, CPU, tail and memory by peer and number of connections.
    pub(crate) fn connections(&mut self, how: &str, connections: &[usize], rows: &[(String, Vec<Sample>)]) {
        let with_proxy = |figure: fn(&Sample) -> String| {
            move |name: &str, it: &Sample| if name == "direct" { "-".to_owned() } else { figure(it) }
        };
        self.by_connections(&format!("Answers a second, {how}"), connections, rows, |_, it| format!("{:.0}", it.rate));
        self.by_connections(
            &format!("CPU seconds of the proxy for 100 000 answers, {how}"),
            connections,
            rows,
            with_proxy(|it| format!("{:.2}", it.cpu)),
        );
        self.by_connections(&format!("p50, p99 and p99.9 in microseconds, {how}"), connections, rows, |_, it| {
            format!("{:.0} / {:.0} / {:.0}", it.p50, it.p99, it.p999)
        });
        self.by_connections(
            &format!("Resident memory after each load of the first round in MB, {how}"),
            connections,
            rows,
            with_proxy(|it| format!("{:.1}", it.rss)),
        );
        self.ratios(how, connections, rows);
    }

    /// The same as pictures.
    pub(crate) fn charts(&mut self, how: &str, connections: &[usize], rows: &[(String, Vec<Sample>)]) {
        let groups: Vec<String> = connections.iter().map(|it| format!("{it} connections")).collect();
        let mut chart = |name: &str, title: &str, figure: fn(&Sample) -> f64| {
            let of = |(name, samples): &(String, Vec<Sample>)| (name.clone(), samples.iter().map(figure).collect());
            let svg = bars(&format!("{title}, {how}"), &groups, &rows.iter().map(of).collect::<Vec<_>>());
            self.charts.push((format!("{name}-{how}"), svg));
        };
        chart("rate", "Answers a second", |it| it.rate);
        chart("cpu", "CPU seconds of the proxy for 100 000 answers", |it| it.cpu);
        chart("p99", "p99 in microseconds", |it| it.p99);
    }

    fn by_connections(
        &mut self,
        title: &str,
        connections: &[usize],
        rows: &[(String, Vec<Sample>)],
        cell: impl Fn(&str, &Sample) -> String,
    ) {
        let head: Vec<String> =
            std::iter::once("peer".to_owned()).chain(connections.iter().map(|it| format!("c={it}"))).collect();
        let row = |(name, samples): &(String, Vec<Sample>)| {
            std::iter::once(name.clone()).chain(samples.iter().map(|it| cell(name, it))).collect()
        };
        self.table(title, &head, &rows.iter().map(row).collect::<Vec<_>>());
    }

    /// The sidecar against the better of nginx and HAProxy, and against the bare pass-throughs.
    fn ratios(&mut self, how: &str, connections: &[usize], rows: &[(String, Vec<Sample>)]) {
        let of = |name: &str, index: usize| rows.iter().find(|(it, _)| it == name).map(|(_, samples)| samples[index]);
        let mut table = Vec::new();
        for (index, connections) in connections.iter().enumerate() {
            let (Some(ours), Some(nginx), Some(haproxy)) =
                (of("sidecar", index), of("nginx", index), of("haproxy", index))
            else {
                return;
            };
            let against = |name| of(name, index).map_or("-".to_owned(), |it| format!("{:.2}", ours.rate / it.rate));
            table.push(vec![
                format!("c={connections}"),
                format!("{:.2}", ours.rate / nginx.rate.max(haproxy.rate)),
                format!("{:.2}", ours.cpu / nginx.cpu.min(haproxy.cpu)),
                format!("{:.2}", ours.p99 / nginx.p99.min(haproxy.p99)),
                against("bare"),
                against("pooled"),
                against("lua"),
            ]);
        }
        let head = ["", "rate", "CPU", "p99", "rate against bare", "rate against pooled", "rate against Lua"]
            .map(str::to_owned);
        self.table(&format!("The sidecar against the better of nginx and HAProxy, {how}"), &head, &table);
    }

    pub(crate) fn rate(&mut self, rate: usize, is_awake: bool, rows: &[(String, Vec<Steady>)]) {
        let awake = if is_awake { ", cores kept awake" } else { "" };
        let title = format!(
            "Microseconds from when each request was due, {rate} a second, 32 connections{awake}; median of all rounds (lower to upper quartile)"
        );
        self.latencies(&title, "peer", rows);
        let Some((_, direct)) = rows.iter().find(|(name, _)| name == "direct") else { return };
        // Of the same seconds: what the machine does in a round it does to all of them.
        let added = |(name, all): &(String, Vec<Steady>)| {
            (name.clone(), all.iter().zip(direct).map(|(its, direct)| its.added_to(direct)).collect())
        };
        let added: Vec<_> = rows.iter().filter(|(name, _)| name != "direct").map(added).collect();
        let title = format!(
            "Microseconds more than direct in the same round, {rate} a second, 32 connections{awake}; median of all rounds (lower to upper quartile)"
        );
        self.latencies(&title, "peer", &added);
    }

    pub(crate) fn operated(&mut self, rate: usize, every: Duration, rows: &[(String, Vec<Steady>)]) {
        let title = format!(
            "The sidecar's microseconds from when each request was due, {rate} a second, 32 connections, with something done every {} ms",
            every.as_millis()
        );
        self.latencies(&title, "meanwhile", rows);
    }

    fn latencies(&mut self, title: &str, first: &str, rows: &[(String, Vec<Steady>)]) {
        let head = [first, "p50", "p90", "p99", "p99.9"].map(str::to_owned);
        let row = |(name, all): &(String, Vec<Steady>)| {
            let figures: [fn(&Steady) -> f64; 4] = [|it| it.p50, |it| it.p90, |it| it.p99, |it| it.p999];
            std::iter::once(name.clone()).chain(figures.map(|figure| spread(all, figure))).collect()
        };
        self.table(title, &head, &rows.iter().map(row).collect::<Vec<_>>());
    }

    pub(crate) fn bodies(&mut self, sizes: &[usize], rows: &[(String, Vec<Sample>)]) {
        let head: Vec<String> =
            std::iter::once("peer".to_owned()).chain(sizes.iter().map(|it| format!("{it} bytes"))).collect();
        let row = |(name, samples): &(String, Vec<Sample>)| {
            std::iter::once(name.clone())
                .chain(samples.iter().map(|it| format!("{:.0} ({:.1} MB)", it.rate, it.rss)))
                .collect()
        };
        self.table(
            "Answers a second and resident memory with larger jobs, 16 connections, pinned",
            &head,
            &rows.iter().map(row).collect::<Vec<_>>(),
        );
    }

    pub(crate) fn regions(&mut self, rows: &[(usize, Sample)]) {
        let head = ["regions", "answers a second", "CPU s per 100 000", "p99"].map(str::to_owned);
        let row = |(count, it): &(usize, Sample)| {
            vec![count.to_string(), format!("{:.0}", it.rate), format!("{:.2}", it.cpu), format!("{:.0}", it.p99)]
        };
        self.table(
            "The sidecar by number of regions, 64 connections, pinned",
            &head,
            &rows.iter().map(row).collect::<Vec<_>>(),
        );
    }

    pub(crate) fn owners(&mut self, [empty, full]: &[Sample; 2]) {
        let head = ["owner map", "answers a second", "CPU s per 100 000", "p99", "resident MB"].map(str::to_owned);
        let row = |what: &str, it: &Sample| {
            let [rate, cpu] = [format!("{:.0}", it.rate), format!("{:.2}", it.cpu)];
            vec![what.to_owned(), rate, cpu, format!("{:.0}", it.p99), format!("{:.1}", it.rss)]
        };
        self.table(
            "The sidecar by what it remembers, 64 connections, pinned",
            &head,
            &[row("empty at first", empty), row("full", full)],
        );
    }

    pub(crate) fn memory(&mut self, rows: &[Row]) {
        let row = |(what, figure, unit): &Row| vec![what.clone(), format!("{figure:.1} {unit}")];
        self.table(
            "The sidecar's resident memory, and its start; pinned",
            &["when".to_owned(), "figure".to_owned()],
            &rows.iter().map(row).collect::<Vec<_>>(),
        );
    }

    /// Writes what there is so far where it is wanted, so that nothing is lost when a later case fails.
    pub(crate) fn write(&self, options: &Options) {
        if let Some(folder) = options.write.as_deref().map(Path::new) {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join("figures.md"), format!("# The hop, measured\n\n{}", self.text)).unwrap();
            for (name, svg) in &self.charts {
                std::fs::write(folder.join(format!("{name}.svg")), svg).unwrap();
            }
        }
    }

    /// Prints everything, and writes it.
    pub(crate) fn finish(&self, options: &Options) {
        println!("{}", self.text);
        self.write(options);
    }
}

/// The median, and between what the middle half of all is.
fn spread(all: &[Steady], figure: fn(&Steady) -> f64) -> String {
    let mut figures: Vec<f64> = all.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    let at = |quarters: usize| {
        let (place, part) = (quarters * (figures.len() - 1) / 4, quarters * (figures.len() - 1) % 4);
        let next = figures[(place + 1).min(figures.len() - 1)];
        figures[place] + (next - figures[place]) * part as f64 / 4.0
    };
    // Tails are of thousands, of which nobody wants tenths.
    let digits = usize::from(at(2).abs() < 1000.0);
    format!("{:.digits$} ({:.0} to {:.0})", at(2), at(1), at(3))
}
