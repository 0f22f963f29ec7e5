//! What people see of a search while it runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use afflux_core::search::{Best, Progress as Come};
use afflux_core::target::Progress;

use crate::failure::Failure;
use crate::progress::{Line, Talk, interruption, words};
use crate::search::budget::Budget;
use crate::search::journal::Stage;
use crate::tables::number;

/// Without a terminal, a line at most so often.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// The bar is drawn in thousandths of the budget.
const PARTS: u64 = 1_000;

/// A bar with the best so far on a terminal, a line now and then elsewhere.
pub(crate) struct Live {
    line: Line,
    interrupted: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Vec<String>,
    began: Option<(Instant, f64)>,
}

impl Live {
    /// A view of one search. Ctrl-C ends the search after the run that is under way.
    pub(crate) fn new() -> Result<Self, Failure> {
        let line = Line::new(PARTS, LINE_EVERY)?;
        Ok(Self { line, interrupted: interruption()?, state: Mutex::default() })
    }

    /// Notes a result that later lines repeat.
    pub(crate) fn best(&self, what: &str, score: f64) {
        self.lock().known.push(format!("{what} {}", number(score)));
    }

    /// A trial of a stage begins.
    pub(crate) fn stage(
        &self,
        stage: Stage,
        come: &Come,
        best: Option<&Best>,
        budget: &Budget,
        spent_secs: f64,
        runs: u64,
    ) {
        let name = match stage {
            Stage::Grid => "fixed settings",
            Stage::Search | Stage::Confirm => "search",
        };
        let mut line = format!("{name}: {}", come.stage);
        if stage == Stage::Search {
            line += &format!(", epoch {} round {}", come.epoch, come.round);
        }
        line += &format!(", {} of {} candidates left", come.candidates_left, come.candidates);
        if let Some(best) = best {
            line += &format!(", best {} {}", best.candidate.label(), number(best.score));
        }
        self.show(line, budget.spent_part(runs, spent_secs));
    }

    /// A confirming run begins.
    pub(crate) fn confirming(
        &self,
        done: u64,
        of: u64,
        budget: &Budget,
        spent_secs: f64,
        runs: u64,
    ) {
        let line = format!("confirming: {done} of {of} runs done");
        self.show(line, budget.spent_part(runs, spent_secs));
    }

    /// Where a search program's own words are said.
    pub(crate) fn talk(&self) -> Talk {
        self.line.talk()
    }

    /// The search is over, or given up.
    pub(crate) fn finish(&self) {
        self.line.finish();
    }

    fn show(&self, mut line: String, part: f64) {
        let mut state = self.lock();
        for known in &state.known {
            line += ", ";
            line += known;
        }
        // Forecast from this process's own pace: what an earlier one did says nothing about it.
        let &mut (began, part_at_begin) = state.began.get_or_insert((Instant::now(), part));
        if part > part_at_begin {
            let pace = began.elapsed().as_secs_f64() / (part - part_at_begin);
            let left = Duration::from_secs_f64((pace * (1.0 - part)).min(1e9));
            line += &format!(", at most {} left", words(left));
        }
        self.line.at((part * PARTS as f64) as u64);
        self.line.say(line);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Live {
    fn is_cancelled(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
