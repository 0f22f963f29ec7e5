//! Many processes on one segment: what they may do together, and what is left when some die.

#![allow(clippy::unwrap_used, reason = "what fails ends the test")]

mod board;
mod crowd;
mod death;
mod interface;
mod step_by_step;
mod users;
mod worker;
