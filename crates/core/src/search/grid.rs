//! Fixed windows and gaps: the honest competitor of every rule set.
//!
//! Most of what traffic control can gain in throughput, a well-chosen fixed window gains, too; so
//! what a search finds counts against the best of this grid. It is coarse on purpose: all windows
//! first, then some of them with gaps, then the best few again.
//!
//! A gap is tried as a fraction of the measured `ack_ewma`, which follows the number of clients,
//! and as a fraction of the fair share of a path, as it was told or as the best window showed it.
//! Not from the papers.

use super::desk::{Desk, FAULTS, Run, Standing, ranking};
use super::{
    Asked, Best, Candidate, End, MethodEntry, NotAwaited, Progress, Setup, Strategy, Told,
};
use crate::parameters::Parameter;
use crate::policy::{Policy, fixed::Fixed};
use crate::rules::Gap;
use crate::units::Span;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "grid",
    about: "fixed windows from 1 to 64, some of them with gaps: what any search has to beat",
    parameters: &[
        Parameter { name: "gaps", default: "on", about: "try gaps as well, on or off" },
        Parameter { name: "top", default: "3", about: "how many of the best run again, 1 to 30" },
        Parameter { name: "repeats", default: "3", about: "runs of each of those, 1 to 100" },
        FAULTS,
    ],
    build: |parameters, setup| {
        let options = Options {
            gaps: parameters.switch("gaps")?,
            top: parameters.count("top", 1, 30)? as usize,
            repeats: parameters.count("repeats", 1, 100)? as u32,
        };
        Ok(Box::new(Grid::new(options, Desk::open(parameters, setup)?, setup)))
    },
};

/// Windows that are tried.
const WINDOWS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Windows that are tried with gaps: beyond these, the gap alone limits.
const WINDOWS_WITH_GAPS: [u32; 4] = [2, 4, 8, 16];

/// Gaps that are tried, in parts of `ack_ewma`.
const OF_ACK: [f64; 2] = [0.6, 0.9];

/// Gaps that are tried, in parts of the fair share: one slightly below it evens out a run at no
/// cost, one well below it still stops bursts.
const OF_FAIR_SHARE: [f64; 2] = [0.8, 0.95];

struct Options {
    gaps: bool,
    top: usize,
    repeats: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Windows,
    Gaps,
    Repeats,
}

/// The grid under way.
pub(super) struct Grid {
    options: Options,
    stage: Stage,
    round: u32,
    desk: Desk<usize>,
    standings: Vec<Standing>,
    /// Candidates from here on belong to the present round.
    round_start: usize,
    fair_gap: Option<Span>,
    /// The best score for which a fair gap was seen.
    fair_gap_score: f64,
    end: Option<End>,
}

impl Grid {
    fn new(options: Options, desk: Desk<usize>, setup: &Setup) -> Self {
        let mut grid = Self {
            options,
            stage: Stage::Windows,
            round: 0,
            desk,
            standings: Vec::new(),
            round_start: 0,
            fair_gap: setup.fair_gap,
            // A share that was told beforehand stands, whatever is measured.
            fair_gap_score: if setup.fair_gap.is_some() { f64::INFINITY } else { f64::MIN },
            end: None,
        };
        WINDOWS.iter().for_each(|&window| grid.add(window, Gap::NONE));
        grid
    }

    fn add(&mut self, window: u32, gap: Gap) {
        let fixed = Fixed { window: f64::from(window), gap };
        let standing = Standing::new(Candidate::setting(&fixed.name()));
        self.desk.post(&standing.candidate, 0, 1.0, self.standings.len());
        self.standings.push(standing);
    }

    /// Goes on to the next stage when all of this one were told.
    fn advance(&mut self) {
        while self.desk.is_empty() && self.end.is_none() {
            self.round += 1;
            match self.stage {
                Stage::Windows => {
                    self.stage = Stage::Gaps;
                    self.round_start = self.standings.len();
                    if self.options.gaps {
                        self.add_gaps();
                    }
                }
                Stage::Gaps => self.stage = Stage::Repeats,
                Stage::Repeats => self.repeat(),
            }
        }
    }

