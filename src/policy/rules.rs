//! The operator's routing rules: the first that matches a job narrows where it may go and says how, if the job does not.

use super::glob::Glob;
use super::job::Job;
use super::region_set::RegionSet;
use crate::base::Strategy;
use crate::config::Matcher;

/// A rule, compiled.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    job_type: Option<Glob>,
    queue: Option<Glob>,
    tags: Vec<String>,
    meta: Vec<(String, String)>,
    /// Where matching jobs may go; `None` for everywhere.
    pub(super) regions: Option<RegionSet>,
    /// How they are routed when they do not say.
    pub(super) strategy: Option<Strategy>,
}

impl Rule {
    pub(super) fn new(matcher: &Matcher, regions: Option<RegionSet>, strategy: Option<Strategy>) -> Self {
        Self {
            job_type: matcher.job_type.as_deref().map(Glob::new),
            queue: matcher.queue.as_deref().map(Glob::new),
            tags: matcher.tags.clone(),
            meta: matcher.meta.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            regions,
            strategy,
        }
    }

    /// Whether it looks at this member of a job's meta.
    pub(super) fn reads_meta(&self, key: &str) -> bool {
        self.meta.iter().any(|(name, _)| name == key)
    }

    /// Whether all its conditions hold; the cheap ones are asked first.
    pub(super) fn matches(&self, job: &Job<'_>) -> bool {
        self.queue.as_ref().is_none_or(|glob| glob.matches(job.queue))
            && self.job_type.as_ref().is_none_or(|glob| job.job_type.is_some_and(|text| glob.matches(text)))
            && self.tags.iter().all(|wanted| job.tags.iter().any(|tag| tag == wanted))
            && self.meta.iter().all(|(key, wanted)| (job.meta)(key).is_some_and(|value| value == *wanted))
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
            meta: &|key| (key == "tenant").then_some(Cow::Borrowed("acme")),
            ..testing::plain()
        };
        assert_eq!(Rule::new(&matcher, None, None).matches(&job), expected, "{matcher:?}");
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
        assert!(!Rule::new(&matcher, None, None).matches(&testing::plain()));
    }
}
