//! How a command ends when it does not end well.

use std::fmt::Display;

/// How a command that ran ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Done; the answer, where there is one, is yes. Exit 0.
    Done,
    /// The answer is no. Exit 1.
    No,
}

/// Why a command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What the user gave is wrong. Exit 1.
    #[error("{0}")]
    Input(String),
    /// Something broke that was not the user's doing. Exit 2.
    #[error("{0}")]
    Broken(String),
    /// The reader of our output went away, as `head` does. Exit 0, in silence.
    #[error("the reader of the output is gone")]
    ReaderGone,
}

impl Failure {
    /// What the user gave is wrong.
    pub(crate) fn input(what: impl Display) -> Self {
        Self::Input(what.to_string())
    }

    /// Something broke.
    pub(crate) fn broken(what: impl Display) -> Self {
        Self::Broken(what.to_string())
    }
}

impl From<std::io::Error> for Failure {
    /// Only writing to the output ends as a bare I/O error; all else says what it was doing.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::ReaderGone;
        }
        Self::Broken(format!("cannot write the output: {error}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::from(std::io::Error::from(error))
    }
}
