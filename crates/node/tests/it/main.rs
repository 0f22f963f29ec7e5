//! Many processes on one segment: what they may do together, and what is left when some die.

mod board;
mod crowd;
mod death;
mod interface;
mod step_by_step;
mod worker;
