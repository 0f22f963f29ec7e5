//! What the processes of one machine share: the clock, and the controllers of its paths.

#![deny(unsafe_code)]

pub mod calls;
pub mod clock;
pub mod lost;
pub mod placement;
pub mod shared;
pub mod signals;
pub mod tally;
