//! The striped store: files cut over object servers, one regulated path to each.
//!
//! [`engine`] holds the object engines behind one trait, the embedded `lab` among them. [`lab`] is
//! the other side of that one: its protocol, its servers, and the processes they run in. [`objects`]
//! and [`catalog`] keep data and names, for the lab's servers and for `dirs` alike.

pub mod catalog;
pub mod engine;
pub mod lab;
pub mod objects;
mod sync;
