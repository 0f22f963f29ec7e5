//! The commands as their users run them.

mod bench;
mod lab;
mod quickstart;
mod rules;
