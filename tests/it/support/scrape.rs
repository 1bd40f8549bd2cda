//! One answer of `/metrics`, taken apart.

use std::collections::{BTreeMap, BTreeSet};

use super::Client;

/// Every series with its value.
#[derive(Debug, Clone)]
pub struct Scrape {
    pub text: String,
    series: BTreeMap<String, f64>,
}

impl Scrape {
    pub async fn of(admin: &Client) -> Self {
        let answer = admin.get("/metrics").await;
        assert_eq!(answer.status, 200);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a sample: {line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("not a number: {line}")))
        });
        let series = samples.collect();
        Self { text, series }
    }

    /// The value of one of our series, named without the prefix and with its labels in alphabetical order.
    pub fn value(&self, series: &str) -> f64 {
        self.value_of(&format!("ojs_federation_{series}"))
    }

    /// The value of a series by its whole name.
    pub fn value_of(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no series {series}"))
    }

    /// The names of all series, ours and the process's.
    pub fn names(&self) -> BTreeSet<&str> {
        self.series.keys().map(String::as_str).collect()
    }

    /// What rose or fell since an earlier scrape, among these families: series without the prefix, and by how much.
    pub fn changes(&self, since: &Self, families: &[&str]) -> BTreeMap<String, f64> {
        let changed = self.series.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("ojs_federation_")?;
            let family = name.split('{').next()?;
            let by = value - since.value(name);
            (families.contains(&family) && by != 0.0).then(|| (name.to_owned(), by))
        });
        changed.collect()
    }
}
