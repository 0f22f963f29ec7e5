//! The lab: small storage servers and a metadata server, so that all of Afflux runs on one machine
//! with real bytes, real TCP and real processes. A laboratory, not a production file system.
//!
//! [`wire`] is the protocol, [`server`] one server, [`cluster`] the processes of a lab and the file
//! that describes them. The client is an engine: [`crate::engine::lab`].

pub mod cluster;
pub mod device;
pub mod server;
pub(crate) mod stream;
pub mod wire;
