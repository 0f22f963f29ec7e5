//! Budgets: how long a search may run, in time or in runs.

use std::fmt;
use std::str::FromStr;

use afflux_core::units::Span;

/// How much a search may spend. Time counts by the journal, so that a resumed search has spent what
/// it spent before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Budget {
    /// Seconds of trials.
    Secs(f64),
    /// Trials.
    Runs(u64),
}

impl Budget {
    /// Whether a run of `run_secs` still fits after `runs` runs that took `spent_secs`.
    pub(crate) fn holds_more(&self, runs: u64, spent_secs: f64, run_secs: f64) -> bool {
        match self {
            Self::Secs(secs) => spent_secs + run_secs <= *secs,
            Self::Runs(most) => runs < *most,
        }
    }

    /// What is left when `runs` runs of `run_secs` are set aside.
    pub(crate) fn less(&self, runs: u64, run_secs: f64) -> Self {
        match self {
            Self::Secs(secs) => Self::Secs((secs - runs as f64 * run_secs).max(0.0)),
            Self::Runs(most) => Self::Runs(most.saturating_sub(runs)),
        }
    }

    /// Half of it.
    pub(crate) fn half(&self) -> Self {
        match self {
            Self::Secs(secs) => Self::Secs(secs / 2.0),
            Self::Runs(most) => Self::Runs(most.div_ceil(2)),
        }
    }

    /// The part that is spent, from 0 to 1.
    pub(crate) fn spent_part(&self, runs: u64, spent_secs: f64) -> f64 {
        let part = match self {
            Self::Secs(secs) => spent_secs / secs,
            Self::Runs(most) => runs as f64 / *most as f64,
        };
        part.clamp(0.0, 1.0)
    }
}

impl FromStr for Budget {
    type Err = String;

    /// Reads `2h`, `30min`, `90s` or `200runs`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(runs) = text.strip_suffix("runs") {
            return match runs.trim().parse() {
                Ok(runs) if runs > 0 => Ok(Self::Runs(runs)),
                _ => Err(format!("`{text}` is no number of runs: write 200runs")),
            };
        }
        let span: Span = text.parse().map_err(|error| format!("{error}; or a number, 200runs"))?;
        if span == Span::ZERO {
            return Err("a budget of nothing: write 30min, 2h or 200runs".to_owned());
        }
        Ok(Self::Secs(span.as_secs_f64()))
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secs(secs) => write!(f, "{}", Span::from_secs_f64(*secs)),
            Self::Runs(runs) => write!(f, "{runs} runs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_and_kept() {
        let time: Budget = "2min".parse().unwrap();
        assert!(time.holds_more(1_000, 110.0, 10.0) && !time.holds_more(0, 111.0, 10.0));
        assert_eq!(time.less(3, 20.0), Budget::Secs(60.0));
        assert_eq!(time.less(100, 20.0), Budget::Secs(0.0));
        let runs: Budget = "20runs".parse().unwrap();
        assert!(runs.holds_more(19, 1e9, 10.0) && !runs.holds_more(20, 0.0, 10.0));
        assert_eq!((runs.less(12, 1.0), runs.half()), (Budget::Runs(8), Budget::Runs(10)));
        for wrong in ["0runs", "runs", "0s", "5", "-1h", "2 moons"] {
            assert!(wrong.parse::<Budget>().is_err(), "{wrong}");
        }
    }
}
