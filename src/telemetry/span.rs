//! Spans at the seams of a request: the base for exporting traces. Off by default.
//!
//! Seams: `request` (a call from dispatch to response), `decide`, `attempt` (one try at one region), `ask` (a question
//! about an unknown outcome), `probe`, `reload`. All are of level `trace` and target [`TARGET`], so that `log.level` turns them
//! on with `trace` or `info,ojs_span=trace`.
//!
//! While they are off, a span costs one relaxed load and a compare: its values are not computed, and futures do not grow.
//! Invariant: the names of values are [`KEYS`], which a compile-time check holds; none has content of a job.

use std::future::Future;
use std::pin::Pin;

use tracing::{Instrument as _, Span};

/// The target of all spans.
pub(crate) const TARGET: &str = "ojs_span";

/// The values that a span may carry: the request's id, a region's id, the operation's name.
pub(crate) const KEYS: &[&str] = &["request_id", "region", "operation"];

/// A span with values of type `&str`, which are computed only while spans are on.
macro_rules! span {
    ($name:literal $(, $key:ident = $value:expr)*) => {{
        const _: () = { $(assert!($crate::telemetry::span::is_key(stringify!($key)), "not a key of spans");)* };
        tracing::trace_span!(target: $crate::telemetry::span::TARGET, $name $(, $key = { let value: &str = $value; value })*)
    }};
}

/// Awaits a future in a span. While spans are off, the future is awaited as it is.
///
/// The span lies in a box of its own: kept beside the future, it would enlarge each call by 40 bytes.
macro_rules! in_span {
    ($name:literal $(, $key:ident = $value:expr)*; $future:expr) => {
        if $crate::telemetry::span::is_on() {
            let span = $crate::telemetry::span::span!($name $(, $key = $value)*);
            $crate::telemetry::span::boxed(span, Box::pin($future)).await
        } else {
            $future.await
        }
    };
}

pub(crate) use {in_span, span};

/// Whether spans are recorded now.
#[inline]
pub(crate) fn is_on() -> bool {
    tracing::span_enabled!(target: TARGET, tracing::Level::TRACE)
}

/// A boxed future, in a span unless that is disabled.
pub(crate) fn boxed<'f, T: 'f>(
    span: Span,
    future: Pin<Box<dyn Future<Output = T> + 'f>>,
) -> Pin<Box<dyn Future<Output = T> + 'f>> {
    if span.is_disabled() { future } else { Box::pin(future.instrument(span)) }
}

/// Whether spans may carry a value of this name.
pub(crate) const fn is_key(name: &str) -> bool {
    let mut place = 0;
    while place < KEYS.len() {
        if equal(KEYS[place].as_bytes(), name.as_bytes()) {
            return true;
        }
        place += 1;
    }
    false
}

const fn equal(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
        if *first != *other {
            return false;
        }
        (a, b) = (rest, others);
    }
    a.is_empty() && b.is_empty()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id};
    use tracing::subscriber::with_default;
    use tracing_subscriber::layer::{Context, SubscriberExt as _};
    use tracing_subscriber::registry::LookupSpan;
    use tracing_subscriber::{EnvFilter, Layer, registry};

    use super::*;

    /// Writes down each new span with its parent and its values.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<String>>>);

    struct Values<'a>(&'a mut String);

    impl Visit for Values<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }

    impl<S: tracing::Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Recorder {
        fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
            let parent = context.span(id).and_then(|span| span.parent()).map_or("", |parent| parent.name());
            let mut line = format!("{parent}>{}", attributes.metadata().name());
            attributes.record(&mut Values(&mut line));
            self.0.lock().push(line);
        }
    }

    async fn answer(number: u32) -> u32 {
        tokio::task::yield_now().await;
        number
    }

    async fn call() -> u32 {
        span!("decide").in_scope(|| {});
        in_span!("attempt", region = "eu"; answer(7))
    }

    /// The fields recorded for a call under a filter, and whether a value was computed.
    fn recorded(filter: &str) -> (Vec<String>, bool) {
        let (recorder, mut is_computed) = (Recorder::default(), false);
        let filter = EnvFilter::builder().parse(filter).unwrap();
        with_default(registry().with(filter).with(recorder.clone()), || {
            let id = |is_computed: &mut bool| {
                *is_computed = true;
                "r-1"
            };
            let span = span!("request", request_id = id(&mut is_computed), operation = "enqueue");
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            assert_eq!(runtime.block_on(boxed(span, Box::pin(call()))), 7);
        });
        let lines = recorder.0.lock().clone();
        (lines, is_computed)
    }

    #[test]
    fn spans_are_off_until_the_filter_names_them() {
        for filter in ["info", "debug", "info,ojs_federation=trace"] {
            assert_eq!(recorded(filter), (vec![], false), "{filter}");
        }
        let all =
            [r#">request request_id="r-1" operation="enqueue""#, "request>decide", r#"request>attempt region="eu""#];
        for filter in ["trace", "info,ojs_span=trace"] {
            assert_eq!(recorded(filter), (all.map(str::to_owned).to_vec(), true), "{filter}");
        }
    }

    #[test]
    fn a_future_in_a_span_is_hardly_larger() {
        let (plain, spanned) = (size_of_val(&answer(7)), size_of_val(&call()));
        assert!(spanned <= plain + 32, "{spanned} for {plain}");
    }

    #[test]
    fn only_known_keys_are_keys() {
        assert!(is_key("region") && !is_key("regions") && !is_key("args") && !is_key(""));
    }
}
