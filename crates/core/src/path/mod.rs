//! Paths: the regulated way from one client to one server, for one class of requests.
//!
//! [`PathState`] is what a path remembers, [`Controller`] is the mechanism that updates it, and a
//! [`policy`](crate::policy) says what the window and the gap should be. Every driver does the
//! same: ask [`Controller::admit`] before a send, and hand each reply to [`Controller::reply`].

mod controller;
mod decisions;
mod holds;
mod key;
mod state;

pub use controller::{Controller, Options, Reply, Ruling, StampPoint};
pub use decisions::{Call, DecisionError, DecisionLog, LoggedPath, Said};
pub use holds::{Held, HoldLedger, HoldTotals};
pub use key::PathKey;
pub use state::PathState;
