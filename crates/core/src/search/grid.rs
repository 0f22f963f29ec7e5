//! Fixed windows and gaps: the honest competitor of every rule set.
//!
//! Most of what traffic control can gain in throughput, a well-chosen fixed window gains, too; so
//! what a search finds counts against the best of this grid. It is coarse on purpose: all windows
//! first, then some of them with gaps, then the best few again.
//!
//! A gap is tried as a fraction of the measured `ack_ewma`, which follows the number of clients,
//! and as a fraction of the fair share of a path, as it was told or as the best window showed it.
//! Not from the papers.

use super::desk::{Desk, FAULTS, Standing, ranking};
use super::{
    Asked, Best, Candidate, End, MethodEntry, NotAwaited, Progress, Setup, Strategy, Told,
};
use crate::parameters::Parameter;
use crate::units::Span;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "grid",
    about: "fixed windows from 1 to 64, some of them with gaps: what any search has to beat",
    parameters: &[
        Parameter { name: "gaps", default: "on", about: "try gaps as well, on or off" },
        Parameter { name: "top", default: "3", about: "how many of the best run again, 1 to 30" },
        Parameter { name: "repeats", default: "3", about: "runs of each of those, 1 to 100" },
        Parameter { name: "faults", default: FAULTS, about: "failed trials that it bears" },
    ],
    build: |parameters, setup| {
        let options = Options {
            gaps: parameters.switch("gaps")?,
            top: parameters.count("top", 1, 30)? as usize,
            repeats: parameters.count("repeats", 1, 100)? as u32,
            faults: parameters.count("faults", 0, 1_000_000)?,
        };
        Ok(Box::new(Grid::new(options, setup)))
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
    faults: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Windows,
    Gaps,
    Repeats,
}

struct Grid {
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
    fn new(options: Options, setup: &Setup) -> Self {
        let faults = options.faults;
        let mut grid = Self {
            options,
            stage: Stage::Windows,
            round: 0,
            desk: Desk::new(setup, faults),
            standings: Vec::new(),
            round_start: 0,
            fair_gap: setup.fair_gap,
            // A share that was told beforehand stands, whatever is measured.
            fair_gap_score: if setup.fair_gap.is_some() { f64::INFINITY } else { f64::MIN },
            end: None,
        };
        WINDOWS.iter().for_each(|window| grid.add(&format!("fixed:{window}")));
        grid
    }

    fn add(&mut self, setting: &str) {
        let standing = Standing::new(Candidate::setting(setting));
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
            for fraction in OF_ACK {
                self.add(&format!("fixed:{window},gap={fraction}ack"));
            }
            // In whole microseconds, since finer is mere noise.
            let micros = |gap: Span| gap.as_nanos() / 1_000;
            let parts = OF_FAIR_SHARE.map(|part| self.fair_gap.map(|gap| gap.mul_f64(part)));
            for gap in parts.into_iter().flatten().map(micros).filter(|&gap| gap > 0) {
                self.add(&format!("fixed:{window},gap={gap}us"));
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
        let (trial, index, shown) = self.desk.take(trial, told)?;
        let standing = &mut self.standings[index];
        match shown {
            Ok(outcome) => {
                standing.take(trial.number, outcome.score);
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
