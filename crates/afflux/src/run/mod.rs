//! Programs under the library: starting them, gathering what they did, and saying it.

pub(crate) mod collect;
pub(crate) mod explain;
pub(crate) mod folder;
pub(crate) mod job;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod record;
pub(crate) mod show;
pub(crate) mod target;
