//! Objectives: what is to be large, as an expression over the numbers of a measurement.
//!
//! Source: ASCAR, section III-E: a score from throughput and its deviation judges a rule set. All
//! of that section's forms can be written here, and latency besides.
//!
//! ```
//! use afflux_core::objective::Objective;
//! use afflux_core::summary::Summary;
//!
//! let steady: Objective = "tp - 1.0 * var - 0.2 * p99".parse().unwrap();
//! let run = Summary { tp_mb_s: 50.0, var_mb_s: 4.0, p99_ms: 20.0, ..Summary::default() };
//! assert_eq!(steady.score(&run), 42.0);
//! assert_eq!(steady.to_string(), "tp - 1 * var - 0.2 * p99");
//! assert!(steady.names("p99") && !steady.names("cv"));
//! assert_eq!("tp-if-steady".parse::<Objective>().unwrap().to_string(), "if(cv < 0.2, tp, 0)");
//!
//! let wrong = "tp - 2 * vars".parse::<Objective>().unwrap_err();
//! assert_eq!((wrong.column, wrong.width), (10, 4));
//! assert!(wrong.to_string().contains("did you mean `var`?"));
//! ```
//!
//! | written | is |
//! |---|---|
//! | `2`, `0.5`, `1e-3` | a number |
//! | `tp`, `var`, `p99`, ... | a number of the run; all are in [`NAMES`] |
//! | `a + b`, `a - b`, `a * b`, `a / b`, `-a`, `( )` | arithmetic, as everywhere |
//! | `pow(x, y)`, `log(x)`, `log(x, base)`, `min(x, y, ...)`, `max(x, y, ...)` | [`FUNCTIONS`] |
//! | `if(a < b, then, else)` | also `<=`, `>`, `>=`, `==`, `!=` |
//! | `steady`, `tp-if-steady`, ..., alone | a preset, of [`PRESETS`] |
//!
//! A score never fails. Where a step that is taken has no finite result (a division by zero, a
//! logarithm of zero, an overflow), the score is [`WORST`], so that a search goes on and the
//! candidate loses. An `if` takes only the branch that it chooses, so it can guard the other.

mod error;
mod expression;
mod function;
mod lex;
mod names;
mod parse;
mod presets;
#[cfg(test)]
mod tests;

pub use error::{Fault, ObjectiveError};
pub use function::{FUNCTIONS, Function};
pub use names::{NAMES, Name};
pub use presets::{PRESETS, Preset, preset};

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use self::expression::Expression;
use crate::summary::{Summary, deviation, mean};

/// The score of what cannot be scored: less than any other.
pub const WORST: f64 = f64::NEG_INFINITY;

/// What is to be large.
///
/// Two are equal when they compute the same in the same order. Its text is the expression, also
/// of a preset, and reads back as an equal objective whatever presets there are by then.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    expression: Expression,
}

impl Objective {
    /// Whether it names that number.
    pub fn names(&self, name: &str) -> bool {
        self.expression.names(name)
    }

    /// The score of one run of a steady workload: finite, or [`WORST`]. More is better.
    pub fn score(&self, run: &Summary) -> f64 {
        self.expression.value(&|name| (name.of)(run)).unwrap_or(WORST)
    }

    /// The score of a set of runs under the same setting, at least one; [`WORST`] of none.
    ///
    /// For steady workloads it is the mean of the scores of the runs, so one run that cannot be
    /// scored makes it [`WORST`].
    ///
    /// For bursty workloads the seconds say nothing: most are pauses. As the paper does for BTIO
    /// (Table IV), `tp` is then the speed of the bursts of all clients, averaged over the runs,
    /// `var` its deviation over the runs, and `cv` one over the other; every other name is its mean
    /// over the runs. Of a single run `var` is zero: a driver that wants a deviation in the score
    /// gives at least three.
    pub fn score_runs(&self, runs: &[Summary], bursty: bool) -> f64 {
        if runs.is_empty() {
            return WORST;
        }
        if !bursty {
            let scores: Vec<f64> = runs.iter().map(|run| self.score(run)).collect();
            return Some(mean(&scores)).filter(|score| score.is_finite()).unwrap_or(WORST);
        }
        let bursts: Vec<f64> = runs.iter().map(|run| run.burst_mb_s).collect();
        let (tp_mb_s, var_mb_s) = (mean(&bursts), deviation(&bursts));
        let runs: Vec<Summary> =
            runs.iter().map(|run| Summary { tp_mb_s, var_mb_s, ..run.clone() }).collect();
        let value = |name: &Name| mean(&runs.iter().map(name.of).collect::<Vec<f64>>());
        self.expression.value(&value).unwrap_or(WORST)
    }
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    /// Reads an expression, or the name of a preset.
    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let text = preset(text.trim()).map_or(text, |preset| preset.text);
        parse::parse(text).map(|expression| Self { expression })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}

impl Serialize for Objective {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Objective {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
