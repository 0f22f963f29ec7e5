//! Scenarios that cannot be used.

/// Why a scenario cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// It is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// A key or a value is not one of the schema's.
    #[error("line {line}, column {column}: {what}")]
    Schema {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong, and what could stand there.
        what: String,
    },
    /// An override cannot be used.
    #[error("`{text}`: {what}")]
    Override {
        /// What was written.
        text: String,
        /// What is wrong, and what could stand there.
        what: String,
    },
    /// Its values contradict each other.
    #[error("scenario `{scenario}`, {place}: {what}; {remedy}")]
    Impossible {
        /// Name of the scenario.
        scenario: String,
        /// Which table and key.
        place: String,
        /// What is wrong.
        what: String,
        /// What to write instead.
        remedy: String,
    },
}
