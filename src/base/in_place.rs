//! Large values, made where they stay.

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
