//! Simulated worlds on the command line: found by name, run one by one or all cores full, shown.

pub(crate) mod crew;
pub(crate) mod published;
pub(crate) mod record;
pub(crate) mod scenarios;
pub(crate) mod sweep;