    fn add_gaps(&mut self) {
        for window in WINDOWS_WITH_GAPS {
            OF_ACK.iter().for_each(|&part| self.add(window, Gap::OfAck(part)));
            // In whole microseconds, since finer is mere noise.
            let shares = OF_FAIR_SHARE.map(|part| self.fair_gap.map(|gap| gap.mul_f64(part)));
            for micros in shares.iter().flatten().map(|gap| gap.as_nanos() / 1_000) {
                if micros > 0 {
                    self.add(window, Gap::Time(Span::from_micros(micros)));
                }
            }
        }
    }

    /// Runs the best few once more, until each of the best few has its runs.
    fn repeat(&mut self) {
        let repeats = self.options.repeats;
        let ranked = ranking(&self.standings);
        let short: Vec<usize> = ranked
            .into_iter()
            .take(self.options.top)
            .filter(|&index| self.standings[index].runs < repeats)
            .collect();
        for &index in &short {
            let standing = &self.standings[index];
            self.desk.post(&standing.candidate, standing.runs, 1.0, index);
        }
        if short.is_empty() {
            self.end = Some(End::Complete);
        }
    }
}

impl Strategy for Grid {
    fn ask(&mut self) -> Asked {
        self.desk.answer(self.end.as_ref())
    }

    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited> {
        let Run { number, tag: index, shown, .. } = self.desk.take(trial, told)?;
        let standing = &mut self.standings[index];
        match shown {
            Ok(outcome) => {
                standing.take(number, outcome.score);
                if let Some(gap) = outcome.fair_gap_ns
                    && self.stage == Stage::Windows
                    && outcome.score > self.fair_gap_score
                {
                    self.fair_gap = Some(Span::from_nanos(gap));
                    self.fair_gap_score = outcome.score;
                }
            }
            Err(_) => {
                standing.failed += 1;
                // Once more, in case the fault was the target's; in a repeat, until it works.
                if standing.failed == 1 || self.stage == Stage::Repeats {
                    self.desk.post(&standing.candidate, standing.runs, 1.0, index);
                }
            }
        }
        self.end = self.end.take().or_else(|| self.desk.worn_out());
        self.advance();
        Ok(())
    }

    fn best(&self) -> Option<Best> {
        self.standings[*ranking(&self.standings).first()?].best()
    }

