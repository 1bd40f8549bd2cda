//! A decision by the view, or by an answer of the hub where the sidecar asks it.
//!
//! Planning does not wait. A plan that lacks an answer leaves its question here; its caller waits for the answer and plans again.

use super::turn::{in_turn, inputs};
use crate::base::Strategy;
use crate::policy::{
    self, DecidedBy, Decision, Demand, Explanation, Grounds, Job, RETRY_HUB, RouteError, RouteQuestion, View,
};
use crate::proxy::state::{Asking, Proxy};
use crate::region::HubWord;

/// Questions of one call: a batch has one for each part that goes its own way. Jobs beyond are decided as if the hub gave no answer.
const QUESTIONS_MAX: usize = 16;

/// The questions of one call, with their answers.
#[derive(Debug, Default)]
pub(crate) struct AskedHub {
    /// By the key of the question.
    answers: Vec<(Vec<u8>, HubWord)>,
    wanted: Option<Box<(Vec<u8>, RouteQuestion)>>,
    /// Whether the call can be sent again under a name that its body does not have.
    is_named: bool,
}

impl AskedHub {
    /// No questions yet. `is_named`: whether the call has a name besides its body, such as an `Idempotency-Key`.
    pub(crate) fn of_call(is_named: bool) -> Self {
        Self { is_named, ..Self::default() }
    }

    /// Whether this is the first time that the call is planned, so that it is counted.
    pub(crate) const fn is_first(&self) -> bool {
        self.answers.is_empty()
    }

    /// Whether the plan that was made lacks an answer, and is no plan.
    pub(crate) const fn is_wanting(&self) -> bool {
        self.wanted.is_some()
    }

    /// Waits for the answer that the plan lacks. Returns whether there was one to wait for: the call is then to be planned again.
    ///
    /// Cancel: nothing is left.
    pub(crate) async fn wait(&mut self, proxy: &Proxy) -> bool {
        let (Some(wanted), Some(asking)) = (self.wanted.take(), &proxy.shared.asking) else { return false };
        let (key, question) = *wanted;
        let word = asking.questions.ask(key.clone(), &question, asking.times).await;
        self.answers.push((key, word));
        true
    }

    /// The answer to a question; none where it has to be waited for.
    fn answer(&self, asking: &Asking, key: &[u8]) -> Option<HubWord> {
        let given = self.answers.iter().find(|(known, _)| known == key).map(|(_, word)| word.clone());
        let given = given.or_else(|| asking.questions.known(key).map(Some));
        given.or_else(|| (self.answers.len() >= QUESTIONS_MAX).then_some(None))
    }
}

/// Decides about one job, by itself or within the demand of its call, and writes down why.
///
/// Errors: those of routing; one of no meaning where `asked` lacks an answer.
#[inline]
pub(crate) fn decided(
    proxy: &Proxy,
    view: &View,
    job: &Job<'_>,
    demand: Option<&Demand>,
    asked: &mut AskedHub,
    grounds: &mut Grounds,
) -> Result<Decision, RouteError> {
    if let Some(asking) = &proxy.shared.asking {
        return by_hub(proxy, (view, job, demand), asking, asked, grounds);
    }
    by_view(proxy, (view, asked.is_named), job, demand, grounds)
}

#[inline]
fn by_view(
    proxy: &Proxy,
    (view, is_named): (&View, bool),
    job: &Job<'_>,
    demand: Option<&Demand>,
    grounds: &mut Grounds,
) -> Result<Decision, RouteError> {
    in_turn(proxy, is_named, |inputs| match demand {
        None => policy::route_on(view, job, inputs, grounds),
        Some(demand) => policy::route_within(view, job, demand, inputs, grounds),
    })
}

#[cold]
fn by_hub(
    proxy: &Proxy,
    (view, job, demand): (&View, &Job<'_>, Option<&Demand>),
    asking: &Asking,
    asked: &mut AskedHub,
    grounds: &mut Grounds,
) -> Result<Decision, RouteError> {
    let Some((key, question)) = question(proxy, view, job, demand) else {
        return by_view(proxy, (view, asked.is_named), job, demand, grounds);
    };
    match asked.answer(asking, &key) {
        Some(Some(answered)) => {
            in_turn(proxy, true, |inputs| policy::route_answered(view, job, demand, inputs, &answered, grounds))
        }
        Some(None) => {
            let decision = by_view(proxy, (&cut(view), true), job, demand, grounds);
            grounds.decided_by = DecidedBy::NoAnswer;
            decision
        }
        None => {
            asked.wanted = Some(Box::new((key, question)));
            Err(RouteError::NoHealthyRegion {
                strategy: Strategy::DEFAULT,
                retry_after: RETRY_HUB,
                regions: Vec::new(),
            })
        }
    }
}

/// As [`decided`] for the dry run, with the reasons of each region, and the picture that decided.
pub(crate) fn explained(proxy: &Proxy, view: &View, job: &Job<'_>, asked: &mut AskedHub) -> (Explanation, DecidedBy) {
    let inputs = || inputs(proxy, proxy.shared.turns.load(std::sync::atomic::Ordering::Relaxed));
    let found = proxy.shared.asking.as_ref().and_then(|asking| Some((asking, question(proxy, view, job, None)?)));
    let Some((asking, (key, question))) = found else {
        return (policy::explain(view, job, inputs()), DecidedBy::View);
    };
    match asked.answer(asking, &key) {
        Some(Some(answered)) => (policy::explain_answered(view, job, inputs(), &answered), DecidedBy::Hub),
        Some(None) => (policy::explain(&cut(view), job, inputs()), DecidedBy::NoAnswer),
        None => {
            asked.wanted = Some(Box::new((key, question)));
            (policy::explain(view, job, inputs()), DecidedBy::View)
        }
    }
}

fn question(proxy: &Proxy, view: &View, job: &Job<'_>, demand: Option<&Demand>) -> Option<(Vec<u8>, RouteQuestion)> {
    let inputs = inputs(proxy, proxy.shared.turns.load(std::sync::atomic::Ordering::Relaxed));
    let mut draw = inputs.draw;
    let question = RouteQuestion::of(view, job, demand, inputs, draw.next())?;
    // Questions without a key would share one answer.
    Some((question.key(), question)).filter(|(key, _)| !key.is_empty())
}

/// The view without the hub: the local region is all that is left.
fn cut(view: &View) -> View {
    let mut cut = view.clone();
    cut.set_cut_off(true);
    // Made from the whole view.
    cut.drill = None;
    cut
}
