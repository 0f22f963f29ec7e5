//! The commands as their users run them.

mod rules;
