//! The operator's routing rules: the first that matches a job narrows where it may go and says how, if the job does not.

use crate::base::Strategy;
use crate::config::{Ledger, Matcher};
use crate::policy::error::RouteError;
use crate::policy::glob::Glob;
use crate::policy::job::Job;
use crate::policy::region_set::RegionSet;

/// A rule, compiled.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Rule {
    job_type: Option<Glob>,
    queue: Option<Glob>,
    tags: Vec<String>,
    meta: Vec<(String, String)>,
    /// Where matching jobs may go; `None` for everywhere.
    pub(in crate::policy) regions: Option<RegionSet>,
    /// How they are routed when they do not say.
    pub(in crate::policy) strategy: Option<Strategy>,
    /// Whether they are described for the ledger of the hub; none where `hub.ledger` says it.
    pub(in crate::policy) ledger: Option<Ledger>,
}

impl Rule {
    pub(in crate::policy) fn new(
        matcher: &Matcher,
        regions: Option<RegionSet>,
        strategy: Option<Strategy>,
        ledger: Option<Ledger>,
    ) -> Self {
        Self {
            job_type: matcher.job_type.as_deref().map(Glob::new),
            queue: matcher.queue.as_deref().map(Glob::new),
            tags: matcher.tags.clone(),
            meta: matcher.meta.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            regions,
            strategy,
            ledger,
        }
    }

    /// Whether it looks at this member of a job's meta.
    pub(in crate::policy) fn reads_meta(&self, key: &str) -> bool {
        self.meta.iter().any(|(name, _)| name == key)
    }

    /// Whether all its conditions hold; the cheap ones are asked first. `strictly`: some rule decides where jobs may go.
    ///
    /// Errors: a condition is on a member that servers could read in another way, and the others that were asked hold.
    pub(in crate::policy) fn matches(&self, job: &Job<'_>, strictly: bool) -> Result<bool, RouteError> {
        let unclear = |is: bool, field: &str| {
            if is && strictly { Err(RouteError::Unclear { field: field.to_owned() }) } else { Ok(()) }
        };
        if let Some(glob) = &self.queue {
            unclear(job.unclear.queue, "queue")?;
            if !glob.matches(job.queue) {
                return Ok(false);
            }
        }
        if let Some(glob) = &self.job_type {
            unclear(job.unclear.job_type, "type")?;
            if !job.job_type.is_some_and(|text| glob.matches(text)) {
                return Ok(false);
            }
        }
        if !self.tags.is_empty() {
            unclear(job.unclear.tags, "tags")?;
            if !self.tags.iter().all(|wanted| job.tags.iter().any(|tag| tag == wanted)) {
                return Ok(false);
            }
        }
        for (key, wanted) in &self.meta {
            let said = (job.meta)(key);
            if said.unclear && strictly {
                return Err(RouteError::Unclear { field: format!("meta.{key}") });
            }
            if said.text.is_none_or(|value| value != *wanted) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    use super::*;
    use crate::policy::testing;

    /// A job `email.send` in queue `mail` with tags `gpu` and `eu` and meta `tenant: acme`.
    fn check(job_type: Option<&str>, queue: Option<&str>, tags: &[&str], meta: &[(&str, &str)], expected: bool) {
        let owned = |text: &str| text.to_owned();
        let matcher = Matcher {
            job_type: job_type.map(owned),
            queue: queue.map(owned),
            tags: tags.iter().copied().map(owned).collect(),
            meta: meta.iter().map(|(key, value)| (owned(key), owned(value))).collect::<BTreeMap<_, _>>(),
        };
        let tags = [Cow::Borrowed("gpu"), Cow::Borrowed("eu")];
        let job = Job {
            job_type: Some("email.send"),
            queue: "mail",
            tags: &tags,
            meta: &|key| (key == "tenant").then_some(Cow::Borrowed("acme")).into(),
            ..testing::plain()
        };
        assert_eq!(Rule::new(&matcher, None, None, None).matches(&job, true), Ok(expected), "{matcher:?}");
    }

    #[test]
    fn a_rule_matches_when_all_its_conditions_hold() {
        check(None, None, &[], &[], true);
        check(Some("email.*"), None, &[], &[], true);
        check(Some("video.*"), None, &[], &[], false);
        check(None, Some("ma?l"), &[], &[], true);
        check(None, Some("default"), &[], &[], false);
        check(None, None, &["eu"], &[], true);
        check(None, None, &["eu", "gpu"], &[], true);
        check(None, None, &["eu", "us"], &[], false);
        check(None, None, &[], &[("tenant", "acme")], true);
        check(None, None, &[], &[("tenant", "other")], false);
        check(None, None, &[], &[("plan", "acme")], false);
        check(Some("*"), Some("*"), &["gpu"], &[("tenant", "acme")], true);
        check(Some("*"), Some("other"), &["gpu"], &[("tenant", "acme")], false);
    }

    #[test]
    fn a_job_without_a_type_fits_no_condition_on_the_type() {
        let matcher = Matcher { job_type: Some("*".to_owned()), ..Matcher::default() };
        assert_eq!(Rule::new(&matcher, None, None, None).matches(&testing::plain(), true), Ok(false));
    }
}
