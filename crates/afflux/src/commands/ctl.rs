//! `afflux ctl`: looks at runs that are under way, changes their rules, pauses and resumes them.

use std::io::Write;

use afflux_node::shared::{self, AttachError, Mode, Segment, Shared};
use clap::Subcommand;

use crate::failure::{Failure, Status};
use crate::run::folder::{About, under_way};
use crate::run::job;
use crate::settings::SettingFlags;
use crate::tables::{number, table};

/// Arguments of `afflux ctl`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CtlArgs {
    #[command(subcommand)]
    action: Action,
    /// The run, by the process that `afflux ctl list` shows; needed when there are several
    #[arg(long, value_name = "PID", global = true)]
    run: Option<u32>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The runs of this user that are under way
    List,
    /// How the paths of a run stand
    Show,
    /// Put other rules, or another policy, in force; windows carry over
    Set(SettingFlags),
    /// Hold nothing until it is resumed
    Pause,
    /// Hold requests again as the setting says
    Resume,
    /// As root: have all users of this node share its controllers, each job its windows, instead of
    /// each user having some
    #[command(subcommand)]
    Segment(SegmentAction),
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum SegmentAction {
    /// Keep a segment for the node, until it is dropped or the machine ends
    Keep,
    /// Remove it, when no run uses it
    Drop,
}

const EXAMPLES: &str = "\
Examples:
  afflux ctl list
  afflux ctl set --rules better.rules
  afflux ctl set --policy fixed:4 --run 4711
  afflux ctl pause
  afflux ctl resume
  afflux ctl segment keep          as root; users trust each other then (docs/run.md)";

/// Runs the command.
pub(crate) fn run(args: &CtlArgs, out: &mut dyn Write) -> Result<Status, Failure> {
    if let Action::Segment(action) = args.action {
        return segment(action, args.json, out);
    }
    let runs = under_way();
    if matches!(args.action, Action::List) {
        return list(&runs, args.json, out);
    }
    let about = chosen(&runs, args.run)?;
    if about.mode == "observe" {
        return Err(Failure::input(format!("run {} observes: nothing is held in it", about.pid)));
    }
    let shared = match about.segment.as_deref().and_then(Segment::named) {
        Some(segment @ (Segment::Node | Segment::User)) => Shared::of(segment),
        _ => {
            return Err(Failure::input(format!(
                "each process of run {} is regulated by itself: nobody else can change that",
                about.pid
            )));
        }
    };
    let shared = shared.map_err(Failure::broken)?;
    let tenant = shared.tenant(&about.job).map_err(Failure::broken)?;
    match &args.action {
        Action::List | Action::Segment(_) => {}
        Action::Show => return show(&shared, tenant, args.json, out),
        Action::Set(flags) => {
            let setting = flags.setting()?;
            job::check(&setting)?;
            let set = shared.set(tenant, &setting, &setting.label, false);
            set.map_err(Failure::broken)?;
        }
        Action::Pause => shared.set_mode(tenant, Mode::Pause).map_err(Failure::broken)?,
        Action::Resume => shared.set_mode(tenant, Mode::Gate).map_err(Failure::broken)?,
    }
    if args.json {
        let setting = shared.setting_of(tenant);
        let (generation, mode, text) = setting.unwrap_or((0, Mode::Gate, String::new()));
        let state = serde_json::json!({
            "run": about.pid, "generation": generation, "paused": mode == Mode::Pause,
            "setting": text, "segment": about.segment,
        });
        writeln!(out, "{state}")?;
    }
    Ok(Status::Done)
}

/// The run that is meant.
fn chosen(runs: &[About], wanted: Option<u32>) -> Result<&About, Failure> {
    match (runs, wanted) {
        (_, Some(pid)) => runs.iter().find(|about| about.pid == pid).ok_or_else(|| {
            Failure::input(format!("no run {pid} is under way: see `afflux ctl list`"))
        }),
        ([], None) => Err(Failure::input("no run is under way")),
        ([one], None) => Ok(one),
        _ => Err(Failure::input("several runs are under way: name one with --run PID")),
    }
}

fn list(runs: &[About], json: bool, out: &mut dyn Write) -> Result<Status, Failure> {
    if json {
        serde_json::to_writer(&mut *out, runs)?;
        writeln!(out)?;
        return Ok(Status::Done);
    }
    let mut table = table(&["run", "mode", "windows of", "command"]);
    for about in runs {
        let segment = match about.segment.as_deref() {
            Some("private") => "each process",
            Some(segment) => segment,
            None => "",
        };
        let (run, command) = (about.pid.to_string(), about.command.join(" "));
        table.add_row([run, about.mode.clone(), segment.to_owned(), command]);
    }
    writeln!(out, "{table}")?;
    Ok(Status::Done)
}

/// Keeps or drops the node's segment.
fn segment(action: SegmentAction, json: bool, out: &mut dyn Write) -> Result<Status, Failure> {
    let (changed, kept) = match action {
        SegmentAction::Keep => (shared::keep(), true),
        SegmentAction::Drop => (shared::drop_kept(), false),
    };
    let changed = changed.map_err(|error| match &error {
        AttachError::System { .. } if !rustix::process::geteuid().is_root() => {
            Failure::input(format!("{error}: only root can"))
        }
        AttachError::System { .. } => Failure::broken(error),
        _ => Failure::input(error.to_string()),
    })?;
    let path = Segment::Node.path().unwrap_or_default();
    let path = path.to_string_lossy();
    if json {
        let state = serde_json::json!({ "file": path, "kept": kept, "changed": changed });
        writeln!(out, "{state}")?;
        return Ok(Status::Done);
    }
    match (kept, changed) {
        (true, true) => writeln!(out, "{path} is kept: runs that start from now on use it")?,
        (true, false) => writeln!(out, "{path} is kept already")?,
        (false, true) => writeln!(out, "{path} is gone: runs use the controllers of their users")?,
        (false, false) => writeln!(out, "no segment is kept for this node")?,
    }
    Ok(Status::Done)
}

fn show(shared: &Shared, tenant: u32, json: bool, out: &mut dyn Write) -> Result<Status, Failure> {
    let paths: Vec<_> =
        shared.paths().into_iter().filter(|path| path.key.tenant == tenant).collect();
    let server = |number| shared.name_of(number).unwrap_or_else(|| format!("server {number}"));
    if json {
        let one = |path: &shared::PathReport| {
            serde_json::json!({
                "server": server(path.key.server), "class": path.key.class,
                "window": path.state.map(|state| state.window()),
                "gap_nanos": path.state.map(|state| state.gap().as_nanos()),
                "in_flight": path.state.map_or(0, |state| state.in_flight()),
                "waiting": path.waiting,
                "replies": path.counted.replies, "bytes": path.counted.bytes,
            })
        };
        let all: Vec<_> = paths.iter().map(one).collect();
        serde_json::to_writer(&mut *out, &all)?;
        writeln!(out)?;
        return Ok(Status::Done);
    }
    let mut table = table(&["path", "window", "gap ms", "in flight", "waiting", "replies", "MB"]);
    for path in &paths {
        table.add_row([
            format!("{} {}", server(path.key.server), path.key.class),
            path.state.map_or_else(String::new, |state| number(state.window())),
            path.state.map_or_else(String::new, |state| number(state.gap().as_millis_f64())),
            path.state.map_or(0, |state| state.in_flight()).to_string(),
            path.waiting.to_string(),
            path.counted.replies.to_string(),
            number(path.counted.bytes as f64 / 1e6),
        ]);
    }
    writeln!(out, "{table}")?;
    Ok(Status::Done)
}
