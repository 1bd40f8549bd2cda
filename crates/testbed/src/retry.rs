//! How often, and after which wait, a failed job is tried again.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::members::{Invalid, Members};
use ojs_handles::Draw;

/// How the wait grows from one retry to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    Constant,
    Linear,
    Exponential,
    Polynomial,
}

/// A retry policy.
#[derive(Debug, Clone)]
pub(super) struct Retry {
    pub(super) attempts_max: u32,
    pub(super) initial: Duration,
    pub(super) coefficient: f64,
    pub(super) longest: Duration,
    pub(super) growth: Growth,
    pub(super) jitter: bool,
    /// Types of errors after which nothing is tried again; one that ends in `.*` stands for all below it.
    pub(super) fatal: Vec<String>,
    /// Whether a job that has failed for good goes to the dead letters.
    pub(super) keeps_dead: bool,
}

impl Retry {
    /// A policy that doubles its wait up to 5 min, for jobs that bring none.
    pub(super) const fn doubling(attempts_max: u32, initial: Duration, jitter: bool) -> Self {
        Self {
            attempts_max,
            initial,
            coefficient: 2.0,
            longest: Duration::from_secs(300),
            growth: Growth::Exponential,
            jitter,
            fatal: Vec::new(),
            keeps_dead: false,
        }
    }

    /// Reads a job's policy; missing members come from `fallback`.
    ///
    /// Errors: [`Invalid::Policy`] for the first member that a policy cannot have.
    pub(super) fn read(policy: &Members, fallback: &Self) -> Result<Self, Invalid> {
        let attempts_max = member(policy, "max_attempts", "is a whole number from 0")?;
        let coefficient = member(policy, "backoff_coefficient", AT_LEAST_ONE)?.unwrap_or(fallback.coefficient);
        if coefficient < 1.0 {
            return Err(Invalid::Policy("backoff_coefficient", AT_LEAST_ONE));
        }
        let initial = interval(policy, "initial_interval")?.unwrap_or(fallback.initial);
        let longest = interval(policy, "max_interval")?;
        if longest.is_some_and(|longest| longest < initial) {
            return Err(Invalid::Policy("max_interval", "is no shorter than initial_interval"));
        }
        Ok(Self {
            attempts_max: attempts_max.unwrap_or(fallback.attempts_max),
            initial,
            coefficient,
            longest: longest.unwrap_or(fallback.longest),
            growth: growth(policy)?.unwrap_or(fallback.growth),
            jitter: member(policy, "jitter", "is true or false")?.unwrap_or(fallback.jitter),
            fatal: member(policy, "non_retryable_errors", "is an array of error types")?
                .unwrap_or_else(|| fallback.fatal.clone()),
            keeps_dead: keeps_dead(policy)?.unwrap_or(fallback.keeps_dead),
        })
    }

    /// The wait after an attempt has failed; the first attempt is 1.
    pub(super) fn delay(&self, attempt: u32, draw: &mut Draw) -> Duration {
        let retry = f64::from(attempt.max(1));
        let factor = match self.growth {
            Growth::Constant => 1.0,
            Growth::Linear => retry,
            Growth::Exponential => libm::pow(self.coefficient, retry - 1.0),
            Growth::Polynomial => libm::pow(retry, self.coefficient),
        };
        let capped = self.capped(self.initial.as_secs_f64() * factor);
        // The cap holds again after the jitter, which may add half.
        if self.jitter { self.capped(capped.as_secs_f64() * (0.5 + draw.unit())) } else { capped }
    }

    fn capped(&self, seconds: f64) -> Duration {
        Duration::try_from_secs_f64(seconds).map_or(self.longest, |wait| wait.min(self.longest))
    }

    /// Whether an error of this type ends the job, however many attempts are left.
    pub(super) fn is_fatal(&self, kind: &str) -> bool {
        self.fatal.iter().any(|entry| match entry.strip_suffix('*').filter(|prefix| prefix.ends_with('.')) {
            Some(prefix) => kind.starts_with(prefix),
            None => kind == entry,
        })
    }
}

const AT_LEAST_ONE: &str = "is a number from 1.0";

fn member<T: DeserializeOwned>(policy: &Members, name: &'static str, rule: &'static str) -> Result<Option<T>, Invalid> {
    policy.read(name, rule).map_err(|_| Invalid::Policy(name, rule))
}

fn interval(policy: &Members, name: &'static str) -> Result<Option<Duration>, Invalid> {
    let rule = "is a duration above zero such as PT1S";
    let signed: Option<jiff::SignedDuration> = member(policy, name, rule)?;
    let Some(signed) = signed else { return Ok(None) };
    let interval = Duration::try_from(signed).ok().filter(|interval| !interval.is_zero());
    interval.map(Some).ok_or(Invalid::Policy(name, rule))
}

