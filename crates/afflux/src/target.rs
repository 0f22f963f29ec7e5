//! What `--on` names: a lab, directories, any other engine, wrappers around one, a simulated
//! scenario, or a command under the library, as something to measure on.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use afflux_core::target::Target;
use afflux_sim::SimTarget;
use afflux_store::engine::Engine;
use afflux_store::engine::registry::{ConnectError, ENGINES, EngineSpec, EngineSpecError};
use afflux_store::engine::wrap::WRAPPERS;
use afflux_store::lab::cluster::status::LabStatus;
use afflux_store::lab::cluster::{self, Cluster, ClusterError, ClusterOptions};
use afflux_store::load::{Connect, EngineTarget};
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
    let (name, connect) = connection(text, spec, talk)?;
    Ok(Box::new(EngineTarget::new(&name, connect)))
}

/// The object engine written as `text`: what results call it, and what connects clients to it.
pub(crate) fn engine(text: &str, talk: &mut dyn Write) -> Result<(String, Connect), Failure> {
    connection(text, text.parse().map_err(Failure::input)?, talk)
}

fn connection(
    text: &str,
    spec: EngineSpec,
    talk: &mut dyn Write,
) -> Result<(String, Connect), Failure> {
    let is_well = |status: LabStatus| status.is_well();
    if spec == (EngineSpec::Lab { dir: None })
        && !LabStatus::of(&cluster::default_dir()).is_ok_and(is_well)
    {
        return connect_temporary_lab(SERVERS, DEVICE, talk);
    }
    // Connecting once here tells a wrong name apart from a failure in the middle of a run.
    spec.connect().map_err(Failure::input)?;
    Ok((text.to_owned(), Box::new(move || spec.connect())))
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

/// A target on a lab in a directory of its own; both go away with the target.
pub(crate) fn temporary_lab(
    servers: u32,
    device: &str,
    talk: &mut dyn Write,
) -> Result<Box<dyn Target>, Failure> {
    let (name, connect) = connect_temporary_lab(servers, device, talk)?;
    Ok(Box::new(EngineTarget::new(&name, connect)))
}

/// Starts a lab in a directory of its own; both go away with what connects to it.
fn connect_temporary_lab(
    servers: u32,
    device: &str,
    talk: &mut dyn Write,
) -> Result<(String, Connect), Failure> {
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
    let lab = TemporaryLab { cluster, _dir: dir };
    Ok((format!("a lab of {servers} x {device}"), Box::new(move || lab.connect())))
}

/// A failure of a lab: the user's to mend, or not.
pub(crate) fn lab_failure(error: ClusterError) -> Failure {
    if error.is_input() { Failure::input(error) } else { Failure::broken(error) }
}

/// A lab for one run. The fields are dropped in this order: servers, directory.
struct TemporaryLab {
    cluster: Cluster,
    _dir: TempDir,
}

impl TemporaryLab {
    fn connect(&self) -> Result<Arc<dyn Engine>, ConnectError> {
        EngineSpec::Lab { dir: Some(self.cluster.dir().to_owned()) }.connect()
    }
}
