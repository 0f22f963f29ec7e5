//! Request classes: what a request asks of a server.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The class of a request. Each (client, server) pair has one path a class, and a rule file may
/// hold different rules for each.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Data flows to the client.
    Read,
    /// Data flows to the server.
    Write,
    /// Names, layouts, sizes, removal.
    Metadata,
}

impl Class {
    /// All classes, in the order of [`Class::index`].
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Metadata];

    /// Position in [`Class::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in rule files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Metadata => "metadata",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a class of requests: write read, write or metadata")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;
    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        let named = Self::ALL.into_iter().find(|class| class.name() == text);
        named.ok_or_else(|| UnknownClass(text.to_owned()))
    }
}
