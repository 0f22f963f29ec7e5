//! Programs under the library, as their users run them: what they did must be the same as without
//! it, and what it counted must be what they did.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod built;
mod cephfs;
mod common;
mod coverage;
mod gating;
mod killed;
mod measured;
mod mounts;
mod programs;
mod traps;
mod users;
mod waits;
