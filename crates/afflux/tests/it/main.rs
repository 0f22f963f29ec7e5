//! The commands as their users run them.

mod bench;
mod quickstart;
mod rules;
