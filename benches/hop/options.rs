//! The command line of the bench.

use std::str::FromStr;
use std::time::Duration;

use super::peers::PROGRAM;

/// What is to be run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// How often each peer's turn comes.
    pub(crate) rounds: usize,
    /// How long one measurement is.
    pub(crate) time: Duration,
    /// Which groups of measurements.
    pub(crate) cases: Vec<String>,
    /// Which peers.
    pub(crate) peers: Vec<String>,
    /// Connections of the load.
    pub(crate) connections: Vec<usize>,
    /// How much of the machine others may have used before a measurement is thrown away, in percent of one core.
    pub(crate) foreign_max: f64,
    /// How much slower the machine may be before or after a measurement than at its best, in percent, before that is thrown away.
    pub(crate) slower_max: f64,
    /// The folder for tables and charts, beside standard output.
    pub(crate) write: Option<String>,
}

const HELP: &str = "make bench-hop ARGS='--cases pinned,unpinned,http2,rates,awake,operated,bodies,regions,owners,memory --peers direct,nginx,haproxy,lua,bare,pooled,sidecar,logged \
--connections 1,16,64,256 --rounds 3 --seconds 5 --foreign 10 --slower 10 --write FOLDER --program ANOTHER-BUILD-OF-THE-SIDECAR' (which `released` among the peers is beside)";

impl Options {
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Self {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut options = Self {
            rounds: 3,
            time: Duration::from_secs(5),
            cases: list("pinned,unpinned,http2,rates,awake,operated,bodies,regions,owners,memory"),
            peers: list("direct,nginx,haproxy,lua,bare,pooled,sidecar,logged"),
            connections: vec![1, 16, 64, 256],
            foreign_max: 10.0,
            slower_max: 10.0,
            write: None,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value; {HELP}"));
            match word.as_str() {
                "--rounds" => options.rounds = number(&word, &value()),
                "--seconds" => options.time = Duration::from_secs(number(&word, &value())),
                "--cases" => options.cases = list(&value()),
                "--peers" => options.peers = list(&value()),
                "--connections" => {
                    options.connections = list(&value()).iter().map(|it| number(&word, it)).collect();
                }
                "--foreign" => options.foreign_max = number(&word, &value()),
                "--slower" => options.slower_max = number(&word, &value()),
                "--write" => options.write = Some(value()),
                "--program" => {
                    let _ = PROGRAM.set(value());
                }
                _ => panic!("{word} is unknown; {HELP}"),
            }
        }
        assert!(options.rounds > 0 && !options.time.is_zero(), "at least one round of one second; {HELP}");
        options
    }

    pub(crate) fn wants(&self, case: &str) -> bool {
        self.cases.iter().any(|it| it == case)
    }
}

fn number<N: FromStr>(word: &str, value: &str) -> N {
    value.parse().unwrap_or_else(|_| panic!("{word} needs a whole number instead of {value:?}; {HELP}"))
}
