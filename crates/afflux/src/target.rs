//! What `--on` names: a lab, directories, any other engine, wrappers around one, a simulated
//! scenario, or a command under the library, as something to measure on.

use std::fmt::Write as _;
use std::io::Write;

use afflux_core::measure::Measurement;
use afflux_core::setting::Setting;
use afflux_core::target::{Run, Target, TargetError};
use afflux_core::workload::Workload;
use afflux_sim::SimTarget;
use afflux_store::engine::registry::{ENGINES, EngineSpec, EngineSpecError};
use afflux_store::engine::wrap::WRAPPERS;
use afflux_store::lab::cluster::status::LabStatus;
use afflux_store::lab::cluster::{self, Cluster, ClusterError, ClusterOptions};
use afflux_store::load::EngineTarget;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::progress::interruption;
use crate::run::target::CommandTarget;
use crate::worlds::scenarios;

/// The lab that `--on lab` starts when none is running: as `afflux lab up` would.
const SERVERS: u32 = 4;
const DEVICE: &str = "hdd";

/// The one line about `--on` in the help of commands; the end of their help has the rest.
pub(crate) const ABOUT: &str = "What to run on, as in lab (a running one, else one for this \
    command), dirs:DIR,DIR, sim:SCENARIO, limit:16@lab; see below";

/// The end of the help of a command that takes `--on`: what that may name, and `rest`.
pub(crate) fn help(rest: &str) -> String {
    let simulated = (SIMULATED, "a simulated scenario, shipped or a file; see afflux sim");
    let command = (COMMAND, "a command of your own under the library, in place of a workload");
    let engines = ENGINES.iter().map(|entry| (entry.grammar, entry.about));
    let wrappers = WRAPPERS.iter().map(|entry| (entry.grammar, entry.about));
    let mut text = "What --on takes:\n".to_owned();
    for (grammar, about) in engines.chain([simulated, command]).chain(wrappers) {
        // A string takes whatever is written to it.
        let _ = writeln!(text, "  {grammar}\n          {about}");
    }
    format!("{text}\n{rest}")
}

/// How simulated targets are written.
const SIMULATED: &str = "sim:SCENARIO, or sim:SCENARIO,KEY=VALUE,...";

/// How commands under the library are written.
const COMMAND: &str = "cmd:COMMAND LINE, or run:COMMAND LINE";

/// The command line of a target that is a command under the library.
pub(crate) fn command(text: &str) -> Option<&str> {
    text.strip_prefix("cmd:").or_else(|| text.strip_prefix("run:"))
}

/// Opens the target written as `text`.
pub(crate) fn open(text: &str, talk: &mut dyn Write) -> Result<Box<dyn Target>, Failure> {
    let is_well = |status: LabStatus| status.is_well();
    if text == "lab" && !LabStatus::of(&cluster::default_dir()).is_ok_and(is_well) {
        return temporary_lab(SERVERS, DEVICE, talk);
    }
    if let Some(spec) = simulated(text) {
        let scenario = scenarios::load_with(spec)?.scenario;
        return Ok(Box::new(SimTarget::new(text, scenario)));
    }
    if let Some(command) = command(text) {
        // From here on Ctrl-C must not end this process before it has ended the command.
        interruption()?;
        return Ok(Box::new(CommandTarget::new(text, command)?));
    }
    let spec: EngineSpec = text.parse().map_err(|error| match error {
        EngineSpecError::Unknown { .. } => {
            Failure::input(format!("{error}; or {SIMULATED}; or {COMMAND}"))
        }
        other => Failure::input(other),
    })?;
    // Connecting once here tells a wrong name apart from a failure in the middle of a run.
    spec.connect().map_err(Failure::input)?;
    Ok(Box::new(EngineTarget::new(text, Box::new(move || spec.connect()))))
}

/// What stands after `sim:` in a target that is simulated.
fn simulated(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("sim")?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(':') }
}

/// The text of the scenario behind a simulated target; empty behind any other.
pub(crate) fn scenario_text(text: &str) -> Result<String, Failure> {
    let loaded = simulated(text).map(scenarios::load_with).transpose()?;
    Ok(loaded.map_or(String::new(), |loaded| loaded.text))
}

/// Threads of a machine end somewhere: clients that real engines may have.
const MOST_REAL_CLIENTS: u32 = 1_024;

/// The number of clients that was asked for, if the target written as `on` can have so many. A
/// simulated one says itself where its paths do not fit into memory.
pub(crate) fn clients(asked: u32, on: &str) -> Result<u32, Failure> {
    if simulated(on).is_none() && asked > MOST_REAL_CLIENTS {
        return Err(Failure::input(format!(
            "--clients {asked}: each is a thread with connections of its own here, and {on} takes \
             at most {MOST_REAL_CLIENTS}; simulated ones may be more: --on sim:SCENARIO"
        )));
    }
    Ok(asked)
}

/// Starts a lab in a directory of its own; both go away with the target.
pub(crate) fn temporary_lab(
    servers: u32,
    device: &str,
    talk: &mut dyn Write,
) -> Result<Box<dyn Target>, Failure> {
    let dir = tempfile::Builder::new()
        .prefix("afflux-lab-")
        .tempdir()
        .map_err(|error| Failure::broken(format!("cannot make a directory for a lab: {error}")))?;
    // From here on Ctrl-C must not end this process before it has ended the lab.
    interruption()?;
    let mut options = ClusterOptions::new(dir.path()).map_err(Failure::broken)?;
    options.servers = servers;
    options.device = device.parse().map_err(Failure::input)?;
    writeln!(talk, "afflux: starting a lab of {servers} x {device} for this run")?;
    let cluster = Cluster::start(&options).map_err(lab_failure)?;
    let spec = EngineSpec::Lab { dir: Some(cluster.dir().to_owned()) };
    let connect = move || spec.connect();
    let engines = EngineTarget::new(&format!("a lab of {servers} x {device}"), Box::new(connect));
    Ok(Box::new(TemporaryLab { engines, _cluster: cluster, _dir: dir }))
}

/// A failure of a lab: the user's to mend, or not.
pub(crate) fn lab_failure(error: ClusterError) -> Failure {
    if error.is_input() { Failure::input(error) } else { Failure::broken(error) }
}

/// A lab for one run. The fields are dropped in this order: clients, servers, directory.
struct TemporaryLab {
    engines: EngineTarget,
    _cluster: Cluster,
    _dir: TempDir,
}

impl Target for TemporaryLab {
    fn name(&self) -> String {
        self.engines.name()
    }

    fn prepare(&mut self, workload: &Workload) -> Result<(), TargetError> {
        self.engines.prepare(workload)
    }

    fn clear(&mut self, workload: &Workload) -> Result<(), TargetError> {
        self.engines.clear(workload)
    }

    fn deploy(&mut self, setting: &Setting) -> Result<(), TargetError> {
        self.engines.deploy(setting)
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Measurement, TargetError> {
        self.engines.run(run)
    }
}
