//! `afflux ctl`: looks at runs that are under way, changes their rules, pauses and resumes them.

use std::io::Write;

use afflux_node::shared::{self, Mode, Shared};
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
}

const EXAMPLES: &str = "\
Examples:
  afflux ctl list
  afflux ctl set --rules better.rules
  afflux ctl set --policy fixed:4 --run 4711
  afflux ctl pause
  afflux ctl resume";

/// Runs the command.
pub(crate) fn run(args: &CtlArgs, out: &mut dyn Write) -> Result<Status, Failure> {
    let runs = under_way();
    if matches!(args.action, Action::List) {
        return list(&runs, args.json, out);
    }
    let about = chosen(&runs, args.run)?;
    if about.mode == "observe" {
        return Err(Failure::input(format!("run {} observes: nothing is held in it", about.pid)));
    }
    let shared = Shared::attach(&shared::default_path()).map_err(Failure::broken)?;
    let tenant = shared.tenant(&about.job).map_err(Failure::broken)?;
    match &args.action {
        Action::List => {}
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
            "setting": text,
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
    let mut table = table(&["run", "mode", "command"]);
    for about in runs {
        table.add_row([about.pid.to_string(), about.mode.clone(), about.command.join(" ")]);
    }
    writeln!(out, "{table}")?;
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
