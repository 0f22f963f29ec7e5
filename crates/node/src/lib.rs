//! What the processes of one machine share: the clock, and the controllers of its paths.

#![deny(unsafe_code)]

pub mod clock;
pub mod shared;
