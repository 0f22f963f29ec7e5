//! Many worlds at once: one thread for each core, and a world for each thread.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use afflux_core::measure::TraceRequest;
use afflux_core::setting::Setting;
use afflux_core::target::Progress;
use afflux_sim::{Outcome, Scenario, SimError, Simulation};

use crate::failure::Failure;
use crate::progress::{Line, interruption, words};

/// A world to be run.
#[derive(Clone)]
pub(crate) struct World {
    /// What it is made of.
    pub(crate) scenario: Scenario,
    /// How traffic is regulated in it.
    pub(crate) setting: Setting,
    /// Its seed.
    pub(crate) seed: u64,
    /// What is traced besides.
    pub(crate) trace: Option<TraceRequest>,
    /// What tells it from its neighbours, for errors.
    pub(crate) told: String,
}

/// What is shorter needs no progress.
const QUIET: Duration = Duration::from_secs(2);

/// Without a terminal, a line at most so often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The bar is drawn in thousandths of a world.
const PARTS: f64 = 1_000.0;

/// Watches a number of worlds.
struct Watch {
    line: Line,
    worlds: usize,
    began: Instant,
    done: AtomicUsize,
    /// How far the world of each thread has come, in millionths.
    parts: Vec<AtomicU64>,
    interrupted: Arc<AtomicBool>,
    /// One world failed, so that the others need not go on.
    failed: AtomicBool,
}

/// What one thread tells the watch.
struct Seat<'a> {
    watch: &'a Watch,
    number: usize,
}

const MILLION: f64 = 1e6;

impl Watch {
    fn new(worlds: usize, threads: usize) -> Result<Self, Failure> {
        Ok(Self {
            line: Line::new((worlds as f64 * PARTS) as u64, LINE_EVERY)?,
            worlds,
            began: Instant::now(),
            done: AtomicUsize::new(0),
            parts: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            interrupted: interruption()?,
            failed: AtomicBool::new(false),
        })
    }

    fn show(&self) {
        let took = self.began.elapsed();
        if took < QUIET {
            return;
        }
        let under_way: u64 = self.parts.iter().map(|part| part.load(Ordering::Relaxed)).sum();
        let whole = self.done.load(Ordering::Relaxed);
        let done = whole as f64 + under_way as f64 / MILLION;
        let pace = took.as_secs_f64() / done.max(1e-6);
        let left = Duration::from_secs_f64((pace * (self.worlds as f64 - done).max(0.0)).min(1e9));
        let percent = done / self.worlds as f64 * 100.0;
        self.line.at((done * PARTS) as u64);
        let line = match self.worlds {
            1 => format!("{percent:.0}% of the run, about {} left", words(left)),
            worlds => format!("{whole} of {worlds} worlds done, about {} left", words(left)),
        };
        self.line.say(line);
    }
}

impl Progress for Seat<'_> {
    fn reached(&self, part: f64) {
        self.watch.parts[self.number].store((part * MILLION) as u64, Ordering::Relaxed);
        self.watch.show();
    }

    fn is_cancelled(&self) -> bool {
        self.watch.interrupted.load(Ordering::Relaxed) || self.watch.failed.load(Ordering::Relaxed)
    }
}

/// Runs the worlds that `make` makes of the numbers below `count`, and gives what `keep` keeps of
/// each, in their order. Nobody waits for a world that is slow, and outcomes do not pile up.
///
/// # Errors
/// The first world that cannot be run, or that the user ended it all.
pub(crate) fn run_all<T: Send>(
    count: usize,
    make: &(dyn Fn(usize) -> Result<World, Failure> + Sync),
    keep: &(dyn Fn(usize, Outcome) -> T + Sync),
) -> Result<Vec<T>, Failure> {
    let kept = run_until_ended(count, make, keep)?;
    if kept.len() < count { Err(interrupted()) } else { Ok(kept) }
}

/// The same, but when the user ends it, gives the worlds before the first that was not run.
///
/// # Errors
/// The first world that cannot be run.
pub(crate) fn run_until_ended<T: Send>(
    count: usize,
    make: &(dyn Fn(usize) -> Result<World, Failure> + Sync),
    keep: &(dyn Fn(usize, Outcome) -> T + Sync),
) -> Result<Vec<T>, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(count).max(1);
    let watch = Watch::new(count, threads)?;
    let next = AtomicUsize::new(0);
    let kept: Mutex<Vec<Option<T>>> = Mutex::new((0..count).map(|_| None).collect());
    let failure: Mutex<Option<Failure>> = Mutex::default();
    let work = |number: usize| {
        let seat = Seat { watch: &watch, number };
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count || seat.is_cancelled() {
                return;
            }
            match make(at).and_then(|world| run(&world, &seat)) {
                Ok(Some(outcome)) => {
                    let one = keep(at, outcome);
                    kept.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(one);
                }
                Ok(None) => return,
                Err(error) => {
                    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    failure.get_or_insert(error);
                    watch.failed.store(true, Ordering::Relaxed);
                }
            }
            watch.done.fetch_add(1, Ordering::Relaxed);
            watch.parts[number].store(0, Ordering::Relaxed);
            watch.show();
        }
    };
    std::thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || work(number));
        }
    });
    watch.line.finish();
    if let Some(failure) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(failure);
    }
    let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(kept.into_iter().map_while(|one| one).collect())
}

/// What a world showed; nothing if it was ended before.
fn run(world: &World, progress: &dyn Progress) -> Result<Option<Outcome>, Failure> {
    let run = Simulation::new(&world.scenario, &world.setting, world.seed)
        .and_then(|simulation| simulation.tracing(world.trace).run(progress));
    match run {
        Ok(outcome) => Ok(Some(outcome)),
        Err(SimError::Cancelled) => Ok(None),
        Err(other) => Err(Failure::input(format!("{}, seed {}: {other}", world.told, world.seed))),
    }
}

fn interrupted() -> Failure {
    Failure::broken("interrupted before all worlds were run; nothing is kept")
}

#[cfg(test)]
mod tests {
    use afflux_core::setting::Setting;

    use super::*;

    #[test]
    fn what_is_kept_stands_in_order_and_one_failure_ends_it() {
        let overrides = ["run.settle=10ms", "run.length=1s", "servers.count=1", "clients.count=1"];
        let make = |seed: usize| {
            let scenario = Scenario::default().with(&overrides).unwrap();
            let (setting, told) = (Setting::none(), "it".to_owned());
            Ok(World { scenario, setting, seed: seed as u64, trace: None, told })
        };
        let kept = run_all(7, &make, &|at, outcome| (at as u64, outcome.seed)).unwrap();
        assert_eq!(kept, (0..7).map(|seed| (seed, seed)).collect::<Vec<_>>());
        let broken = |at: usize| if at == 3 { Err(Failure::input("no")) } else { make(at) };
        let error = run_all(7, &broken, &|at, _| at).unwrap_err();
        assert_eq!(error.to_string(), "no");
    }
}
