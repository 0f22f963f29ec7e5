//! What the processes of one machine share. For now, the clock.

#![forbid(unsafe_code)]

pub mod clock;
