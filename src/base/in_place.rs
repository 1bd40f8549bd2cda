//! Large values, made where they stay, and rare ones apart from their users.

use std::pin::Pin;

/// A future in a box, of which only the output is known.
pub type Boxed<'f, T> = Pin<Box<dyn Future<Output = T> + 'f>>;

/// Boxes a future in the place that it keeps. `Box::pin` makes it elsewhere first and copies all of the room that it will need later:
/// kilobytes of a call's, of which hardly anything is in use when it begins. Here that place is there before the future, which the
/// compiler then writes into it; a function would have the future before the place.
macro_rules! in_place {
    ($future:expr) => {{
        let place = Box::new_uninit();
        let boxed = Box::write(place, $future);
        let pinned = Box::into_pin(boxed);
        pinned
    }};
}

pub(crate) use in_place;

/// Boxes a future in a function of its own, so that neither its making nor its polls are inlined into the caller: their
/// stack variables would be part of the caller's frame, and scatter the caller's own over more cache lines than the
/// rest of a call touches. This is how the present compiler behaves, without a guarantee: check the frames after an
/// upgrade.
#[inline(never)]
pub fn apart<'f, F: Future + 'f>(make: impl FnOnce() -> F) -> Boxed<'f, F::Output> {
    in_place!(make())
}
