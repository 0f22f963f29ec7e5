//! What can be wrong with an objective that people wrote, where, and what to do about it.

use std::fmt;

use super::function::{self, FUNCTIONS};
use super::names::NAMES;
use super::parse::{DEPTH_MAX, TOKENS_MAX};
use super::presets::PRESETS;

/// So many characters are shown before and after what is meant.
const CONTEXT: usize = 40;

/// An objective that cannot be read.
///
/// Its text has the place, the objective with a mark below what is meant, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectiveError {
    /// What is wrong.
    pub fault: Fault,
    /// Where it begins, in characters from 1.
    pub column: usize,
    /// How many characters are meant, at least 1.
    pub width: usize,
    /// The objective as it was written.
    pub source_text: String,
}

impl fmt::Display for ObjectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All of it is shown in one line, in which a control character would act on the terminal.
        let shown = |c: char| match c {
            '\t' | '\n' | '\r' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        };
        let source: Vec<char> = self.source_text.chars().map(shown).collect();
        // Of a long text the neighbourhood is enough.
        let from = (self.column - 1).saturating_sub(CONTEXT).min(source.len());
        let to = (self.column - 1 + self.width + CONTEXT).min(source.len()).min(from + 3 * CONTEXT);
        let cut = if from > 0 { "..." } else { "" };
        let text: String = source[from..to].iter().collect();
        let indent = " ".repeat(cut.len() + self.column - 1 - from);
        let carets = "^".repeat(self.width.clamp(1, CONTEXT));
        writeln!(f, "column {}: {}", self.column, self.fault)?;
        writeln!(f, "  | {cut}{text}{}", if to < source.len() { "..." } else { "" })?;
        writeln!(f, "  | {indent}{carets}")?;
        write!(f, "  = {}", self.fault.remedy())
    }
}

impl std::error::Error for ObjectiveError {}

/// What is wrong with an objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is nothing but blanks.
    #[error("the objective is empty")]
    Empty,
    /// A character that has no meaning.
    #[error("`{}` has no meaning here", .0.escape_debug())]
    Character(char),
    /// A number that is malformed or not finite.
    #[error("`{0}` is no number that can be used")]
    Number(String),
    /// A word that is no name.
    #[error("nothing is called `{word}`{}", hint(.meant))]
    UnknownName {
        /// What was written, cut when it is long.
        word: String,
        /// What it may have been meant to be.
        meant: Option<&'static str>,
    },
    /// A word in front of a parenthesis that is no function.
    #[error("`{word}` is no function{}", hint(.meant))]
    UnknownFunction {
        /// What was written, cut when it is long.
        word: String,
        /// What it may have been meant to be.
        meant: Option<&'static str>,
    },
    /// A function without its arguments.
    #[error("`{0}` is a function and needs arguments in parentheses")]
    NotCalled(&'static str),
    /// Too few or too many arguments.
    #[error("`{function}` takes {takes} but is given {given}")]
    Arguments {
        /// The function.
        function: &'static str,
        /// How many it takes, in words.
        takes: String,
        /// How many there are.
        given: usize,
    },
    /// A value should stand here.
    #[error("a value is missing here")]
    MissingValue,
    /// Two values, or what comes after the end, without anything between them.
    #[error("something is missing before this")]
    MissingOperator,
    /// An opening parenthesis without its end.
    #[error("this parenthesis is never closed")]
    Unclosed,
    /// A closing parenthesis without its begin.
    #[error("this parenthesis was never opened")]
    Unopened,
    /// A comma that separates no arguments.
    #[error("a comma only separates the arguments of a function")]
    Comma,
    /// A comparison that is not the first part of an `if`.
    #[error("a comparison only stands in the first part of an `if`")]
    Comparison,
    /// An `if` that compares nothing.
    #[error("the first part of an `if` must compare two values")]
    NoComparison,
    /// Too many parentheses, functions and signs within each other.
    #[error("this is nested more than {DEPTH_MAX} deep")]
    TooDeep,
    /// Too many names, numbers and marks.
    #[error("the objective has more than {TOKENS_MAX} parts")]
    TooLong,
}

fn hint(meant: &Option<&'static str>) -> String {
    meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

impl Fault {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        let words = |words: &str| words.to_owned();
        match self {
            Self::Empty => format!("write what is to be large, such as {}", presets()),
            Self::Character('.') => words("write a digit before the point, as in 0.5"),
            Self::Character('=') => words("write == for equal, != for not"),
            Self::Character('^') => words("write pow(x, y) for x to the power of y"),
            Self::Character('%') => words("write a fraction, as in 0.1"),
            Self::Character(_) => words("the marks are + - * / ( ) , < <= > >= == !="),
            Self::Number(_) => words("write decimals such as 2, 0.5 or 1e-3, without a unit"),
            Self::UnknownName { .. } => {
                let names: Vec<_> = NAMES.iter().map(|name| name.name).collect();
                format!("the names are {}; alone, also a preset: {}", names.join(", "), presets())
            }
            Self::UnknownFunction { .. } => {
                let names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
                format!("the functions are {} and if; a product needs its *", names.join(", "))
            }
            Self::NotCalled(function) | Self::Arguments { function, .. } => {
                format!("write {}", function::usage(function))
            }
            Self::MissingValue => words("write a name, a number, a function or ( ... )"),
            Self::MissingOperator => words("write one of + - * / between two values"),
            Self::Unclosed => words("write the ) that is missing, or take this one out"),
            Self::Unopened => words("take it out, or write the ( that is missing"),
            Self::Comma => words("write decimals with a point, as in 0.5, or take the comma out"),
            Self::Comparison | Self::NoComparison => {
                words("write if(cv < 0.1, tp, 0): when it holds this, else that")
            }
            Self::TooDeep | Self::TooLong => words("write something simpler"),
        }
    }
}

fn presets() -> String {
    let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
    names.join(", ")
}
