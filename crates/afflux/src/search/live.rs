//! What people see of a search while it runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use afflux_core::search::{Best, Progress as Come};
use afflux_core::target::Progress;

use crate::failure::Failure;
use crate::progress::{Line, Talk, interruption, words};
use crate::search::Course;
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
    began: Option<(Instant, f64)>,
}

impl Live {
    /// A view of one search. Ctrl-C ends the search after the run that is under way.
    pub(crate) fn new() -> Result<Self, Failure> {
        let line = Line::new(PARTS, LINE_EVERY)?;
        Ok(Self { line, interrupted: interruption()?, state: Mutex::default() })
    }

    /// Says what people should not miss.
    pub(crate) fn note(&self, what: &str) {
        self.line.note(what);
    }

    /// A trial of a stage begins; `part` of the budget is spent.
    pub(crate) fn stage(
        &self,
        stage: Stage,
        come: &Come,
        best: Option<&Best>,
        course: &Course,
        part: f64,
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
        self.show(line, part, &best.map(|best| leader(best, course)).unwrap_or_default());
    }

    /// A confirming run begins.
    pub(crate) fn confirming(&self, done: u64, of: u64, part: f64) {
        self.show(format!("confirming: {done} of {of} runs done"), part, "");
    }

    /// Where a search program's own words are said.
    pub(crate) fn talk(&self) -> Talk {
        self.line.talk()
    }

    /// The search is over, or given up.
    pub(crate) fn finish(&self) {
        self.line.finish();
    }

    /// Shows a line with the forecast, and one below it.
    fn show(&self, mut line: String, part: f64, below: &str) {
        let mut state = self.lock();
        // Forecast from this process's own pace: what an earlier one did says nothing about it.
        let &mut (began, part_at_begin) = state.began.get_or_insert((Instant::now(), part));
        if part > part_at_begin {
            let pace = began.elapsed().as_secs_f64() / (part - part_at_begin);
            let left = Duration::from_secs_f64((pace * (1.0 - part)).min(1e9));
            line += &format!(", at most {} left", words(left));
        }
        if !below.is_empty() {
            line = format!("{line}\n{below}");
        }
        self.line.at((part * PARTS as f64) as u64);
        self.line.say(line);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The best so far, and by how much.
fn leader(best: &Best, course: &Course) -> String {
    let label = best.candidate.label();
    let mut line = format!("best so far {label} {}", number(best.score));
    let runs = |runs: u32| if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    match course.standings.against_baseline(&label) {
        Some(change) => line += &format!(", {} over the baseline", change.in_percent()),
        None => line += &format!(", no interval yet ({})", runs(best.runs)),
    }
    if let Some(fixed) = course.best_fixed.as_ref().filter(|f| f.candidate != best.candidate) {
        let fixed_label = fixed.candidate.label();
        line += &match course.standings.against(&fixed_label, &label) {
            Some(change) => format!(", {} over the best fixed, {fixed_label}", change.in_percent()),
            None => format!("; best fixed {fixed_label} {}", number(fixed.score)),
        };
    }
    line
}

impl Progress for Live {
    fn warned(&self, what: &str) {
        self.line.note(what);
    }

    fn is_cancelled(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
