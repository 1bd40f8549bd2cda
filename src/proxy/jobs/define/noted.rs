//! The notes of a definition: its course, and the first jobs that it defines.

use bytes::Bytes;
use http::Response;

use crate::journal::{CallKind, Note};
use crate::ojs::{Envelope, ErrorDocument, Operation, answer, jobs_within};
use crate::policy::{Origin, View};
use crate::proxy::{
    call::{
        call_notes::{self, CallNotes, Member, NOTED_MAX},
        exchange::Exchange,
    },
    state::{Proxy, Reply},
};

/// The note of one definition.
#[derive(Debug)]
pub(super) struct Defined {
    kind: CallKind,
    /// The name of the cron job, or the id of the workflow, as far as it is known.
    pub(super) name: Option<String>,
    pub(super) course: Box<Note>,
    jobs: usize,
    members: Vec<Member>,
}

impl Defined {
    /// `named` is the name in the path, or empty.
    pub(super) fn begin(proxy: &Proxy, exchange: &Exchange, named: &str, body: &Bytes) -> Self {
        let name = Some(named).filter(|named| !named.is_empty()).map(str::to_owned);
        let (kind, name) = match exchange.matched.operation {
            Operation::CronWrite => (CallKind::Cron, name.or_else(|| answer::text_member(body, "name"))),
            _ => (CallKind::Workflow, name),
        };
        let mut course = call_notes::begin(proxy);
        course.grounds.origin = Origin::Together;
        Self { kind, name, course, jobs: 0, members: Vec::new() }
    }

    /// Takes in one of its jobs, which goes out with this tracking id, or with its own.
    pub(super) fn job(&mut self, view: &View, envelope: &Envelope<'_>, federation_id: Option<&str>) {
        self.jobs += 1;
        if self.members.len() < NOTED_MAX {
            // Its id is a name within the definition.
            self.members.push(Member::of(view, envelope).sent_as(None, federation_id));
        }
    }

    /// Takes in the jobs of a definition that is not sent.
    pub(super) fn read(&mut self, proxy: &Proxy, body: &[u8]) {
        // A body that cannot be read has no jobs.
        let Ok(found) = jobs_within(body, proxy.shared.config.limits.json_depth) else { return };
        let view = proxy.shared.registry.view();
        let jobs = found.envelopes.iter().filter(|envelope| envelope.is_job());
        jobs.for_each(|job| self.job(&view, job, None));
    }

    /// Keeps it, once the call is answered.
    pub(super) fn keep(mut self, proxy: &Proxy, exchange: &Exchange, answer: &Result<Response<Reply>, ErrorDocument>) {
        if self.members.is_empty() {
            self.members.push(Member::default());
        }
        if let Some(first) = self.members.first_mut() {
            first.job_id = self.name;
        }
        let mut notes = CallNotes::new(self.kind);
        notes.jobs = self.jobs;
        // Of a cron job nothing was decided but its region.
        let leader = (self.kind == CallKind::Workflow).then_some(0);
        notes.add(self.course, leader, self.members);
        notes.keep(proxy, exchange, answer);
    }
}
