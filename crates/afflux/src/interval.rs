//! Intervals: what paired runs say about a gain.

use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

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

    /// The mean change from the first to the second of each pair, in percent, with its 95%
    /// interval.
    ///
    /// Ratios are averaged by their logarithms: twice and half cancel, and no interval reaches
    /// below -100%. Where a value is zero there is no ratio; then differences count, against the
    /// mean of the first values.
    pub(crate) fn of_changes(pairs: &[(f64, f64)]) -> Self {
        if pairs.iter().all(|&(before, after)| before > 0.0 && after > 0.0) {
            let logs: Vec<f64> =
                pairs.iter().map(|(before, after)| (after / before).ln()).collect();
            let percent = |log: f64| log.exp_m1() * 100.0;
            let Self { mean, low, high } = Self::of(&logs);
            return Self { mean: percent(mean), low: percent(low), high: percent(high) };
        }
        Self::of(&Self::changes(pairs))
    }

    /// The change of each pair in percent: of its first value, or, where any value is zero, of the
    /// mean of the first values.
    pub(crate) fn changes(pairs: &[(f64, f64)]) -> Vec<f64> {
        let ratios = pairs.iter().all(|&(before, after)| before > 0.0 && after > 0.0);
        let firsts: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let mean = afflux_core::summary::mean(&firsts);
        let change = |&(before, after): &(f64, f64)| {
            let unit = if ratios { before } else { mean };
            // More of a score below zero is less far below.
            if unit == 0.0 { 0.0 } else { (after - before) / unit.abs() * 100.0 }
        };
        pairs.iter().map(change).collect()
    }

    /// The 95% interval of a CV that was seen over so many runs, its deviation taken with n - 1.
    ///
    /// McKay's approximation by chi-square with n - 1 degrees of freedom, as Vangel corrected it
    /// (The American Statistician 50, 1996): for values that are about normal and seldom near zero.
    /// Ten runs that vary by 0.1 leave 0.07 to 0.18 possible.
    pub(crate) fn of_variation(cv: f64, runs: usize) -> Self {
        let (count, freedom) = (runs as f64, runs as f64 - 1.0);
        let Ok(chi) = ChiSquared::new(freedom.max(f64::MIN_POSITIVE)) else {
            return Self { mean: cv, low: 0.0, high: f64::INFINITY };
        };
        if runs < 2 || !cv.is_finite() {
            return Self { mean: cv, low: 0.0, high: f64::INFINITY };
        }
        let end = |quantile: f64| {
            let chi = chi.inverse_cdf(quantile);
            let below = ((chi + 2.0) / count - 1.0) * cv * cv + chi / freedom;
            // So uneven that the approximation has no upper end.
            if below > 0.0 { cv / below.sqrt() } else { f64::INFINITY }
        };
        Self { mean: cv, low: end(0.975), high: end(0.025) }
    }

    /// A change in percent, for people: `+5.0% (+3.1% to +6.9%)`.
    pub(crate) fn in_percent(&self) -> String {
        format!("{:+.1}% ({:+.1}% to {:+.1}%)", self.mean, self.low, self.high)
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

    #[test]
    fn changes_are_ratios_and_never_below_minus_100_percent() {
        let tenth = Interval::of_changes(&[(100.0, 110.0), (20.0, 22.0)]);
        assert!((tenth.mean - 10.0).abs() < 1e-9 && (tenth.high - 10.0).abs() < 1e-6);
        let cancelled = Interval::of_changes(&[(1.0, 2.0), (2.0, 1.0)]);
        assert!(cancelled.mean.abs() < 1e-9 && !cancelled.excludes_zero());
        let wild = Interval::of_changes(&[(1.0, 0.5), (1.0, 0.01), (1.0, 0.2)]);
        assert!(wild.low > -100.0 && wild.mean < -50.0, "{wild:?}");
        let zero = Interval::of_changes(&[(0.0, 1.0), (2.0, 1.0), (1.0, 1.0)]);
        assert!(zero.mean.abs() < 1e-9);
        assert_eq!(Interval::of_changes(&[(0.0, 0.0), (0.0, 0.0)]).mean, 0.0);
    }

    fn normals(seed: u64) -> impl FnMut() -> f64 {
        let mut rng = afflux_core::rng::Rng::new(seed);
        let mut uniform = move || rng.below(1 << 32) as f64 / f64::from(1_u32 << 31) - 1.0;
        move || (0..12).map(|_| uniform()).sum::<f64>() / 2.0
    }

    /// One in twenty intervals may miss the truth, not more and not many fewer.
    #[test]
    fn covers_the_truth_in_about_95_of_100_cases() {
        let mut normal = normals(5);
        let covered = (0..2_000)
            .filter(|_| {
                let values: Vec<f64> = (0..5).map(|_| normal()).collect();
                !Interval::of(&values).excludes_zero()
            })
            .count();
        assert!((1_860..=1_940).contains(&covered), "{covered} of 2000");
    }

    #[test]
    fn a_variation_of_ten_runs_is_uncertain_by_nearly_half() {
        // Plain chi-square has 0.0688 and 0.1826 (19.023 and 2.700, 9 degrees of freedom).
        let interval = Interval::of_variation(0.1, 10);
        assert!((interval.low - 0.0688).abs() < 1e-3, "{interval:?}");
        assert!((interval.high - 0.1826).abs() < 3e-3, "{interval:?}");
        assert_eq!(Interval::of_variation(0.0, 10).high, 0.0);
        assert_eq!(Interval::of_variation(f64::INFINITY, 10).high, f64::INFINITY);
        assert_eq!(Interval::of_variation(0.1, 1).high, f64::INFINITY);
    }

    #[test]
    fn intervals_of_variations_cover_the_truth() {
        for (cv, runs) in [(0.1, 10), (0.3, 10), (0.1, 3)] {
            let mut normal = normals(7);
            let covered = (0..2_000)
                .filter(|_| {
                    let values: Vec<f64> = (0..runs).map(|_| 1.0 + cv * normal()).collect();
                    let seen = afflux_core::calibrate::variation(&values);
                    let interval = Interval::of_variation(seen, runs);
                    interval.low <= cv && cv <= interval.high
                })
                .count();
            assert!((1_860..=1_940).contains(&covered), "{cv}, {runs} runs: {covered} of 2000");
        }
    }
}
