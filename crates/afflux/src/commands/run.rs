//! `afflux run`: regulates and measures the I/O of a command that knows nothing of it.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use afflux_core::setting::Setting;
use afflux_core::units::Span;
use afflux_node::clock;
use afflux_node::shared::Segment;

use crate::commands::guard::exit_code;
use crate::failure::{Failure, Status};
use crate::run::collect::Gathered;
use crate::run::folder::{self, About};
use crate::run::job::{self, Joined, Of};
use crate::run::launch::{self, Ended};
use crate::run::record::{FORMAT, RunRecord, VERSION};
use crate::run::{library, show};
use crate::settings::SettingFlags;

/// Arguments of `afflux run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    setting: SettingFlags,
    /// What is done: observe (nothing is held), gate, or write-behind (gate, and full parts of what
    /// is written go to the server while the command goes on)
    #[arg(long, value_enum, default_value_t = Mode::Gate)]
    mode: Mode,
    /// The same as --mode observe
    #[arg(long, conflicts_with_all = ["mode", "policy", "rules"])]
    observe: bool,
    /// Regulate files below this directory only; may be given more than once. Without it, files of
    /// all file systems that are not memory
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
    /// Keep the report in this directory, one file for each run; reports of many ranks add up
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// End with 1 if less than this part of the bytes of files was seen, as in 99%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    require_coverage: Option<f64>,
    /// Share windows with the other runs of this name on this machine, as the ranks of one program
    /// should [default: the batch system's job, else none but this run]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Share them with the runs of other users of that name, too, where the node's controllers are
    /// kept (`afflux ctl segment keep`)
    #[arg(long, requires = "job")]
    common: bool,
    /// A request that was held for this long goes all the same
    #[arg(long, value_name = "TIME", default_value = "60s")]
    patience: Span,
    /// Print the report as JSON on stdout, after what the command printed
    #[arg(long)]
    json: bool,
    /// Print no report
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// What is done with the command's I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    Observe,
    Gate,
    WriteBehind,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Gate => "gate",
            Self::WriteBehind => "write-behind",
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  afflux run --observe -- ./simulation                    what it does, nothing held
  afflux run --rules found.rules --root /scratch -- ./simulation
  afflux run --policy fixed:4 --report ranks -- ./rank    once for each rank; then
  afflux why ranks
  afflux run --mode write-behind -- tar cf /scratch/a.tar /home
  afflux run --observe --require-coverage 99% -- make     is anything not seen?

The command's exit status is handed on; the report is printed on stderr. AFFLUX_DISABLE=1 in the
environment makes the library do nothing. While it runs, `afflux ctl` changes rules or pauses.";

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>();
    let number = number.ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "write a part in percent, as in 99%".to_owned())
}

/// Runs the command.
pub(crate) fn run(
    args: &RunArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let library = library::find()?;
    let mode = if args.observe { Mode::Observe } else { args.mode };
    let setting = args.setting.setting()?;
    job::check(&setting)?;
    let roots = roots(&args.root)?;
    let job = job::name(args.job.as_deref(), if args.common { Of::All } else { Of::User });
    let in_force = match mode {
        Mode::Observe => None,
        _ => job::join(&job, &setting, talk)?,
    };
    let segment = in_force.as_ref().map_or(Segment::Private, |joined| joined.segment);
    if args.common && mode != Mode::Observe && segment != Segment::Node {
        writeln!(talk, "afflux: nothing is kept for the node: no other user's run shares windows")?;
    }
    let about = About {
        pid: std::process::id(),
        job,
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        mode: mode.name().to_owned(),
        segment: (mode != Mode::Observe).then(|| segment.name().to_owned()),
    };
    let folder = folder::make(&about)?;
    let mut record = blank(&about, &setting, &roots);
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    let before = std::env::var_os("LD_PRELOAD");
    command.env("LD_PRELOAD", library::preload(&library, before.as_deref())?);
    command.env("AFFLUX_RUN", folder.path());
    command.env("AFFLUX_MODE", mode.name());
    command.env("AFFLUX_ROOTS", roots.join(":"));
    // Without a job at the node's controllers, each process has some of its own.
    command.env("AFFLUX_JOB", in_force.as_ref().map_or("", |_| &about.job));
    command.env("AFFLUX_SEGMENT", segment.name());
    command.env("AFFLUX_SETTING", &setting.label);
    command.env("AFFLUX_PATIENCE", args.patience.as_secs_f64().ceil().to_string());
    let (ended, gathered) = under_the_library(&mut command, folder.path(), &mut record, in_force)?;
    complete(&mut record, &ended, gathered);
    keep(&record, args.report.as_deref(), talk);
    if args.json {
        serde_json::to_writer(&mut *out, &record)?;
        writeln!(out)?;
    } else if !args.quiet {
        show::show(&record, talk)?;
    }
    out.flush()?;
    drop(folder);
    let code = verdict(&record, ended.status, args.require_coverage, talk)?;
    std::process::exit(code)
}

/// The roots as the kernel names them; a colon would end one in the environment.
fn roots(given: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let one = |root: &PathBuf| {
        let path = root
            .canonicalize()
            .map_err(|error| Failure::input(format!("--root {}: {error}", root.display())))?;
        match path.to_str().filter(|path| !path.contains(':')) {
            Some(path) => Ok(path.to_owned()),
            None => Err(Failure::input(format!(
                "--root {}: its name must be text without a colon",
                path.display()
            ))),
        }
    };
    given.iter().map(one).collect()
}

