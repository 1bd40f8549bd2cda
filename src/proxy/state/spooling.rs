//! The part of a new job that the outage spool looks at.

use crate::ojs::{Envelope, ErrorDocument};
use crate::spool::{Lane, Spool};

/// A job of a queue that is spooled.
#[derive(Debug)]
pub(crate) struct Spooling {
    pub(crate) lane: Lane,
    /// The tracking id that the client gave itself.
    pub(crate) own_federation_id: Option<String>,
    /// Whether it goes behind others, and to no region now.
    pub(crate) behind: bool,
    /// Whether it cannot be spooled, so that it is refused as ever.
    pub(crate) is_unfit: bool,
    /// Why no region can take it now, where routing says so.
    pub(crate) refusal: Option<ErrorDocument>,
}

impl Spooling {
    /// Whether no region is tried now.
    pub(crate) const fn is_for_later(&self) -> bool {
        self.behind || self.refusal.is_some()
    }

    /// Of a job; `None` where its queue is not spooled.
    pub(crate) fn of(spool: &Spool, envelope: &Envelope<'_>) -> Option<Box<Self>> {
        let (queue, attributes) = (envelope.queue(), envelope.attributes());
        spool.takes(queue).then(|| {
            Box::new(Self {
                lane: Lane { queue: queue.to_owned(), pin: attributes.region.as_deref().map(str::to_owned) },
                own_federation_id: attributes.federation_id.as_deref().map(str::to_owned),
                behind: false,
                is_unfit: false,
                refusal: None,
            })
        })
    }
}
