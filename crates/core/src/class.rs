//! Request classes: what a request asks of a server decides which rules it meets.
//!
//! ```
//! use afflux_core::class::{Class, Classes};
//!
//! let data: Classes = [Class::Read, Class::Write].into_iter().collect();
//! assert_eq!(data.to_string(), "read, write");
//! assert_eq!("metadata".parse(), Ok(Class::Metadata));
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Brings file data from a server.
    Read,
    /// Takes file data to a server.
    Write,
    /// Names, sizes, attributes and locks.
    Metadata,
}

impl Class {
    /// Every class, in the order of [`Class::index`].
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Metadata];

    /// Its place in [`Class::ALL`], for tables with one entry a class.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in rule files and reports.
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
        let found = Self::ALL.into_iter().find(|class| class.name() == text);
        found.ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

/// A set of classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u8);

impl Classes {
    /// No class at all.
    pub const NONE: Self = Self(0);
    /// Every class.
    pub const ALL: Self = Self((1 << Class::ALL.len()) - 1);

    /// Whether `class` is among them.
    pub const fn contains(self, class: Class) -> bool {
        self.0 >> class.index() & 1 == 1
    }

    /// Adds `class`.
    pub const fn insert(&mut self, class: Class) {
        self.0 |= 1 << class.index();
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The classes that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Its classes, in the order of [`Class::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |&class| self.contains(class))
    }
}

impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Self {
        let mut set = Self::NONE;
        classes.into_iter().for_each(|class| set.insert(class));
        set
    }
}

impl fmt::Display for Classes {
    /// `read, write`, or `all`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        for (position, class) in self.iter().enumerate() {
            write!(f, "{}{class}", if position == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_indices_read_back() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), index);
            assert_eq!(class.to_string().parse(), Ok(class));
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
        }
        assert!("READ".parse::<Class>().unwrap_err().to_string().contains("metadata"));
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        assert_eq!(Class::ALL.into_iter().collect::<Classes>(), Classes::ALL);
        let one: Classes = [Class::Write].into_iter().collect();
        assert!(one.contains(Class::Write) && !one.contains(Class::Read));
        assert_eq!((one.to_string().as_str(), Classes::ALL.to_string().as_str()), ("write", "all"));
        assert!(one.and([Class::Read].into_iter().collect()).is_empty());
    }
}
