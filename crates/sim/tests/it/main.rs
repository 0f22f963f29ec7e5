//! Whole worlds: what comes of them against what must.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a seed is handed in by the environment")]
#![allow(clippy::disallowed_macros, reason = "a failing test prints its scenario")]

mod common;
mod congestion;
mod faults;
mod features;
mod incast;
mod physics;
mod swarm;
