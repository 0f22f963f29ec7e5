//! `afflux sim`: a simulated world, or a sweep over many.

mod show;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use afflux_core::measure::TraceRequest;
use afflux_core::summary::Summary;
use afflux_core::units::Span;
use afflux_sim::scenario::{SHIPPED, manual};
use afflux_sim::{Outcome, Scenario, numbers};
use serde::Serialize;

use crate::commands::bench::whole_seconds;
use crate::experiment::Plan;
use crate::failure::{Failure, Status};
use crate::report::{ResultFile, ResultFolder};
use crate::settings;
use crate::tables::{number, table};
use crate::worlds::crew::{World, run_all};
use crate::worlds::published::{self, Beside};
use crate::worlds::record::{SweepRecord, WorldRecord};
use crate::worlds::scenarios::{self, Loaded};
use crate::worlds::sweep::{SHOWN, Sweep};

/// Arguments of `afflux sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    /// Scenario file, or the name of one that comes along; without it, those are listed
    scenario: Option<String>,
    /// Print what may stand in a scenario: all keys, their values, defaults and meanings; and the
    /// numbers of a run
    #[arg(long, conflicts_with = "scenario")]
    manual: bool,
    /// Seed of all that chance decides; the same seed gives the same bytes on stdout
    #[arg(long, default_value_t = 1)]
    #[arg(value_parser = crate::commands::seed, allow_negative_numbers = true)]
    seed: u64,
    /// Change a value of the scenario; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Traffic control, in place of the scenario's: none, fixed:4, shipped:two-step+fan-in=8, ...
    #[arg(long, value_name = "SETTING")]
    policy: Option<String>,
    /// Counted time, in place of the scenario's, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    length: Option<Span>,
    /// Run a world for each value, on all cores; several give all combinations. Values that have
    /// commas themselves are parted by semicolons
    #[arg(long, value_name = "KEY=A,B,C")]
    sweep: Vec<String>,
    /// Run each world with so many seeds, from --seed on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: Option<u32>,
    /// Numbers that are shown and plotted of a sweep; the CSV has all
    #[arg(long, value_name = "NAME,NAME", default_value = SHOWN)]
    show: String,
    /// Leave out the runs for the scenario's published figures
    #[arg(long)]
    no_figures: bool,
    /// Print JSON, with every client and second
    #[arg(long)]
    json: bool,
    /// Also write a page, plots and their data into this directory, new or empty or with an earlier
    /// result
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Steps of the time series of a page, unless the scenario says how long they are.
const STEPS: u64 = 200;

const EXAMPLES: &str = "\
Examples:
  afflux sim                                      the scenarios that come along
  afflux sim --manual                             all that a scenario may say
  afflux sim contended                            one run
  afflux sim contended --policy fixed:4 --set servers.count=8 --set workload=seq-read
  afflux sim my.toml --out result                 and a page: the course of the run, distributions
  afflux sim ascar                                published figures, with their range over all models
  afflux sim ascar --set model=b                  the same under one of them
  afflux sim ascar --no-figures --sweep model=a,b,c --sweep 'policy.setting=fixed:4;fixed:8'
  afflux sim incast --sweep servers.count=1,2,4,8,16 --seeds 5 --out result
  afflux sim contended --sweep 'policy.setting=none;fixed:4;fixed:4,gap=33ms' --show p99_ms,jain

Times are those of the simulated world; what it took here is told on stderr. To compare settings
with intervals, use a scenario as a target: afflux bench random-write --on sim:contended.";

/// Runs the command.
pub(crate) fn run(
    args: &SimArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    if args.manual {
        write!(out, "{}{}", manual(), numbers::manual())?;
        return Ok(Status::Done);
    }
    let Some(name) = &args.scenario else { return list(args, out) };
    let loaded = scenarios::load(name)?;
    let fixed = args.overrides();
    if args.sweep.is_empty() && args.seeds.is_none() {
        single(args, &loaded, &fixed, out, talk)
    } else {
        sweep(args, &loaded, &fixed, out, talk)
    }
}

impl SimArgs {
    /// What is changed in the scenario, whichever flag says so.
    fn overrides(&self) -> Vec<String> {
        let length = self.length.map(|length| format!("run.length={length}"));
        let policy = self.policy.as_ref().map(|policy| format!("policy.setting={policy}"));
        self.set.iter().cloned().chain(length).chain(policy).collect()
    }
}

