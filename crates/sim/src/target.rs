//! A scenario as something to measure on: bench, search and calibrate know nothing else.

use afflux_core::measure::Measurement;
use afflux_core::setting::Setting;
use afflux_core::target::{Run, Target, TargetError};
use afflux_core::workload::Workload;

use crate::outcome::Outcome;
use crate::scenario::{Application, Scenario, WATCHING, quoted};
use crate::world::{SimError, Simulation};

/// A scenario as [`Target`]. The scenario's own applications, time and setting are replaced by what
/// is asked for.
///
/// ```
/// use afflux_core::setting::Setting;
/// use afflux_core::target::{Run, Target, Unwatched};
/// use afflux_core::units::Span;
/// use afflux_core::workload::preset;
/// use afflux_sim::{Scenario, SimTarget};
///
/// let mut target = SimTarget::new("sim:lab", Scenario::default());
/// target.prepare(&preset("random-read").unwrap().workload()).unwrap();
/// target.deploy(&Setting::none()).unwrap();
/// let (settle, length) = (Span::from_secs(1), Span::from_secs(3));
/// let run = Run { seed: 1, settle, length, trace: None, progress: &Unwatched };
/// assert!(target.run(&run).unwrap().data_replies() > 0);
/// ```
pub struct SimTarget {
    name: String,
    scenario: Scenario,
    workload: Option<Workload>,
    setting: Setting,
    last: Option<Outcome>,
}

impl SimTarget {
    /// A target called `name`, as written after `--on`.
    pub fn new(name: &str, scenario: Scenario) -> Self {
        let setting = Setting::none();
        Self { name: name.to_owned(), scenario, workload: None, setting, last: None }
    }

    /// What the last run showed besides its measurement.
    pub const fn last(&self) -> Option<&Outcome> {
        self.last.as_ref()
    }

    /// The command that makes a run again, where workload and setting have names that it can find.
    fn command(&self, workload: &Workload, run: &Run<'_>) -> String {
        let Run { seed, settle, length, .. } = run;
        let [name, target, setting] =
            [&workload.name, &self.name, &self.setting.label].map(|word| quoted(word));
        format!(
            "{WATCHING} bench {name} --on {target} --policy {setting} --clients {} --settle \
             {settle} --length {length} --seed {seed}",
            workload.clients
        )
    }

    fn failed(&self, error: SimError) -> TargetError {
        match error {
            SimError::Cancelled => TargetError::Cancelled,
            other => TargetError::Unsuitable { target: self.name.clone(), why: other.to_string() },
        }
    }
}

impl Target for SimTarget {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&mut self, workload: &Workload) -> Result<(), TargetError> {
        self.workload = Some(workload.clone());
        Ok(())
    }

    fn deploy(&mut self, setting: &Setting) -> Result<(), TargetError> {
        self.setting = setting.clone();
        Ok(())
    }

    fn is_in_real_time(&self) -> bool {
        false
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Measurement, TargetError> {
        let Some(workload) = &self.workload else {
            let (target, doing) = (self.name.clone(), "running".to_owned());
            let why = "no workload was prepared".to_owned();
            return Err(TargetError::Failed { target, doing, why });
        };
        let mut scenario = self.scenario.clone();
        scenario.applications = vec![Application::of(workload.clone())];
        // The workload's own number of clients counts, as on every other target.
        scenario.clients.count = None;
        scenario.run.settle = run.settle;
        scenario.run.length = run.length;
        let simulation =
            Simulation::new(&scenario, &self.setting, run.seed).map_err(|e| self.failed(e))?;
        let simulation = simulation.tracing(run.trace).again_by(self.command(workload, run));
        let outcome = simulation.run(run.progress).map_err(|e| self.failed(e))?;
        let measurement = outcome.measurement.clone();
        self.last = Some(outcome);
        Ok(measurement)
    }
}
