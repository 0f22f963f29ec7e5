//! Which path a request belongs to.

use serde::{Deserialize, Serialize};

use crate::class::Class;

/// Names one path of a client. Ordered by server first, so that a report lists servers together.
///
/// ```
/// use afflux_core::{class::Class, path::PathKey};
/// let key = PathKey { server: 3, class: Class::Write, tenant: 0 };
/// assert_eq!(key.to_string(), "server 3 write");
/// assert!(key < PathKey { server: 4, ..key });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PathKey {
    /// The server: a storage target with a queue of its own.
    pub server: u32,
    /// What its requests ask.
    pub class: Class,
    /// The tenant or job in whose name they are made; zero when there is one only.
    pub tenant: u32,
}

impl std::fmt::Display for PathKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server {} {}", self.server, self.class)?;
        if self.tenant != 0 {
            write!(f, " of tenant {}", self.tenant)?;
        }
        Ok(())
    }
}