/// One run, for programs.
#[derive(Serialize)]
struct Single<'a> {
    afflux_sim: u32,
    scenario: &'a str,
    overrides: &'a [String],
    setting: &'a str,
    seed: u64,
    clients: u32,
    servers: u32,
    settle_secs: f64,
    length_secs: f64,
    summary: &'a Summary,
    outcome: &'a Outcome,
    figures: &'a [Beside],
}

fn single(
    args: &SimArgs,
    loaded: &Loaded,
    fixed: &[String],
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let folder = args.out.as_deref().map(ResultFolder::claim).transpose()?;
    let mut scenario = loaded.clone().with(fixed)?.scenario;
    if folder.is_some() {
        let whole = scenario.run.settle + scenario.run.length;
        scenario.run.series.get_or_insert(Span::from_nanos(whole.as_nanos() / STEPS));
    }
    let setting = scenarios::setting_of(&scenario)?;
    let trace = args.out.as_ref().map(|_| TraceRequest::default());
    let rules = settings::rule_files(&setting.label)?;
    let (seed, told) = (args.seed, loaded.name.clone());
    let world = World { scenario, setting, seed, trace, told };
    let began = Instant::now();
    let mut outcomes = run_all(1, &|_| Ok(world.clone()), &|_, outcome| outcome)?;
    let took = began.elapsed();
    let outcome = outcomes.pop().ok_or_else(|| Failure::broken("one world gave no outcome"))?;
    tell_speed(talk, outcome.ended_secs, &outcome.totals, took)?;
    let figures = match args.no_figures {
        true => Vec::new(),
        false => published::beside(&loaded.scenario, fixed, seed)?,
    };
    let World { scenario, setting, .. } = &world;
    if let Some(folder) = &folder {
        let mut result = result_of(loaded, fixed, scenario, seed);
        result.add_run(&setting.label, seed, &outcome.measurement);
        result.add_rules(&setting.label, rules);
        result.world = Some(WorldRecord::of(scenario, &outcome, figures.clone()));
        keep(folder, &result, talk)?;
    }
    if args.json {
        let single = Single {
            afflux_sim: 1,
            scenario: &scenario.name,
            overrides: fixed,
            setting: &setting.label,
            seed,
            clients: scenario.client_count(),
            servers: scenario.servers.count,
            settle_secs: scenario.run.settle.as_secs_f64(),
            length_secs: scenario.run.length.as_secs_f64(),
            summary: &Summary::of(&outcome.measurement),
            outcome: &outcome,
            figures: &figures,
        };
        serde_json::to_writer_pretty(&mut *out, &single)?;
        writeln!(out)?;
    } else {
        show::print(out, scenario, &setting.label, &outcome)?;
        show::print_beside(out, &figures)?;
    }
    Ok(Status::Done)
}

fn tell_speed(
    talk: &mut dyn Write,
    simulated_secs: f64,
    totals: &afflux_sim::outcome::Totals,
    took: Duration,
) -> Result<(), Failure> {
    let secs = took.as_secs_f64().max(1e-9);
    writeln!(
        talk,
        "afflux: {} s of the world took {} s: {} requests/s, {} events/s",
        number(simulated_secs),
        number(secs),
        thousands(totals.replies as f64 / secs),
        thousands(totals.events as f64 / secs),
    )?;
    Ok(())
}

/// A whole number in groups of three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A sweep, for programs.
#[derive(Serialize)]
struct Swept<'a> {
    afflux_sweep: u32,
    scenario: &'a str,
    overrides: &'a [String],
    #[serde(flatten)]
    sweep: &'a SweepRecord,
}