fn growth(policy: &Members) -> Result<Option<Growth>, Invalid> {
    let (name, rule) = ("backoff_strategy", "is none, constant, linear, exponential or polynomial");
    let text: Option<String> = member(policy, name, rule)?;
    let Some(text) = text else { return Ok(None) };
    Ok(Some(match text.as_str() {
        "none" | "constant" => Growth::Constant,
        "linear" => Growth::Linear,
        "exponential" => Growth::Exponential,
        "polynomial" => Growth::Polynomial,
        _ => return Err(Invalid::Policy(name, rule)),
    }))
}

fn keeps_dead(policy: &Members) -> Result<Option<bool>, Invalid> {
    let (name, rule) = ("on_exhaustion", "is discard or dead_letter");
    let text: Option<String> = member(policy, name, rule)?;
    match text.as_deref() {
        None => Ok(None),
        Some("discard") => Ok(Some(false)),
        Some("dead_letter") => Ok(Some(true)),
        Some(_) => Err(Invalid::Policy(name, rule)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(policy: &str) -> Result<Retry, Invalid> {
        let members = Members::parse(policy.as_bytes())?;
        Retry::read(&members, &Retry::doubling(3, Duration::from_secs(1), true))
    }

    fn check_delays(policy: &str, seconds: &[f64]) {
        let (retry, mut draw) = (read(policy).unwrap(), Draw::from_seed(1));
        let delays: Vec<_> = (1..).zip(seconds).map(|(attempt, _)| retry.delay(attempt, &mut draw)).collect();
        let expected: Vec<_> = seconds.iter().copied().map(Duration::from_secs_f64).collect();
        assert_eq!(delays, expected, "{policy}");
    }

    #[test]
    fn each_form_of_back_off_grows_by_its_formula_up_to_the_longest() {
        check_delays(r#"{"jitter":false}"#, &[1.0, 2.0, 4.0, 8.0]);
        check_delays(r#"{"jitter":false,"backoff_strategy":"none","initial_interval":"PT5S"}"#, &[5.0, 5.0, 5.0]);
        check_delays(r#"{"jitter":false,"backoff_strategy":"linear","initial_interval":"PT5S"}"#, &[5.0, 10.0, 15.0]);
        check_delays(
            r#"{"jitter":false,"backoff_strategy":"polynomial","backoff_coefficient":4}"#,
            &[1.0, 16.0, 81.0, 256.0, 300.0],
        );
        check_delays(r#"{"jitter":false,"backoff_coefficient":10,"max_interval":"PT2S"}"#, &[1.0, 2.0, 2.0]);
        check_delays(r#"{"jitter":false,"initial_interval":"PT0.5S","backoff_coefficient":1.0}"#, &[0.5, 0.5]);
    }

    #[test]
    fn jitter_spreads_the_wait_by_half_and_stays_under_the_longest() {
        let retry = read(r#"{"initial_interval":"PT10S","max_interval":"PT12S"}"#).unwrap();
        let mut draw = Draw::from_seed(7);
        let waits: Vec<_> = (0..200).map(|_| retry.delay(1, &mut draw).as_secs_f64()).collect();
        assert!(waits.iter().all(|wait| (5.0..=12.0).contains(wait)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait < 6.0) && waits.iter().any(|wait| *wait > 11.9), "{waits:?}");
    }

    #[test]
    fn a_policy_that_cannot_be_is_refused_by_the_name_of_its_member() {
        for (policy, name) in [
            (r#"{"max_attempts":-1}"#, "max_attempts"),
            (r#"{"max_attempts":1.5}"#, "max_attempts"),
            (r#"{"backoff_coefficient":0.5}"#, "backoff_coefficient"),
            (r#"{"initial_interval":"soon"}"#, "initial_interval"),
            (r#"{"initial_interval":"PT0S"}"#, "initial_interval"),
            (r#"{"initial_interval":"-PT1S"}"#, "initial_interval"),
            (r#"{"initial_interval":"PT9S","max_interval":"PT8S"}"#, "max_interval"),
            (r#"{"backoff_strategy":"fibonacci"}"#, "backoff_strategy"),
            (r#"{"jitter":"yes"}"#, "jitter"),
            (r#"{"non_retryable_errors":"all"}"#, "non_retryable_errors"),
            (r#"{"on_exhaustion":"explode"}"#, "on_exhaustion"),
        ] {
            let refused = read(policy).unwrap_err();
            assert!(matches!(refused, Invalid::Policy(member, _) if member == name), "{policy}: {refused:?}");
        }
    }

    #[test]
    fn fatal_types_match_whole_or_by_the_part_before_the_star() {
        let retry = read(r#"{"non_retryable_errors":["validation.payload_invalid","auth.*","odd*"]}"#).unwrap();
        for (kind, fatal) in [
            ("validation.payload_invalid", true),
            ("validation.schema_error", false),
            ("auth.token_expired", true),
            ("auth", false),
            ("external.auth.failure", false),
            ("oddity", false),
            ("odd*", true),
        ] {
            assert_eq!(retry.is_fatal(kind), fatal, "{kind}");
        }
    }
}
