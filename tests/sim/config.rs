//! Configurations as an operator would write them, read by the program's own loader.

use std::io::Write;

use ojs_sidecar::config::{Config, Sources, load};

/// What a scenario sets; everything else is the documented default.
#[derive(Debug, Clone)]
pub struct Knobs {
    pub regions: usize,
    pub weights: Vec<u32>,
    pub strategy: &'static str,
    pub max_redirects: usize,
    /// Lines of YAML for `circuit_breaker`.
    pub breaker: &'static str,
}

impl Default for Knobs {
    fn default() -> Self {
        Self { regions: 3, weights: Vec::new(), strategy: "affinity", max_redirects: 3, breaker: "{}" }
    }
}

/// Without what this program adds to a plain breaker: no ramp after a recovery, no hold-down.
pub const NAIVE_BREAKER: &str = "{ slow_start: 0s, hold_down_changes: 0 }";
/// Tokens of the retry budget in the simulation: few, so that it is felt.
pub const BUDGET_RATIO: f64 = 0.1;
pub const BUDGET_FLOOR: f64 = 0.5;
/// A budget holds at most so many tokens.
pub const BUDGET_BURST: f64 = 10.0;

impl Knobs {
    /// The configuration of a sidecar whose region is number `local`.
    pub fn config(&self, local: usize) -> Config {
        let mut yaml = format!("insecure_dev: true\nlocal_region: r{local}\nregions:\n");
        for place in 0..self.regions {
            let weight = self.weights.get(place).copied().unwrap_or(1);
            let port = 7_000 + place;
            yaml += &format!("  - {{ id: r{place}, url: 'http://127.0.0.1:{port}', weight: {weight} }}\n");
        }
        yaml += &format!(
            "routing: {{ strategy: {} }}\ncircuit_breaker: {}\nfailover:\n  max_redirects: {}\n  retry_budget: {{ ratio: {BUDGET_RATIO}, floor: {BUDGET_FLOOR} }}\n",
            self.strategy, self.breaker, self.max_redirects
        );
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(yaml.as_bytes()).unwrap();
        let sources = Sources { files: vec![file.path().to_owned()], ..Sources::default() };
        load(&sources).unwrap().config
    }
}