    fn progress(&self) -> Progress {
        let round = &self.standings[self.round_start..];
        Progress {
            stage: match self.stage {
                Stage::Windows => "fixed windows",
                Stage::Gaps => "windows with gaps",
                Stage::Repeats => "the best fixed settings again",
            },
            epoch: 0,
            round: self.round,
            candidates: round.len() as u64,
            candidates_left: round.iter().filter(|s| s.runs + s.failed == 0).count() as u64,
            rules: 0,
            told: self.desk.told(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::testing::{Course, Oracle, drive, replays};
    use crate::search::{Outcome, build};

    fn labels(course: &Course) -> Vec<String> {
        course.trials.iter().map(|trial| trial.candidate.label()).collect()
    }

    #[test]
    fn windows_come_first_then_gaps_then_the_best_again() {
        let course = drive("grid", &Setup::new(1), &Oracle::new(1), 1_000);
        let labels = labels(&course);
        let windows: Vec<String> = WINDOWS.iter().map(|w| format!("fixed:{w}")).collect();
        assert_eq!(labels[..7], windows);
        let gaps = ["gap=0.6ack", "gap=0.9ack", "gap=37600us", "gap=44650us"];
        assert_eq!(labels[7..11], gaps.map(|gap| format!("fixed:2,{gap}")));
        assert_eq!(labels.len(), 7 + 4 * 4 + 3 * 2);
        assert_eq!(course.asked.last(), Some(&Asked::Finished(End::Complete)));
        let best = course.strategy.best().unwrap();
        assert_eq!((best.candidate.label().as_str(), best.runs), ("fixed:4,gap=0.9ack", 3));
        // The runs of one number share their seed.
        let seeds: Vec<u64> = course.trials.iter().map(|trial| trial.seed).collect();
        assert!(seeds[..23].iter().all(|seed| *seed == 1) && seeds[23..26] == [2, 2, 2]);
    }

    #[test]
    fn the_fair_share_is_that_of_the_best_window_unless_it_was_told() {
        let mut strategy = build("grid", &Setup::new(1)).unwrap();
        let Asked::Trials(trials) = strategy.ask() else { panic!() };
        for (trial, score) in trials.iter().zip([10.0, 20.0, 40.0, 30.0, 30.0, 30.0, 30.0]) {
            let fair_gap_ns = Some((score * 1e6) as u64);
            let outcome = Outcome { score, fair_gap_ns, ..Outcome::default() };
            strategy.tell(trial.number, Told::Outcome(outcome)).unwrap();
        }
        let Asked::Trials(trials) = strategy.ask() else { panic!() };
        assert_eq!(trials[3].candidate.label(), "fixed:2,gap=38ms");
        let setup = Setup { fair_gap: Some(Span::from_millis(10)), ..Setup::new(1) };
        let told = drive("grid:top=1,repeats=1", &setup, &Oracle::new(1), 99);
        assert!(labels(&told).contains(&"fixed:16,gap=9500us".to_owned()), "{:?}", labels(&told));
        let without = drive("grid:gaps=off,repeats=1", &setup, &Oracle::new(1), 99);
        assert_eq!(without.trials.len(), 7);
    }

    #[test]
    fn one_lucky_run_does_not_win() {
        let mut strategy = build("grid:gaps=off", &Setup::new(1)).unwrap();
        while let Asked::Trials(trials) = strategy.ask() {
            let trial = &trials[0];
            let lucky = trial.candidate.label() == "fixed:64" && trial.number < 7;
            let steady = trial.candidate.label() == "fixed:4";
            let score = match (lucky, steady) {
                (true, _) => 350.0,
                (_, true) => 200.0,
                _ => 100.0,
            };
            strategy.tell(trial.number, Told::Cost(-score)).unwrap();
        }
        // (350 + 100 + 100) / 3 is less than 200.
        let best = strategy.best().unwrap();
        assert_eq!((best.candidate.label().as_str(), best.score, best.runs), ("fixed:4", 200.0, 3));
    }

    #[test]
    fn a_setting_that_fails_twice_is_left_out() {
        // Trials 0 and 7 are the first and the second of `fixed:1`.
        let fails = |number| number == 0 || number == 7;
        let oracle = Oracle { fails, ..Oracle::new(1) };
        let course = drive("grid:gaps=off", &Setup::new(1), &oracle, 99);
        assert_eq!(labels(&course)[7], "fixed:1");
        assert_eq!(labels(&course).iter().filter(|label| *label == "fixed:1").count(), 2);
        assert_eq!(course.asked.last(), Some(&Asked::Finished(End::Complete)));
        let all = drive("grid:faults=4", &Setup::new(1), &Oracle { fails: |_| true, ..oracle }, 99);
        assert!(matches!(all.asked.last(), Some(Asked::Finished(End::Faults { failed: 5, .. }))));
        assert_eq!(all.strategy.best(), None);
    }

    #[test]
    fn any_prefix_of_a_journal_leads_to_the_same_asks() {
        let fails = |number| number % 11 == 5;
        let oracle = Oracle { noise_percent: 9.0, fails, drift: 9.0, ..Oracle::new(4) };
        for method in ["grid", "grid:top=5"] {
            let course = drive(method, &Setup::new(4), &oracle, 99);
            let ends = course.tells.len();
            (0..=ends).for_each(|kept| replays(method, &Setup::new(4), &course, kept));
        }
    }
}
