//! The striped store: files cut over object servers, one regulated path to each.
//!
//! [`engine`] holds the object engines behind one trait, the embedded `lab` among them; [`client`]
//! cuts files over their servers and regulates every path; [`load`] runs workloads on them.

pub mod client;
pub mod engine;
pub mod fileset;
pub mod load;
