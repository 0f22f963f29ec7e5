//! Calibration: the shortest length at which a workload's throughput repeats.
//!
//! Source: ASCAR, section III-E. A search runs a signature workload hundreds of times, so it should
//! be short; but the shorter, the more its throughput varies from run to run. The paper starts at
//! 10 seconds, runs ten times, and gradually lengthens until the coefficient of variation (CV) of
//! the throughput is under 0.1; it found 20 to 60 seconds to be good. How it lengthens it does not
//! say: here by half, since what averages out does so with the root of the time, and a tenth more
//! would cost ten runs to learn nearly nothing.
//!
//! The CV is that of a sample, the deviation taken with n - 1: of ten runs it is 5% larger than
//! that of a population, which would flatter.
//!
//! ```
//! use afflux_core::calibrate::{Ask, Calibration, Options, Outcome};
//! use afflux_core::units::Span;
//!
//! let mut calibration = Calibration::new(Options { runs: 3, ..Options::default() }).unwrap();
//! let mut noise = [1.0, -1.0, 0.0].into_iter().cycle();
//! let outcome = loop {
//!     match calibration.ask() {
//!         // A run of 10 s gives 100 MB/s give or take 15; longer ones are steadier.
//!         Ask::Run { length, .. } => {
//!             calibration.tell(100.0 + 150.0 / length.as_secs_f64() * noise.next().unwrap());
//!         }
//!         Ask::Done(outcome) => break outcome,
//!     }
//! };
//! assert_eq!(outcome, Outcome::Passes(Span::from_secs(23)));
//! ```

use serde::Serialize;

use crate::summary::mean;
use crate::units::Span;

/// How a length is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The first length, in whole seconds.
    pub from: Span,
    /// The last length, in whole seconds.
    pub max: Span,
    /// Runs of each length, at least 3.
    pub runs: u32,
    /// The CV must be under this.
    pub cv: f64,
    /// Each length is about so many times the one before; more than 1.
    pub growth: f64,
    /// Leave a length as soon as no further runs could bring its CV under the limit. This saves
    /// time and changes no verdict, but the CV of such a length is only that of the runs made.
    pub stop_early: bool,
}

impl Default for Options {
    /// The paper's 10 seconds, ten runs, CV of 0.1 and 60 seconds.
    fn default() -> Self {
        let (from, max) = (Span::from_secs(10), Span::from_secs(60));
        Self { from, max, runs: 10, cv: 0.1, growth: 1.5, stop_early: false }
    }
}

/// Options that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The first length is not one.
    #[error("the first length is {from} and the last {max}: write whole seconds, from 1s up")]
    Lengths {
        /// The first.
        from: Span,
        /// The last.
        max: Span,
    },
    /// A deviation needs several runs.
    #[error("{0} runs say nothing of a deviation: write at least 3")]
    Runs(u32),
    /// The limit is not above zero.
    #[error("the CV to stay under must be above 0, as in 0.1")]
    Limit,
    /// Lengths would not grow.
    #[error("lengths must grow by a factor above 1, as in 1.5")]
    Growth,
}

/// What was seen at one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The length.
    pub length: Span,
    /// The throughput of each run, in the unit that was told.
    pub values: Vec<f64>,
    /// What follows from it.
    pub verdict: Verdict,
}

impl Point {
    /// Mean over the runs.
    pub fn mean(&self) -> f64 {
        mean(&self.values)
    }

    /// CV over the runs; infinite when nothing was moved.
    pub fn cv(&self) -> f64 {
        variation(&self.values)
    }
}

/// What is known of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Runs are missing.
    Open,
    /// The CV is under the limit.
    Passes,
    /// It is not.
    Uneven,
    /// It cannot be any more, so the other runs were left out.
    Hopeless,
}

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Runs the workload and tells its throughput.
    Run {
        /// For how long.
        length: Span,
        /// Number of the run at this length, from 0. The same number should have the same seed at
        /// every length, so that lengths are compared on equal terms.
        run: u32,
    },
    /// Nothing more.
    Done(Outcome),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This is the shortest length that passes.
    Passes(Span),
    /// None does. This one had the least CV, though the runs were not that even.
    NonePasses(Span),
}

