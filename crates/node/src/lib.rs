//! What the processes of one machine share. For now, the clock.

pub mod clock;