/// A report with what is known before the command runs.
fn blank(about: &About, setting: &Setting, roots: &[String]) -> RunRecord {
    RunRecord {
        format: FORMAT.to_owned(),
        version: VERSION,
        started_at: clock::calendar_secs(),
        seconds: 0.0,
        runs: 1,
        hosts: vec![rustix::system::uname().nodename().to_string_lossy().into_owned()],
        command: about.command.clone(),
        mode: about.mode.clone(),
        setting: setting.label.clone(),
        roots: roots.to_vec(),
        exits: Vec::new(),
        programs: 0,
        processes: 0,
        segments: about.segment.iter().cloned().collect(),
        private: 0,
        lost: 0,
        left_running: 0,
        faults: 0,
        kernel: Default::default(),
        loader: Default::default(),
        own: Default::default(),
        seen: Default::default(),
        escapes: Default::default(),
        strangers: Default::default(),
        calls: Default::default(),
        paths: Vec::new(),
        remarks: Vec::new(),
    }
}

/// How often counters of programs that have ended are gathered.
const GATHER: Span = Span::from_millis(500);

/// Runs the command to its end. A signal that would end this process ends the command instead,
/// whose end is then reported.
fn under_the_library(
    command: &mut Command,
    folder: &Path,
    record: &mut RunRecord,
    in_force: Option<Joined>,
) -> Result<(Ended, Gathered), Failure> {
    launch::adopt_orphans();
    let start = clock::now();
    command.env("AFFLUX_START", start.as_nanos().to_string());
    let child = launch::start(command).map_err(|error| {
        let program = command.get_program().to_string_lossy();
        Failure::input(format!("cannot start {program}: {error}"))
    })?;
    let pid = rustix::process::Pid::from_child(&child);
    let hand_on = move || {
        // At a terminal the whole group was told, this process and the command alike.
        if !crate::printer::Printer::is_watched() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    };
    ctrlc::set_handler(hand_on).map_err(Failure::broken)?;
    let (gathered, done) = (Mutex::new(Gathered::default()), AtomicBool::new(false));
    let ended = std::thread::scope(|scope| {
        let gatherer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::park_timeout(clock::std_duration(GATHER));
                if let Ok(mut gathered) = gathered.lock() {
                    gathered.gather(folder, false);
                }
                in_force.as_ref().inspect(|joined| joined.keep());
            }
        });
        let ended = launch::wait(&child);
        done.store(true, Ordering::Relaxed);
        gatherer.thread().unpark();
        ended
    });
    record.seconds = clock::now().since(start).as_secs_f64();
    let ended = ended.map_err(|error| Failure::broken(format!("cannot wait: {error}")))?;
    let mut gathered = gathered.into_inner().unwrap_or_default();
    gathered.gather(folder, true);
    Ok((ended, gathered))
}

/// Fills in what came of it.
fn complete(record: &mut RunRecord, ended: &Ended, gathered: Gathered) {
    record.exits = vec![exit_code(ended.status)];
    record.left_running = u64::from(ended.left_running);
    record.kernel = ended.kernel;
    record.programs = gathered.programs;
    record.processes = gathered.processes;
    record.private = gathered.private;
    record.lost = gathered.lost;
    record.faults = gathered.faults;
    record.seen = gathered.seen;
    record.loader = gathered.loader;
    record.own = gathered.own;
    record.calls = gathered.calls;
    record.escapes = gathered.escapes;
    record.strangers = gathered.strangers;
    record.paths = gathered.paths.into_values().collect();
    record.remarks = gathered.unread;
    if gathered.programs == 0 {
        let command = record.command.first().cloned().unwrap_or_default();
        record.remarks.push(format!(
            "the library was not loaded: {command} is static, privileged, or AFFLUX_DISABLE is set"
        ));
    }
}

/// Where the last report of this user is kept, for `afflux why`.
pub(crate) fn last_report() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    Some(state.or_else(home)?.join("afflux/last-run.json"))
}

/// Writes the report where it was asked for, and as the last one. The command has run: what fails
/// here is told, and changes nothing.
fn keep(record: &RunRecord, dir: Option<&Path>, talk: &mut dyn Write) {
    let write = |path: &Path| -> std::io::Result<()> {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let partial = path.with_extension(format!("{}.partial", std::process::id()));
        std::fs::write(&partial, serde_json::to_vec(record)?)?;
        std::fs::rename(&partial, path)
    };
    if let Some(path) = last_report() {
        // It is a convenience; a home that cannot be written is no news.
        let _ = write(&path);
    }
    let host = record.hosts.first().cloned().unwrap_or_default();
    let name = format!("{host}-{}-{}.json", std::process::id(), record.started_at);
    if let Some(path) = dir.map(|dir| dir.join(name))
        && let Err(error) = write(&path)
    {
        let _ = writeln!(talk, "afflux: cannot write the report {}: {error}", path.display());
    }
}

/// The exit status: the command's, unless it is good and the coverage is not.
fn verdict(
    record: &RunRecord,
    status: ExitStatus,
    required: Option<f64>,
    talk: &mut dyn Write,
) -> Result<i32, Failure> {
    let code = exit_code(status);
    let covered = record.coverage_of_all().percent();
    if let Some(required) = required.filter(|required| covered < *required) {
        writeln!(talk, "afflux: {covered:.2}% of the bytes of files were seen, not {required}%")?;
        return Ok(if code == 0 { 1 } else { code });
    }
    Ok(code)
}