/// A search for a length; asked and told by its driver.
#[derive(Clone, Debug)]
pub struct Calibration {
    options: Options,
    lengths: Vec<Span>,
    curve: Vec<Point>,
}

impl Calibration {
    /// A search that begins.
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        let Options { from, max, .. } = options;
        let whole = |span: Span| span.as_nanos().is_multiple_of(SECOND);
        if from == Span::ZERO || from > max || !whole(from) || !whole(max) {
            return Err(OptionsError::Lengths { from, max });
        }
        if options.runs < 3 {
            return Err(OptionsError::Runs(options.runs));
        }
        if options.cv.is_nan() || options.cv <= 0.0 {
            return Err(OptionsError::Limit);
        }
        if options.growth.is_nan() || options.growth <= 1.0 {
            return Err(OptionsError::Growth);
        }
        let lengths = ladder(from, max, options.growth);
        let curve = vec![Point { length: from, values: Vec::new(), verdict: Verdict::Open }];
        Ok(Self { options, lengths, curve })
    }

    /// What comes next. Asking changes nothing.
    pub fn ask(&self) -> Ask {
        match self.curve.last() {
            Some(open) if open.verdict == Verdict::Open => {
                Ask::Run { length: open.length, run: open.values.len() as u32 }
            }
            Some(last) if last.verdict == Verdict::Passes => {
                Ask::Done(Outcome::Passes(last.length))
            }
            _ => Ask::Done(Outcome::NonePasses(self.best())),
        }
    }

    /// The run that was asked for had this throughput, in any unit as long as it stays the same. A
    /// value that is negative or not finite counts as zero. After the end, nothing happens.
    pub fn tell(&mut self, throughput: f64) {
        let Options { runs, cv, stop_early, .. } = self.options;
        let Some(point) = self.curve.last_mut().filter(|last| last.verdict == Verdict::Open) else {
            return;
        };
        point.values.push(if throughput.is_finite() { throughput.max(0.0) } else { 0.0 });
        if point.values.len() < runs as usize {
            if stop_early && is_hopeless(&point.values, runs, cv) {
                point.verdict = Verdict::Hopeless;
            }
        } else {
            point.verdict = if point.cv() < cv { Verdict::Passes } else { Verdict::Uneven };
        }
        let failed = matches!(point.verdict, Verdict::Uneven | Verdict::Hopeless);
        if let Some(&length) = self.lengths.get(self.curve.len()).filter(|_| failed) {
            self.curve.push(Point { length, values: Vec::new(), verdict: Verdict::Open });
        }
    }

    /// What was seen so far, the shortest length first; the last may be open.
    pub fn curve(&self) -> &[Point] {
        &self.curve
    }

    /// The lengths that are tried until one passes, the shortest first.
    pub fn lengths(&self) -> &[Span] {
        &self.lengths
    }

    /// The length with the least CV over all of its runs, else over those that were made.
    fn best(&self) -> Span {
        let rank = |point: &Point| (point.verdict == Verdict::Hopeless, point.cv());
        let less = |left: &&Point, right: &&Point| {
            let (left, right) = (rank(left), rank(right));
            left.0.cmp(&right.0).then(left.1.total_cmp(&right.1))
        };
        self.curve.iter().min_by(less).map_or(self.options.from, |point| point.length)
    }
}

const SECOND: u64 = 1_000_000_000;

/// Whole seconds from `from` to `max`, each about `growth` times the one before.
fn ladder(from: Span, max: Span, growth: f64) -> Vec<Span> {
    let seconds = |span: Span| span.as_nanos() / SECOND;
    let mut lengths = vec![from];
    let mut last = seconds(from);
    while last < seconds(max) {
        let next = ((last as f64 * growth + 0.5) as u64).max(last + 1);
        // A last step of much less than the others is not worth its runs: it joins the one before.
        let is_last = next as f64 * growth.sqrt() > seconds(max) as f64;
        last = if is_last { seconds(max) } else { next };
        lengths.push(Span::from_secs(last));
    }
    lengths
}

