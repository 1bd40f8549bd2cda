//! The content of a scrape: all counters, or those that alerts and panels need.
//!
//! A fleet of a thousand pods with ten regions each has millions of series where every class of calls has its own. With
//! `metrics.detail: basic`, which is the default, a region has sixty at most; nothing is counted otherwise, so that the detail may change while
//! the program runs.

use prometheus::proto::{Bucket, Counter, Histogram, LabelPair, Metric, MetricFamily, MetricType};

use super::family::{Basic, FAMILIES, Family};

/// The value of a label under which all of its values are added up.
const ALL: &str = "all";
/// The class that keeps a distribution of its own: applications wait for it.
const KEPT_CLASS: &str = "enqueue";
/// Every other class.
const REST: &str = "rest";

/// Reduces gathered families to the basic series.
pub(super) fn basic(families: Vec<MetricFamily>) -> Vec<MetricFamily> {
    families.into_iter().filter_map(reduced).collect()
}

fn reduced(mut gathered: MetricFamily) -> Option<MetricFamily> {
    let Some(family) = of_table(gathered.name()) else { return Some(gathered) };
    match family.basic {
        Basic::Whole => Some(gathered),
        Basic::Absent => None,
        Basic::Added(label) => {
            let kind = gathered.get_field_type();
            let metrics = gathered.take_metric();
            gathered.set_metric(added(metrics, kind, label, |_| ALL, None));
            Some(gathered)
        }
        Basic::ByEnqueues(bounds) => {
            let kind = gathered.get_field_type();
            let metrics = gathered.take_metric();
            let group = |class: &str| if class == KEPT_CLASS { KEPT_CLASS } else { REST };
            gathered.set_metric(added(metrics, kind, "class", group, bounds));
            Some(gathered)
        }
    }
}

fn of_table(full_name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.is_called(full_name))
}

/// Adds up the series whose labels are the same once `label` has the value of its group; only buckets with `bounds` are
/// kept.
fn added(
    metrics: Vec<Metric>,
    kind: MetricType,
    label: &str,
    group: impl Fn(&str) -> &'static str,
    bounds: Option<&[f64]>,
) -> Vec<Metric> {
    let mut sums: Vec<Metric> = Vec::new();
    for mut metric in metrics {
        for pair in metric.mut_label() {
            if pair.name() == label {
                let value = group(pair.value());
                pair.set_value(value.to_owned());
            }
        }
        match sums.iter_mut().find(|sum| same_labels(sum.get_label(), metric.get_label())) {
            Some(sum) => add(sum, &metric, kind),
            None => sums.push(metric),
        }
    }
    if let Some(bounds) = bounds {
        sums.iter_mut().for_each(|sum| keep_buckets(sum, bounds));
    }
    sums
}

fn same_labels(one: &[LabelPair], other: &[LabelPair]) -> bool {
    let pairs = |labels: &[LabelPair]| {
        labels.iter().map(|it| (it.name().to_owned(), it.value().to_owned())).collect::<Vec<_>>()
    };
    pairs(one) == pairs(other)
}

fn add(sum: &mut Metric, metric: &Metric, kind: MetricType) {
    if kind == MetricType::HISTOGRAM {
        let (one, other) = (sum.get_histogram(), metric.get_histogram());
        let mut histogram = Histogram::default();
        histogram.set_sample_count(one.get_sample_count() + other.get_sample_count());
        histogram.set_sample_sum(one.get_sample_sum() + other.get_sample_sum());
        // All series of a family have the same buckets.
        let buckets = one.get_bucket().iter().zip(other.get_bucket());
        histogram.set_bucket(buckets.map(|(one, other)| bucket(one, other.cumulative_count())).collect());
        sum.set_histogram(histogram);
    } else {
        let mut counter = Counter::default();
        counter.set_value(sum.get_counter().get_value() + metric.get_counter().get_value());
        sum.set_counter(counter);
    }
}

fn bucket(one: &Bucket, further: u64) -> Bucket {
    let mut bucket = Bucket::default();
    bucket.set_upper_bound(one.upper_bound());
    bucket.set_cumulative_count(one.cumulative_count() + further);
    bucket
}

fn keep_buckets(sum: &mut Metric, bounds: &[f64]) {
    let all = sum.get_histogram();
    let mut histogram = Histogram::default();
    histogram.set_sample_count(all.get_sample_count());
    histogram.set_sample_sum(all.get_sample_sum());
    let is_kept = |it: &&Bucket| bounds.iter().any(|bound| (bound - it.upper_bound()).abs() < f64::EPSILON);
    histogram.set_bucket(all.get_bucket().iter().filter(is_kept).map(|it| bucket(it, 0)).collect());
    sum.set_histogram(histogram);
}
