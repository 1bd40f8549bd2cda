//! The queues, job types and tenants that operators have paused.

use std::collections::HashSet;

use super::TENANT_KEY;
use crate::base::SwitchSubject;
use crate::policy::job::Job;

/// The pauses in force; made only where there are any, so that a job pays for one look at an option. Names are exact.
#[derive(Debug, Default)]
pub struct Pauses {
    queues: HashSet<String>,
    types: HashSet<String>,
    tenants: HashSet<String>,
}

/// Why a new job is not accepted while something is paused.
#[derive(Debug, PartialEq, Eq)]
pub enum Paused {
    /// Its type or its tenant is paused.
    By(SwitchSubject),
    /// It cannot be told whether it is of a paused type or tenant.
    Unclear {
        /// The member of the job that servers could read in another way.
        field: String,
    },
}

impl Pauses {
    /// Those among the subjects of all switches; `None` where there are none.
    #[must_use]
    pub fn of<'s>(subjects: impl Iterator<Item = &'s SwitchSubject>) -> Option<Self> {
        let mut all = Self::default();
        for subject in subjects {
            match subject {
                SwitchSubject::Queue(name) => drop(all.queues.insert(name.clone())),
                SwitchSubject::Type(name) => drop(all.types.insert(name.clone())),
                SwitchSubject::Tenant(name) => drop(all.tenants.insert(name.clone())),
                SwitchSubject::Sidecar | SwitchSubject::Region(_) => {}
            }
        }
        (!all.queues.is_empty() || all.has_sources()).then_some(all)
    }

    /// Whether a type or a tenant is paused.
    #[must_use]
    pub fn has_sources(&self) -> bool {
        !self.types.is_empty() || !self.tenants.is_empty()
    }

    /// Whether any queue is paused.
    #[must_use]
    pub fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Whether workers get no job of this queue.
    #[must_use]
    pub fn has_queue(&self, name: &str) -> bool {
        self.queues.contains(name)
    }

    /// Whether a new job may be accepted.
    ///
    /// Errors: [`Paused`]. A member that servers could read in another way may hide a paused name, so such a job is refused, too.
    pub fn check(&self, job: &Job<'_>) -> Result<(), Paused> {
        if !self.types.is_empty() {
            if job.unclear.job_type {
                return Err(Paused::Unclear { field: "type".to_owned() });
            }
            if let Some(name) = job.job_type.filter(|name| self.types.contains(*name)) {
                return Err(Paused::By(SwitchSubject::Type(name.to_owned())));
            }
        }
        if !self.tenants.is_empty() {
            let said = (job.meta)(TENANT_KEY);
            if said.unclear {
                return Err(Paused::Unclear { field: format!("meta.{TENANT_KEY}") });
            }
            let mut named = [said.text.as_deref(), job.tenant].into_iter().flatten();
            if let Some(name) = named.find(|name| self.tenants.contains(*name)) {
                return Err(Paused::By(SwitchSubject::Tenant(name.to_owned())));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::ojs::{MetaText, Unclear};
    use crate::policy::testing;

    fn pauses(all: &[SwitchSubject]) -> Pauses {
        Pauses::of(all.iter()).unwrap()
    }

    #[test]
    fn nothing_is_made_where_nothing_is_paused() {
        assert!(Pauses::of([SwitchSubject::Sidecar].iter()).is_none());
        let queue = pauses(&[SwitchSubject::Queue("mail".to_owned())]);
        assert!(queue.has_queue("mail") && !queue.has_queue("Mail") && !queue.has_sources());
        let job = Job { queue: "mail", job_type: Some("mail"), ..testing::plain() };
        assert_eq!(queue.check(&job), Ok(()), "jobs are put into a paused queue");
    }

    #[test]
    fn a_job_of_a_paused_type_or_tenant_is_refused_and_one_that_may_be_of_it_too() {
        let mail = SwitchSubject::Type("mail".to_owned());
        let types = pauses(std::slice::from_ref(&mail));
        assert_eq!(types.check(&Job { job_type: Some("mail"), ..testing::plain() }), Err(Paused::By(mail)));
        assert_eq!(types.check(&Job { job_type: Some("mail.send"), ..testing::plain() }), Ok(()));
        let unclear = Unclear { job_type: true, ..Unclear::default() };
        let refused = types.check(&Job { unclear, ..testing::plain() });
        assert!(matches!(refused, Err(Paused::Unclear { .. })), "{refused:?}");
        let acme = SwitchSubject::Tenant("acme".to_owned());
        let tenants = pauses(std::slice::from_ref(&acme));
        let check = |own: &'static str, head: Option<&'static str>| {
            tenants.check(&Job { meta: &|_| Some(Cow::Borrowed(own)).into(), tenant: head, ..testing::plain() })
        };
        assert_eq!(check("acme", None), Err(Paused::By(acme.clone())));
        assert_eq!(check("other", Some("acme")), Err(Paused::By(acme)));
        assert_eq!(check("other", None), Ok(()));
        let twice = |_: &str| MetaText { text: None, unclear: true };
        let refused = tenants.check(&Job { meta: &twice, ..testing::plain() });
        assert!(matches!(refused, Err(Paused::Unclear { .. })), "{refused:?}");
        assert_eq!(types.check(&Job { meta: &twice, ..testing::plain() }), Ok(()), "only what is paused is looked at");
    }
}