/// The CV of a sample: its deviation, with n - 1, over its mean. Infinite of fewer than two values
/// and of a mean of zero.
pub fn variation(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    if values.len() < 2 || mean <= 0.0 {
        return f64::INFINITY;
    }
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (squares / (count - 1.0)).sqrt() / mean
}

/// Whether no values for the missing ones of `runs` could bring the CV under `limit`.
fn is_hopeless(values: &[f64], runs: u32, limit: f64) -> bool {
    // Rounding must not turn away what would just have passed.
    least_variation(values, runs) > limit * (1.0 + 1e-9)
}

/// The least CV that `runs` values can have of which these are some.
///
/// With sum S and sum of squares Q of those that are there, the sum of squares over the squared sum
/// of all is least when each of the m missing ones is Q / S; it then is `Q / (S^2 + m Q)`.
fn least_variation(values: &[f64], runs: u32) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    let (count, missing) = (f64::from(runs), f64::from(runs) - values.len() as f64);
    // Zeros alone are the limit of ever smaller values: the missing ones are equal to each other.
    let ratio = if sum > 0.0 { squares / (sum * sum + missing * squares) } else { 1.0 / missing };
    (count / (count - 1.0) * (count * ratio - 1.0).max(0.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn seconds(lengths: &[Span]) -> Vec<u64> {
        lengths.iter().map(|length| length.as_nanos() / SECOND).collect()
    }

    fn calibration(options: Options) -> Calibration {
        Calibration::new(options).unwrap()
    }

    /// Answers each run with `throughput(length in seconds, run)`, and says how it ends.
    fn drive(
        calibration: &mut Calibration,
        mut throughput: impl FnMut(f64, u32) -> f64,
    ) -> Outcome {
        loop {
            match calibration.ask() {
                Ask::Run { length, run } => {
                    calibration.tell(throughput(length.as_secs_f64(), run));
                }
                Ask::Done(outcome) => return outcome,
            }
        }
    }

    #[test]
    fn lengths_grow_by_half_up_to_the_last() {
        let lengths = |from, max, growth| {
            let (from, max) = (Span::from_secs(from), Span::from_secs(max));
            let options = Options { from, max, growth, ..Options::default() };
            seconds(calibration(options).lengths())
        };
        assert_eq!(lengths(10, 60, 1.5), [10, 15, 23, 35, 60]);
        assert_eq!(lengths(1, 5, 1.5), [1, 2, 3, 5]);
        assert_eq!(lengths(1, 4, 1.001), [1, 2, 3, 4]);
        assert_eq!(lengths(10, 10, 1.5), [10]);
        assert_eq!(lengths(10, 60, f64::INFINITY), [10, 60]);
        assert_eq!(lengths(7, 3_600, 1.5).last(), Some(&3_600));
    }

    #[test]
    fn the_shortest_that_passes_is_chosen_and_nothing_longer_is_run() {
        let mut rng = Rng::new(11);
        // Deviations that fall with the root of the length: 0.15 at 10 s, 0.1 at 22.5 s.
        let mut noise = move || {
            (0..12).map(|_| rng.below(1 << 32) as f64 / f64::from(1_u32 << 31) - 1.0).sum::<f64>()
                / 2.0
        };
        let mut calibration = calibration(Options::default());
        let outcome = drive(&mut calibration, |length, _| {
            200.0 * (1.0 + 0.15 * (10.0 / length).sqrt() * noise())
        });
        let Outcome::Passes(length) = outcome else { panic!("{outcome:?}") };
        let curve = calibration.curve();
        assert_eq!(curve.last().unwrap().length, length);
        assert!(curve.len() > 1 && curve.iter().all(|point| point.values.len() == 10));
        let (last, others) = curve.split_last().unwrap();
        assert!(last.cv() < 0.1 && others.iter().all(|point| point.cv() >= 0.1));
        assert!((150.0..250.0).contains(&last.mean()));
        // What comes after the end is nobody's.
        calibration.tell(1.0);
        assert_eq!(calibration.ask(), Ask::Done(outcome));
    }

    #[test]
    fn it_gives_up_at_the_last_length_and_names_the_best() {
        let mut never = calibration(Options { runs: 4, ..Options::default() });
        let outcome = drive(&mut never, |length, run| {
            let deviation = if length == 15.0 { 0.3 } else { 0.5 };
            100.0 * (1.0 + deviation * f64::from(run % 2))
        });
        assert_eq!(outcome, Outcome::NonePasses(Span::from_secs(15)));
        assert_eq!(never.curve().len(), 5);
        // Nothing at all, or rubbish, is no throughput that repeats.
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            for stop_early in [false, true] {
                let options = Options { stop_early, ..Options::default() };
                let outcome = drive(&mut calibration(options), |_, _| value);
                assert_eq!(outcome, Outcome::NonePasses(Span::from_secs(10)), "{value}");
            }
        }
    }

    #[test]
    fn a_hopeless_length_is_left_when_asked_to() {
        let wild = |_: f64, run: u32| if run == 0 { 10.0 } else { 100.0 };
        let mut patient = calibration(Options::default());
        let mut hasty = calibration(Options { stop_early: true, ..Options::default() });
        drive(&mut patient, wild);
        drive(&mut hasty, wild);
        let runs = |calibration: &Calibration| {
            calibration.curve().iter().map(|point| point.values.len()).sum::<usize>()
        };
        assert_eq!((runs(&patient), runs(&hasty)), (50, 10));
        assert!(hasty.curve().iter().all(|point| point.verdict == Verdict::Hopeless));
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let good = Options::default();
        let refused = |options: Options| Calibration::new(options).unwrap_err();
        let (from, long) = (Span::from_millis(1_500), Span::from_secs(61));
        assert!(matches!(refused(Options { from, ..good }), OptionsError::Lengths { .. }));
        assert!(
            refused(Options { from: long, ..good }).to_string().contains("first length is 61s")
        );
        assert_eq!(refused(Options { runs: 2, ..good }), OptionsError::Runs(2));
        assert_eq!(refused(Options { cv: f64::NAN, ..good }), OptionsError::Limit);
        assert_eq!(refused(Options { growth: 1.0, ..good }), OptionsError::Growth);
    }

    #[test]
    fn the_variation_is_that_of_a_sample() {
        assert!((variation(&[9.0, 11.0]) - 2.0_f64.sqrt() / 10.0).abs() < 1e-12);
        assert_eq!(variation(&[5.0, 5.0, 5.0]), 0.0);
        assert_eq!((variation(&[5.0]), variation(&[0.0, 0.0])), (f64::INFINITY, f64::INFINITY));
    }

    proptest! {
        /// Leaving early saves runs and nothing else: each length passes or fails as before.
        #[test]
        fn leaving_early_changes_no_verdict(
            values in prop::collection::vec(0.0..100.0_f64, 3..12),
            evenness in 0.0..1.0_f64,
            limit in 0.01..1.0_f64,
        ) {
            let runs = values.len() as u32;
            let value = |_: f64, run: u32| 50.0 + (values[run as usize] - 50.0) * evenness;
            let options = Options { runs, cv: limit, ..Options::default() };
            let mut patient = calibration(options);
            let mut hasty = calibration(Options { stop_early: true, ..options });
            prop_assert_eq!(drive(&mut patient, value), drive(&mut hasty, value));
            prop_assert_eq!(patient.curve().len(), hasty.curve().len());
        }

        /// The bound is below whatever the missing runs bring, and is reached.
        #[test]
        fn the_least_variation_is_the_least(
            values in prop::collection::vec(1.0..100.0_f64, 2..6),
            others in prop::collection::vec(0.0..200.0_f64, 1..6),
        ) {
            let runs = (values.len() + others.len()) as u32;
            let least = least_variation(&values, runs);
            let all = [&values[..], &others[..]].concat();
            prop_assert!(variation(&all) >= least - 1e-9);
            let squares: f64 = values.iter().map(|value| value * value).sum();
            let best = squares / values.iter().sum::<f64>();
            let all = [&values[..], &vec![best; others.len()]].concat();
            prop_assert!((variation(&all) - least).abs() < 1e-6);
        }
    }
}
