//! Afflux's decisions, without the doing.
//!
//! Everything here is a plain state machine or a pure function: the simulator, the lab, the preload
//! and the node agent are drivers of the same code. Four invariants hold throughout:
//!
//! 1. Time comes in as an argument ([`units::Time`]); nothing reads a clock, waits, or starts a
//!    thread.
//! 2. Nothing touches a file, a socket, the environment or a terminal.
//! 3. The same inputs give the same bytes on every machine: integers for time and sizes, ordered
//!    maps, `libm` instead of the platform's exp, ln and pow, and a seeded generator
//!    ([`rng::Rng`]).
//! 4. A decision never fails. Only text that people wrote can be wrong, and then the error says
//!    what, where and what to do.

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod class;
pub mod conserve;
pub mod credits;
pub mod device;
pub mod indicator;
pub mod layout;
pub mod limits;
pub mod measure;
pub mod nearest;
pub mod objective;
pub mod parameters;
pub mod path;
pub mod policy;
pub mod rng;
pub mod rules;
pub mod search;
pub mod setting;
pub mod summary;
pub mod target;
pub mod units;
pub mod workload;
