//! The commands as their users run them.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod bench;
mod calibrate;
mod ceph;
mod credits;
mod devdisk;
mod external;
mod lab;
mod mount;
mod quickstart;
mod rados;
mod replay;
mod report;
mod rules;
mod search;
mod sim;
mod waiting;
