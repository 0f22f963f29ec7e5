//! `afflux bench`: a workload under one setting, or under several in alternating pairs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use afflux_core::measure::{Measurement, TraceRequest};
use afflux_core::objective::Objective;
use afflux_core::rules::RuleFile;
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::{Target, TargetError};
use afflux_core::units::Span;
use afflux_core::workload::{PRESETS, Workload};
use serde::Serialize;

use crate::experiment::{self, Comparison, Ended, Plan, trial};
use crate::failure::{Failure, Status};
use crate::progress::Watch;
use crate::report::{ResultFile, ResultFolder};
use crate::settings::{self, SettingFlags};
use crate::survey::Tried;
use crate::tables::measured::{print_comparison, print_faults, print_run};
use crate::tables::{number, table};
use crate::{survey, target, workloads};

/// Arguments of `afflux bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = target::help(EXAMPLES))]
pub(crate) struct BenchArgs {
    /// Preset or workload file; without it, the presets are listed. None with --on cmd:COMMAND
    workload: Option<String>,
    #[arg(long, value_name = "TARGET", default_value = "lab", help = target::ABOUT)]
    on: String,
    #[command(flatten)]
    setting: SettingFlags,
    /// Compare this setting with the one above, in alternating pairs; may be repeated
    #[arg(long, value_name = "SETTING")]
    compare: Vec<String>,
    /// Try a dozen settings once each, then compare the fastest and the best of them in pairs
    #[arg(long, conflicts_with_all = ["compare", "policy", "rules", "fan_in"])]
    survey: bool,
    /// Score the run: a preset or an expression over its numbers, as in "tp - var - 0.2 * p99"
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["compare", "survey"])]
    objective: Option<Objective>,
    /// Pairs of each comparison
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pairs: u32,
    /// Counted time of a run, in whole seconds, as in 10s
    #[arg(long, default_value = "6s", value_parser = whole_seconds)]
    length: Span,
    /// Time at the start of a run that is not counted
    #[arg(long, default_value = "1s")]
    settle: Span,
    /// Number of clients, in place of the workload's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    clients: Option<u32>,
    /// Seed of the workload's choices; each pair adds one
    #[arg(long, default_value_t = 1)]
    #[arg(value_parser = crate::commands::seed, allow_negative_numbers = true)]
    seed: u64,
    /// Print JSON, with every client and second
    #[arg(long)]
    json: bool,
    /// Also write the result, a page, plots and their data into this directory, new or empty or
    /// with an earlier result; runs are then traced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  afflux bench seq-write                          eight clients on a lab of its own, as they come
  afflux bench random-read --policy fixed:4       with a window of 4
  afflux bench mix-10-1 --compare fixed:2 --compare shipped:reads-first --pairs 6
  afflux bench checkpoint --survey                what of all there is helps this workload?
  afflux bench seq-write --objective 'if(cv < 0.2, tp, 0)'       scored; also: steady, alpha-fair
  afflux bench my.toml --on dirs:/mnt/a,/mnt/b --json
  afflux bench seq-read --on limit:2@throttle:20MB/s@null         as if ports were slow
  afflux bench --on 'cmd:./simulation' --compare fixed:4          your own command, unmodified
  afflux bench seq-read --on sim:contended --compare fixed:4     simulated; see afflux sim
  afflux bench random-write --compare fixed:32 --out result      and a page that shows it

Settings are joined by `+`: read=fixed:2+write=fixed:16, shipped:paced+fan-in=8, none+turn=300ms.
With --compare, gains come with a 95% interval over alternating pairs of fresh runs.";

/// Runs the command.
pub(crate) fn run(
    args: &BenchArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let chosen = workloads::chosen(args.workload.as_deref(), &args.on)?;
    let Some((mut workload, text)) = chosen else { return list(args, out) };
    if let Some(clients) = args.clients {
        workload.clients = target::clients(clients, &args.on)?;
    }
    let baseline = args.setting.setting()?;
    let others: Result<Vec<_>, _> = args.compare.iter().map(|text| settings::parse(text)).collect();
    let others = others?;
    let folder = args.out.as_deref().map(ResultFolder::claim).transpose()?;
    let trace = folder.as_ref().map(|_| TraceRequest::default());
    let compared = args.survey || !others.is_empty();
    let pairs = if compared { args.pairs } else { 0 };
    let (settle, length) = (args.settle, args.length);
    let plan = Plan { pairs, settle, length, seed: args.seed, trace };
    let rules = rules_of(others.iter().chain([&baseline]))?;
    let runs = if compared { 2 * others.len() as u32 * pairs } else { 1 };
    let mut target = target::open(&args.on, talk)?;
    let watch = if args.survey {
        Watch::new(&[(survey::size(), plan.run_time()), (4 * pairs, plan.run_time())])?
    } else {
        Watch::new(&[(runs, plan.run_time())])?
    };
    let watch = watch.on(target.as_ref());
    let mut bench = Bench {
        args,
        target: target.as_mut(),
        result: ResultFile::begin(&args.on, &workload, &text, &plan),
        workload,
        plan,
        watch,
        rules,
        folder,
    };
    bench.result.target = bench.target.name();
    if args.survey {
        bench.survey(out, talk)
    } else if others.is_empty() {
        bench.single(out, talk, &baseline)
    } else {
        bench.compare(out, talk, &baseline, &others)
    }
}

