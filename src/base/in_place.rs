//! Large values, made where they stay, and rare ones apart from whoever needs them.

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

/// Boxes a future apart from whoever waits for it, in whose function neither its making nor its polls are then inlined: what they keep on
/// the stack would be part of that function's frame, and what it needs itself would lie scattered among it, over more of the cache than
/// all else that a call touches. That is what the compiler does with it now, and nothing binds it to that: after another compiler, frames are
/// worth a look.
#[inline(never)]
pub fn apart<'f, F: Future + 'f>(make: impl FnOnce() -> F) -> Boxed<'f, F::Output> {
    in_place!(make())
}
