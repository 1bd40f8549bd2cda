//! One question to one region about a queue with shards: asked of each of its names, with one answer made of all.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;

use super::ask::{NoAnswer, Question, ask, body_of};
use crate::ojs::list::added_up;
use crate::ojs::shards::Naming;
use crate::ojs::{Class, identify};
use crate::policy::RegionIndex;
use crate::proxy::state::{Proxy, RegionAnswer};

/// Names that are asked about at once: a queue has a hundred, and other calls have their turns beside it.
const AT_ONCE: usize = 8;

/// As [`ask`]; a question that names a queue with shards is asked of all its names, and the figures of the answers are added up. A shard that the
/// region does not know adds nothing. Where one name has refused a change, or not answered, that is the answer, and others may have made it.
pub(crate) async fn ask_names(
    proxy: &Proxy,
    class: Class,
    index: RegionIndex,
    question: Question,
) -> Result<RegionAnswer, NoAnswer> {
    let Some(shards) = proxy.shared.shards.as_deref() else { return ask(proxy, class, index, question).await };
    let (path, body): (_, Bytes) = (question.path.clone(), question.body.concat().into());
    let matched = identify(&question.method, path.path());
    let Some(naming) = Naming::of(shards, &matched, path.path(), path.query(), &body) else {
        return ask(proxy, class, index, question).await;
    };
    let one = |suffix: &str| {
        let path = PathAndQuery::try_from(naming.target(suffix)).ok()?;
        let body = naming.body(&body, suffix);
        Some(Question { path, body: body_of(body), ..question.clone() })
    };
    // Nothing is asked where a name makes the target too long: a change would reach some names only.
    let questions: Option<Vec<Question>> = naming.queue().suffixes().map(one).collect();
    let questions = questions.ok_or(NoAnswer::NotSent)?;
    let asked = questions.into_iter().map(|question| async move { ask(proxy, class, index, question).await });
    let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let mut all = Vec::with_capacity(answers.len());
    let mut absent = None;
    for answer in answers {
        match answer? {
            answer if answer.status == StatusCode::NOT_FOUND => drop(absent.get_or_insert(answer)),
            answer if !answer.status.is_success() => return Ok(answer),
            answer => all.push(answer),
        }
    }
    let bodies: Vec<&[u8]> = all.iter().map(|answer| &*answer.body).collect();
    let sum = added_up(&bodies);
    let Some(mut first) = all.into_iter().next().or(absent) else { return Err(NoAnswer::NotSent) };
    if let Some(sum) = sum {
        first.headers.remove(CONTENT_LENGTH);
        first.body = sum.into();
    }
    Ok(first)
}

/// Whether a call names a queue with shards in its path or its query.
pub(crate) fn names_sharded(proxy: &Proxy, matched: &crate::ojs::Matched, uri: &http::Uri) -> bool {
    let shards = proxy.shared.shards.as_deref();
    shards.is_some_and(|shards| Naming::of(shards, matched, uri.path(), uri.query(), &[]).is_some())
}