/// Rule files by the setting that follows them, as they are before the runs.
type Rules = BTreeMap<String, Vec<(String, RuleFile)>>;

fn rules_of<'a>(settings: impl Iterator<Item = &'a Setting>) -> Result<Rules, Failure> {
    settings.map(|one| Ok((one.label.clone(), settings::rule_files(&one.label)?))).collect()
}

/// A bench under way.
struct Bench<'a> {
    args: &'a BenchArgs,
    target: &'a mut dyn Target,
    workload: Workload,
    plan: Plan,
    watch: Watch,
    rules: Rules,
    result: ResultFile,
    folder: Option<ResultFolder>,
}

impl Bench<'_> {
    /// One run.
    fn single(
        &mut self,
        out: &mut dyn Write,
        talk: &mut dyn Write,
        setting: &Setting,
    ) -> Result<Status, Failure> {
        let seed = self.args.seed;
        let measurement =
            trial(self.target, &self.workload, setting, seed, &self.plan, &self.watch);
        self.watch.finish();
        let measurement = measurement.map_err(Failure::broken)?;
        self.result.add_run(&setting.label, seed, &measurement);
        self.keep(talk)?;
        single(self.args, out, &self.target.name(), &self.workload, setting, &measurement)
    }

    /// Settings against a baseline.
    fn compare(
        &mut self,
        out: &mut dyn Write,
        talk: &mut dyn Write,
        baseline: &Setting,
        others: &[Setting],
    ) -> Result<Status, Failure> {
        let comparisons = self.pairs(baseline, others, &self.plan.clone());
        self.watch.finish();
        let comparisons = comparisons.map_err(Failure::broken)?;
        self.result.add_comparisons(&comparisons);
        self.keep(talk)?;
        if self.args.json {
            serde_json::to_writer_pretty(&mut *out, &comparisons)?;
            writeln!(out)?;
        }
        self.print(out, &comparisons)?;
        Ok(Status::Done)
    }

    /// Tries a dozen settings; confirms the fastest and, where it is another, the best by score.
    fn survey(&mut self, out: &mut dyn Write, talk: &mut dyn Write) -> Result<Status, Failure> {
        let found = self.survey_and_confirm();
        self.watch.finish();
        let (tried, confirmed) = found?;
        self.result.add_survey(&self.workload, &tried);
        self.result.add_comparisons(&confirmed);
        self.keep(talk)?;
        if self.args.json {
            let found = serde_json::json!({
                "afflux_survey": 1,
                "workload": self.workload.name,
                "target": self.target.name(),
                "seed": self.args.seed,
                "tried": tried,
                "confirmed": confirmed,
            });
            serde_json::to_writer_pretty(&mut *out, &found)?;
            writeln!(out)?;
        } else {
            survey::print(out, &self.target.name(), &self.workload, &self.plan, &tried)?;
        }
        self.print(out, &confirmed)?;
        Ok(Status::Done)
    }

    fn survey_and_confirm(&mut self) -> Result<(Vec<Tried>, Vec<Comparison>), Failure> {
        let tried = survey::survey(self.target, &self.workload, &self.plan, &self.watch)?;
        let mut best = vec![survey::best(&tried, |tried| tried.score(&self.workload))?];
        let fastest = survey::best(&tried, |tried| tried.speed(&self.workload))?;
        if fastest.label != best[0].label {
            best.push(fastest);
        }
        self.rules.extend(rules_of(best.iter())?);
        // Other seeds than the survey's: what it chose must hold where it was not chosen.
        let plan = Plan { seed: self.plan.seed + 100, ..self.plan };
        let confirmed = self.pairs(&Setting::none(), &best, &plan);
        Ok((tried, confirmed.map_err(Failure::broken)?))
    }

    /// Runs the pairs, and keeps all runs for the result.
    fn pairs(
        &mut self,
        baseline: &Setting,
        others: &[Setting],
        plan: &Plan,
    ) -> Result<Vec<Comparison>, TargetError> {
        let Self { target, workload, watch, result, folder, .. } = self;
        let mut keep = |ended: &Ended<'_>| {
            // Without a directory nobody will ask for them.
            if folder.is_some() {
                result.add_ended(ended);
            }
        };
        experiment::compare(*target, workload, baseline, others, plan, watch, &mut keep)
    }

    fn print(&self, out: &mut dyn Write, comparisons: &[Comparison]) -> Result<(), Failure> {
        for comparison in comparisons.iter().filter(|_| !self.args.json) {
            print_comparison(out, &self.target.name(), &self.workload, &self.plan, comparison)?;
        }
        Ok(())
    }

    /// Writes the result, where that is wanted; before anything is printed, since the reader of
    /// what is printed may go away.
    fn keep(&mut self, talk: &mut dyn Write) -> Result<(), Failure> {
        let Some(folder) = &self.folder else { return Ok(()) };
        for (setting, files) in std::mem::take(&mut self.rules) {
            self.result.add_rules(&setting, files);
        }
        folder.write(&self.result)?;
        writeln!(talk, "afflux: the page is {}", folder.page_path().display())?;
        Ok(())
    }
}

