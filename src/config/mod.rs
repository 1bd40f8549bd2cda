//! What an operator decides: read from layers, checked as a whole, then never changed.

mod types;

pub use types::*;