fn sweep(
    args: &SimArgs,
    loaded: &Loaded,
    fixed: &[String],
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let folder = args.out.as_deref().map(ResultFolder::claim).transpose()?;
    let seeds = (args.seed, args.seeds.unwrap_or(1));
    let sweep = Sweep::new(loaded, fixed, &args.sweep, seeds, &args.show)?;
    let (worlds, began) = (sweep.len(), Instant::now());
    let found = sweep.run()?;
    let (done, secs) = (found.rows.len(), began.elapsed().as_secs_f64());
    if done == 0 {
        return Err(Failure::broken("interrupted before any point of the sweep was done"));
    }
    writeln!(talk, "afflux: {done} worlds took {} s", number(secs))?;
    if let Some(folder) = &folder {
        let scenario = loaded.clone().with(fixed)?.scenario;
        let mut result = result_of(loaded, fixed, &scenario, args.seed);
        result.target = "simulated servers".to_owned();
        result.sweep = Some(found.clone());
        keep(folder, &result, talk)?;
    }
    if args.json {
        let scenario = &loaded.scenario.name;
        let swept = Swept { afflux_sweep: 1, scenario, overrides: fixed, sweep: &found };
        serde_json::to_writer_pretty(&mut *out, &swept)?;
        writeln!(out)?;
    } else {
        print_sweep(out, loaded, &found)?;
    }
    if done < worlds {
        return Err(Failure::broken(format!(
            "interrupted: {done} of {worlds} worlds were run, and only those are shown"
        )));
    }
    Ok(Status::Done)
}

/// A result about a scenario, without its runs.
fn result_of(loaded: &Loaded, fixed: &[String], scenario: &Scenario, seed: u64) -> ResultFile {
    let (settle, length) = (scenario.run.settle, scenario.run.length);
    let plan = Plan { pairs: 0, settle, length, seed, trace: None };
    let count = scenario.servers.count;
    let servers = if count == 1 { "1 simulated server" } else { "simulated servers" };
    let target = if count == 1 { servers.to_owned() } else { format!("{count} {servers}") };
    let changed: String = fixed.iter().map(|text| format!("# changed: {text}\n")).collect();
    let text = format!("{changed}{}", loaded.text);
    let mut result = ResultFile::begin(&target, &scenario.applications[0].workload, &text, &plan);
    result.workload.name.clone_from(&scenario.name);
    result.workload.about.clone_from(&scenario.about);
    result.workload.clients = scenario.client_count();
    result
}

fn keep(folder: &ResultFolder, result: &ResultFile, talk: &mut dyn Write) -> Result<(), Failure> {
    folder.write(result)?;
    writeln!(talk, "afflux: the page is {}", folder.page_path().display())?;
    Ok(())
}

fn print_sweep(out: &mut dyn Write, loaded: &Loaded, found: &SweepRecord) -> Result<(), Failure> {
    let each = match found.seeds {
        1 => "one seed each".to_owned(),
        seeds => format!("mean and deviation of {seeds} seeds each"),
    };
    writeln!(out, "{}: {} worlds, {each}", loaded.scenario.name, found.rows.len())?;
    let keys = found.axes.iter().map(|axis| axis.key.clone());
    let units = found.shown.iter().map(|name| match found.unit(name) {
        "" => name.clone(),
        unit if name.ends_with(&unit.to_lowercase().replace('/', "_")) => name.clone(),
        unit => format!("{name}, {unit}"),
    });
    let heads: Vec<String> = keys.chain(units).collect();
    let mut rows = table(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for point in found.points() {
        let values = found.axes.iter().zip(point).map(|(axis, &at)| axis.values[at].clone());
        let numbers = found.shown.iter().map(|name| match found.spread(name, point) {
            None => "-".to_owned(),
            Some(spread) if found.seeds == 1 => number(spread.mean),
            Some(spread) => format!("{} ± {}", number(spread.mean), number(spread.deviation)),
        });
        rows.add_row(values.chain(numbers));
    }
    writeln!(out, "{rows}")?;
    Ok(())
}

fn list(args: &SimArgs, out: &mut dyn Write) -> Result<Status, Failure> {
    let all = SHIPPED.iter().map(|one| one.scenario());
    if args.json {
        let all: Vec<_> =
            all.map(|one| serde_json::json!({ "name": one.name, "about": one.about })).collect();
        serde_json::to_writer_pretty(&mut *out, &all)?;
        writeln!(out)?;
        return Ok(Status::Done);
    }
    let mut rows = table(&["scenario", "clients", "servers", "what it is"]);
    rows.column_mut(3).into_iter().for_each(|column| {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    });
    for one in all {
        let (clients, servers) = (one.client_count(), one.servers.count);
        rows.add_row([one.name, clients.to_string(), servers.to_string(), one.about]);
    }
    writeln!(out, "{rows}\n\nRun one with: afflux sim NAME; see also afflux sim --help")?;
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0.0, 999.0, 1_000.4, 1_234_567.0].map(thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
