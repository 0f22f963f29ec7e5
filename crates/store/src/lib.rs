//! The striped store: files cut over object servers, one regulated path to each.
//!
//! [`engine`] holds the object engines behind one trait, the embedded `lab` among them.

pub mod engine;
