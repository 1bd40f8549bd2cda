//! Time and randomness as handles, so that tests steer them instead of waiting for them.
//!
//! The program and the test bed share these: both must run by one steered clock.

mod clock;
mod draw;

pub use clock::{Clock, Sleep, SteeredTime, SystemTime, Time, instant_about};
pub use draw::Draw;
