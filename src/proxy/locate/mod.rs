//! Where a job, a cron job or a workflow lives.
//!
//! | looked for | use |
//! |---|---|
//! | the region of a job, from memory or by a search | [`find::locate`] |
//! | the same, by a search in any case | [`find::search`] |
//! | the region of a cron job or a workflow, by its name | [`place`] |
//!
//! [`search`] is one search: it asks the regions and judges their answers. [`indexed`] has the regions to ask first by the index of
//! the hub. [`called_off`] recognises a cancelled copy, which is no evidence of where its job lives.

pub(crate) mod called_off;
pub(crate) mod find;
mod indexed;
pub(crate) mod place;
pub(crate) mod search;

pub(crate) use indexed::HUB_WAIT;