/// The result of one run, for programs.
#[derive(Serialize)]
struct Single<'a> {
    afflux_bench: u32,
    workload: &'a str,
    target: &'a str,
    setting: &'a str,
    seed: u64,
    #[serde(flatten)]
    scored: Option<Scored<'a>>,
    summary: &'a Summary,
    measurement: &'a Measurement,
}

/// What a run is worth; null, for programs, when the objective has no finite value there.
#[derive(Serialize)]
struct Scored<'a> {
    objective: &'a Objective,
    score: f64,
}

fn single(
    args: &BenchArgs,
    out: &mut dyn Write,
    target: &str,
    workload: &Workload,
    setting: &Setting,
    measurement: &Measurement,
) -> Result<Status, Failure> {
    let summary = &Summary::of(measurement);
    let scored = args.objective.as_ref().map(|objective| {
        let score = objective.score_runs(std::slice::from_ref(summary), workload.is_bursty());
        Scored { objective, score }
    });
    if args.json {
        let single = Single {
            afflux_bench: 1,
            workload: &workload.name,
            target,
            setting: &setting.label,
            seed: args.seed,
            scored,
            summary,
            measurement,
        };
        serde_json::to_writer_pretty(&mut *out, &single)?;
        writeln!(out)?;
    } else {
        let title = format!("{} on {target} under {}", workload.name, setting.label);
        print_run(out, &title, summary, measurement)?;
        if let Some(Scored { objective, score }) = scored {
            let score =
                if score.is_finite() { number(score) } else { "none, the worst".to_owned() };
            writeln!(out, "score: {score}, by {objective}")?;
        }
        print_faults(out, measurement)?;
    }
    Ok(if summary.faults == 0 { Status::Done } else { Status::No })
}

fn list(args: &BenchArgs, out: &mut dyn Write) -> Result<Status, Failure> {
    let mut rows = table(&["preset", "clients", "data", "what it does"]);
    rows.column_mut(3).into_iter().for_each(|column| {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    });
    let workloads: Vec<Workload> = PRESETS.iter().map(|preset| preset.workload()).collect();
    if args.json {
        let names: Vec<_> = workloads
            .iter()
            .map(|workload| serde_json::json!({ "name": workload.name, "about": workload.about }))
            .collect();
        serde_json::to_writer_pretty(&mut *out, &names)?;
        writeln!(out)?;
        return Ok(Status::Done);
    }
    for workload in workloads {
        rows.add_row([
            workload.name.clone(),
            workload.clients.to_string(),
            afflux_core::units::display_bytes(workload.footprint_bytes()),
            workload.about.clone(),
        ]);
    }
    writeln!(out, "{rows}\n\nRun one with: afflux bench NAME; see also afflux bench --help")?;
    Ok(Status::Done)
}

/// A time of whole seconds, since throughput is counted by the second.
pub(crate) fn whole_seconds(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let nanos = span.as_nanos();
    if nanos == 0 || !nanos.is_multiple_of(1_000_000_000) || nanos > 3_600_000_000_000 {
        return Err("throughput is counted by the second: write 1s to 3600s".to_owned());
    }
    Ok(span)
}
