//! Progress: a bar with a forecast on a terminal, a line now and then elsewhere.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use afflux_core::target::{Progress, Target};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::printer::Printer;

/// A line that changes: beside a bar on a terminal, printed now and then elsewhere.
pub(crate) struct Line {
    bar: ProgressBar,
    every: Duration,
    last: Mutex<Option<Instant>>,
}

impl Line {
    /// A bar of `length`; without a terminal, a line each `every` at most.
    pub(crate) fn new(length: u64, every: Duration) -> Result<Self, Failure> {
        let bar = ProgressBar::hidden();
        if Printer::is_watched() {
            let style = ProgressStyle::with_template("{bar:30} {msg}").map_err(Failure::broken)?;
            bar.set_style(style);
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        bar.set_length(length);
        Ok(Self { bar, every, last: Mutex::default() })
    }

    /// Shows `line`, which may have more than one.
    pub(crate) fn say(&self, line: String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(line);
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= self.every) {
            *last = Some(Instant::now());
            let _ = writeln!(anstream::stderr(), "afflux: {}", line.replace('\n', "; "));
        }
    }

    /// Says something once, above the bar.
    pub(crate) fn note(&self, what: &str) {
        self.talk().say(&format!("afflux: {what}"));
    }

    /// Moves the bar.
    pub(crate) fn at(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Where lines are said that stay, above the bar.
    pub(crate) fn talk(&self) -> Talk {
        Talk(self.bar.clone())
    }
}

/// Says whole lines beside a bar, from any thread.
#[derive(Clone)]
pub(crate) struct Talk(ProgressBar);

impl Talk {
    /// Says `line` at once, on a terminal or not.
    pub(crate) fn say(&self, line: &str) {
        self.0.suspend(|| {
            // Nobody is left to tell when this fails.
            let _ = writeln!(anstream::stderr(), "{line}");
        });
    }
}

/// Watches a number of runs whose lengths are known beforehand. Runs of a simulated target take
/// another time: how much of it passes for a second of a run is measured as they go.
pub(crate) struct Watch {
    line: Line,
    state: Mutex<State>,
    moved: AtomicU64,
    interrupted: Arc<AtomicBool>,
}

struct State {
    runs: u32,
    runs_done: u32,
    /// Lengths of the runs that are done, and of all.
    done: Duration,
    total: Duration,
    /// What those that are done took.
    took: Duration,
    /// Whether runs take their length.
    in_real_time: bool,
    /// Whether it may be over before all runs are made.
    at_most: bool,
    run: Option<(Instant, Duration)>,
}

impl State {
    /// How long the rest will take, for people; nothing while that is unknown.
    fn forecast(&self) -> String {
        let left = self.total.saturating_sub(self.done);
        let left = match (self.in_real_time, self.done.as_secs_f64()) {
            (true, _) => left,
            (false, 0.0) => return String::new(),
            (false, done) => left.mul_f64(self.took.as_secs_f64() / done),
        };
        let about = if self.at_most { "at most" } else { "about" };
        format!(", {about} {} left", words(left))
    }
}

/// Without a terminal, a line at most so often.
const LINE_EVERY: Duration = Duration::from_secs(10);

impl Watch {
    /// Watches runs in groups of (how many, how long each). Ctrl-C ends them.
    pub(crate) fn new(groups: &[(u32, Duration)]) -> Result<Self, Failure> {
        let total = groups.iter().map(|(runs, run_time)| *run_time * *runs).sum::<Duration>();
        let runs = groups.iter().map(|(runs, _)| runs).sum();
        let line = Line::new(total.as_millis() as u64, LINE_EVERY)?;
        let zero = Duration::ZERO;
        let (runs_done, done, took, at_most, run) = (0, zero, zero, false, None);
        let in_real_time = true;
        let state = State { runs, runs_done, done, total, took, in_real_time, at_most, run };
        let (state, moved) = (Mutex::new(state), AtomicU64::new(0));
        Ok(Self { line, state, moved, interrupted: interruption()? })
    }

    /// As [`Self::new`], for what may be over before all of the runs are made.
    pub(crate) fn at_most(groups: &[(u32, Duration)]) -> Result<Self, Failure> {
        let watch = Self::new(groups)?;
        watch.lock().at_most = true;
        Ok(watch)
    }

    /// Watches runs on `target`, which says whether they take their length.
    #[must_use]
    pub(crate) fn on(self, target: &dyn Target) -> Self {
        self.lock().in_real_time = target.is_in_real_time();
        self
    }

    /// So many runs that would take `run_time` each are left out.
    pub(crate) fn skip(&self, runs: u32, run_time: Duration) {
        let mut state = self.lock();
        state.runs = state.runs.saturating_sub(runs);
        state.total = state.total.saturating_sub(run_time * runs);
        self.line.bar.set_length(state.total.as_millis() as u64);
    }

    /// A run of `setting` begins that will take `run_time`.
    pub(crate) fn begin(&self, setting: &str, run_time: Duration) {
        let mut state = self.lock();
        state.run = Some((Instant::now(), run_time));
        self.moved.store(0, Ordering::Relaxed);
        let of = if state.at_most { "at most " } else { "" };
        let (number, runs) = (state.runs_done + 1, state.runs);
        let line = format!("run {number} of {of}{runs}, {setting}{}", state.forecast());
        self.line.say(line);
    }

    /// The run that began has ended.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        if let Some((began, run_time)) = state.run.take() {
            state.done += run_time;
            state.took += began.elapsed();
            state.runs_done += 1;
        }
        self.line.at(state.done.as_millis() as u64);
    }

    /// All runs are over, or given up.
    pub(crate) fn finish(&self) {
        self.line.finish();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Watch {
    fn moved(&self, bytes: u64) {
        let before = self.moved.fetch_add(bytes, Ordering::Relaxed);
        // A look at the clock every 16 MiB is often enough for a bar.
        if before >> 24 != (before + bytes) >> 24 {
            let state = self.lock();
            if let Some((began, run_time)) = state.run.filter(|_| state.in_real_time) {
                let done = state.done + began.elapsed().min(run_time);
                self.line.at(done.as_millis() as u64);
            }
        }
    }

    fn reached(&self, part: f64) {
        let state = self.lock();
        if let Some((_, run_time)) = state.run {
            self.line.at((state.done + run_time.mul_f64(part.clamp(0.0, 1.0))).as_millis() as u64);
        }
    }

    fn warned(&self, what: &str) {
        self.line.note(what);
    }

    fn is_cancelled(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// The flag that Ctrl-C and a request to end set; all watches share it.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(Arc::clone(flag));
    }
    let flag = Arc::clone(FLAG.get_or_init(|| Arc::new(AtomicBool::new(false))));
    let set = Arc::clone(&flag);
    ctrlc::set_handler(move || set.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::broken(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(flag)
}

/// A duration for people: `45 s`, `2 min 5 s`.
pub(crate) fn words(duration: Duration) -> String {
    let secs = duration.as_secs();
    if secs < 60 { format!("{secs} s") } else { format!("{} min {} s", secs / 60, secs % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_simulated_runs_is_measured() {
        let secs = Duration::from_secs;
        let state = |in_real_time, done, took| State {
            runs: 4,
            runs_done: 0,
            done: secs(done),
            total: secs(400),
            took: secs(took),
            in_real_time,
            at_most: false,
            run: None,
        };
        assert_eq!(state(true, 100, 150).forecast(), ", about 5 min 0 s left");
        assert_eq!(state(false, 0, 0).forecast(), "");
        assert_eq!(state(false, 100, 2).forecast(), ", about 6 s left");
    }
}
