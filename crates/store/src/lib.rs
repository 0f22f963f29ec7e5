//! The striped store: files cut over object servers, one regulated path to each.
//!
//! [`engine`] holds the object engines behind one trait, the embedded `lab` among them. [`lab`] is
//! the other side of that one: its protocol, its servers, and the processes they run in.
//! [`objects`] and [`catalog`] keep data and names, for the lab's servers and for `dirs` alike.
//! [`client`] cuts files over an engine's servers and regulates every path; [`load`] runs workloads
//! on it, [`replay`] the requests of a trace; [`mount`] makes it a file system. [`disk`] lends a
//! modelled device to storage servers of others.

#![forbid(unsafe_code)]

pub mod catalog;
pub mod client;
mod crc;
pub mod disk;
pub mod engine;
pub mod fileset;
mod held;
pub mod lab;
pub mod load;
pub mod mount;
pub mod objects;
pub mod replay;
pub mod served;
mod sync;
mod trace;
