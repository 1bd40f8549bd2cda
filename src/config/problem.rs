//! Problems of a configuration: the place and the remedy, and never the value.

/// One thing that is wrong with a configuration, or one setting that is not honoured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key as it was written, such as `regions[1].weight`; empty where a whole source is meant.
    pub key: String,
    /// Where it was set: `config.yaml:12`, `variable OJSF_LOG__LEVEL`, `flag --set log.level` or `default`.
    pub origin: String,
    /// The expectation and the remedy. Never holds the given value, which may be a secret.
    pub rule: String,
}

/// All problems of a configuration; printed without the warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The problems to mend; at least one.
    pub problems: Vec<Problem>,
    /// The warnings, which a configuration without problems would have, too.
    pub warnings: Vec<Problem>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.key.is_empty() {
            return write!(f, "{}: {}", self.origin, self.rule);
        }
        write!(f, "{} ({}): {}", self.key, self.origin, self.rule)
    }
}

impl std::fmt::Display for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.problems.len() {
            1 => f.write_str("1 problem in the configuration")?,
            count => write!(f, "{count} problems in the configuration")?,
        }
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Problems {}

/// A name from a file or a variable, made safe for a terminal: bounded, and without control characters.
pub(super) fn shown(name: &str) -> String {
    const CHARS_MAX: usize = 80;
    let mut shown: String = name.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if name.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
