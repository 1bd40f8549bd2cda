//! Samples, and what of several of them counts.

/// What one measurement gave.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    /// Answers a second.
    pub(crate) rate: f64,
    /// CPU seconds of the proxy for 100 000 answers.
    pub(crate) cpu: f64,
    /// Latencies. Units: microseconds.
    pub(crate) p50: f64,
    /// The same, of the slowest in a hundred.
    pub(crate) p99: f64,
    /// The same, of the slowest in a thousand.
    pub(crate) p999: f64,
    /// Resident memory of the proxy right after. Units: MB.
    pub(crate) rss: f64,
}

/// The median of every figure.
pub(crate) fn median(samples: &[Sample]) -> Sample {
    let of = |figure: fn(&Sample) -> f64| {
        let mut figures: Vec<f64> = samples.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        if figures.is_empty() { f64::NAN } else { figures[figures.len() / 2] }
    };
    Sample {
        rate: of(|it| it.rate),
        cpu: of(|it| it.cpu),
        p50: of(|it| it.p50),
        p99: of(|it| it.p99),
        p999: of(|it| it.p999),
        rss: of(|it| it.rss),
    }
}
