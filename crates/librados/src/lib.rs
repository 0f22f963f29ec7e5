//! Ceph's client library, loaded when it is first used, behind a safe face.
//!
//! Nothing of Ceph is needed to build this crate, nor to run a program that links it: only
//! [`Cluster::connect`] looks for the library, and says so when it is not there. A [`Cluster`] is
//! one client; a [`Pool`] takes requests, and each ends by exactly one call of the closure that
//! came with it, on a thread of the library.
//!
//! Closures must be quick and must not wait for other requests of the same cluster: they run one
//! after another. They may make further requests.

#![deny(unsafe_code)]

mod cluster;
mod functions;
mod keys;
mod pool;
mod request;

pub use cluster::{Account, Cluster, ConnectError, Failed};
pub use functions::{LIBRARY, LoadError};
pub use keys::{Change, Listed, Page};
pub use pool::Pool;
pub use request::Call;
pub use rustix::io::Errno;
