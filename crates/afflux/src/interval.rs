//! Intervals: what paired runs say about a gain.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with its 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Interval {
    /// The mean.
    pub(crate) mean: f64,
    /// Lower end; negative infinity with fewer than two values.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
}

/// What an interval says about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All of it lies on the good side.
    Better,
    /// All of it lies on the bad side.
    Worse,
    /// Zero lies in it.
    NoDifference,
}

impl Verdict {
    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference seen",
        }
    }
}

impl Interval {
    /// The 95% interval of the mean of `values` by Student's t with n - 1 degrees of freedom.
    ///
    /// The values are differences of pairs, so that what drifts from pair to pair cancels.
    pub(crate) fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = afflux_core::summary::mean(values);
        let Ok(student) = StudentsT::new(0.0, 1.0, (count - 1.0).max(f64::MIN_POSITIVE)) else {
            return Self::unknown(mean);
        };
        if values.len() < 2 {
            return Self::unknown(mean);
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        let reach = student.inverse_cdf(0.975) * error;
        Self { mean, low: mean - reach, high: mean + reach }
    }

    /// Whether zero lies outside, so that the sign of the mean can be believed.
    pub(crate) fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// What it says of a number of which more is better, or worse.
    pub(crate) fn verdict(&self, more_is_better: bool) -> Verdict {
        if !self.excludes_zero() {
            Verdict::NoDifference
        } else if (self.mean > 0.0) == more_is_better {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    }

    fn unknown(mean: f64) -> Self {
        Self { mean, low: f64::NEG_INFINITY, high: f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_table_of_student() {
        // Mean 3, standard error 1/sqrt(2), t(0.975; 4) = 2.776.
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((interval.mean - 3.0).abs() < 1e-12);
        assert!((interval.high - 4.9632).abs() < 1e-3, "{interval:?}");
        assert!(interval.excludes_zero());
        assert!(!Interval::of(&[-1.0, 1.0]).excludes_zero());
        assert!(!Interval::of(&[5.0]).excludes_zero());
    }

    /// One in twenty intervals may miss the truth, not more and not many fewer.
    #[test]
    fn covers_the_truth_in_about_95_of_100_cases() {
        let mut rng = afflux_core::rng::Rng::new(5);
        let mut uniform = move || rng.below(1 << 32) as f64 / f64::from(1_u32 << 31) - 1.0;
        let mut normal = move || (0..12).map(|_| uniform()).sum::<f64>();
        let covered = (0..2_000)
            .filter(|_| {
                let values: Vec<f64> = (0..5).map(|_| normal()).collect();
                !Interval::of(&values).excludes_zero()
            })
            .count();
        assert!((1_860..=1_940).contains(&covered), "{covered} of 2000");
    }
}
