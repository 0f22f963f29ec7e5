//! `afflux replay`: the requests of a trace, made again on an object engine.

use std::io::Write;
use std::path::PathBuf;

use afflux_core::measure::{Latencies, Measurement};
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::Target;
use afflux_core::units::Span;
use afflux_core::workload::Workload;
use afflux_store::replay::{Pace, Recorded, ReplayTarget, TraceError};
use serde::Serialize;

use crate::experiment::{self, Plan, trial};
use crate::failure::{Failure, Status};
use crate::progress::Watch;
use crate::settings::{self, SettingFlags};
use crate::tables::measured::{print_faults, print_pairs, print_run};
use crate::tables::number;
use crate::{target, workloads};

/// Arguments of `afflux replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = target::help(EXAMPLES))]
pub(crate) struct ReplayArgs {
    /// The trace, as --on trace:FILE@ENGINE writes it
    trace: PathBuf,
    #[arg(long, value_name = "TARGET", default_value = "lab", help = target::ABOUT)]
    on: String,
    #[command(flatten)]
    setting: SettingFlags,
    /// When requests are made: at their recorded times or later; or as fast as the recorded
    /// concurrency of each client allows
    #[arg(long, value_enum, default_value = "recorded")]
    pace: PaceFlag,
    /// Compare this setting with the one above, in alternating pairs; may be repeated
    #[arg(long, value_name = "SETTING")]
    compare: Vec<String>,
    /// Pairs of each comparison
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pairs: u32,
    /// Print JSON, with every client and second
    #[arg(long)]
    json: bool,
}

/// How `--pace` is written.
#[derive(Clone, Copy, Debug, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum PaceFlag {
    Recorded,
    Closed,
}

const EXAMPLES: &str = "\
The requests go to files of the replay's own, which are made before it and removed after it: what a
trace reads before it wrote it is there. A request also waits for those before it of its client, and
for the one before it on the same object or name. Only object engines can be replayed on.

Exit status: 0 when all requests were answered; 1 when some were not, or what was asked for cannot be;
2 when the target failed.

Examples:
  afflux bench fileserver --on trace:/tmp/t.jsonl@lab            records a trace
  afflux replay /tmp/t.jsonl                                     on a lab of its own
  afflux replay /tmp/t.jsonl --on rados --policy fixed:8         on a Ceph cluster, with windows of 8
  afflux replay /tmp/t.jsonl --on dirs:/mnt/a,/mnt/b --pace closed --json
  afflux replay /tmp/t.jsonl --on lab:/tmp/lab --pace closed --compare fixed:4 --pairs 6";

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::input(error)
    }
}

/// Runs the command.
pub(crate) fn run(
    args: &ReplayArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let recorded = Recorded::read(&args.trace)?;
    let setting = args.setting.setting()?;
    let others: Result<Vec<_>, _> = args.compare.iter().map(|text| settings::parse(text)).collect();
    let others = others?;
    let clients = u32::try_from(recorded.clients()).unwrap_or(u32::MAX);
    let workload = workloads::replay(target::clients(clients, &args.on)?)?;
    let (name, connect) = target::engine(&args.on, talk)?;
    let pace = match args.pace {
        PaceFlag::Recorded => Pace::Recorded,
        PaceFlag::Closed => Pace::Closed,
    };
    let target = ReplayTarget::new(&name, &args.trace, recorded, pace, connect);
    let mut target = target.map_err(Failure::input)?;
    let (had, has) = (target.recorded().servers(), target.servers());
    if had > has {
        writeln!(
            talk,
            "afflux: the trace has {had} storage servers and {name} has {has}: requests to server \
             N go to N modulo {has}"
        )?;
    }
    let mut replay = Replay { args, workload, target: &mut target };
    let replayed = match others.as_slice() {
        [] => replay.single(out, &setting),
        others => replay.compare(out, &setting, others),
    };
    // What was made goes, whatever came of it; the first error is the one to tell.
    let cleared = replay.target.clear(&replay.workload);
    let status = replayed?;
    cleared.map_err(Failure::broken)?;
    Ok(status)
}

/// A replay under way.
struct Replay<'a> {
    args: &'a ReplayArgs,
    workload: Workload,
    target: &'a mut ReplayTarget,
}

impl Replay<'_> {
    fn plan(&self, pairs: u32) -> Plan {
        let whole_secs = self.target.recorded().span().as_nanos().div_ceil(1_000_000_000);
        let length = Span::from_secs(whole_secs.max(1));
        Plan { pairs, settle: Span::ZERO, length, seed: 1, trace: None }
    }

    fn title(&self) -> String {
        format!("{} on {}", self.args.trace.display(), self.target.name())
    }

    /// One replay.
    fn single(&mut self, out: &mut dyn Write, setting: &Setting) -> Result<Status, Failure> {
        let plan = self.plan(0);
        let watch = Watch::new(&[(1, plan.run_time())])?.on(self.target);
        let measurement = trial(self.target, &self.workload, setting, plan.seed, &plan, &watch);
        watch.finish();
        let measurement = measurement.map_err(Failure::broken)?;
        let summary = Summary::of(&measurement);
        let behind = self.target.behind();
        let single = Single {
            afflux_replay: 1,
            trace: self.args.trace.display().to_string(),
            target: self.target.name(),
            setting: &setting.label,
            pace: self.args.pace,
            requests: self.target.recorded().requests(),
            recorded_secs: self.target.recorded().span().as_secs_f64(),
            took_secs: self.target.took().as_secs_f64(),
            behind: (behind.count() > 0).then(|| Behind::of(behind)),
            summary: &summary,
            measurement: &measurement,
        };
        if self.args.json {
            serde_json::to_writer_pretty(&mut *out, &single)?;
            writeln!(out)?;
        } else {
            let title = format!("{} under {}", self.title(), setting.label);
            print_run(out, &title, &summary, &measurement)?;
            single.print_times(out)?;
            print_faults(out, &measurement)?;
        }
        Ok(if summary.faults == 0 { Status::Done } else { Status::No })
    }

    /// Settings against a baseline.
    fn compare(
        &mut self,
        out: &mut dyn Write,
        baseline: &Setting,
        others: &[Setting],
    ) -> Result<Status, Failure> {
        let plan = self.plan(self.args.pairs);
        let runs = 2 * others.len() as u32 * plan.pairs;
        let watch = Watch::new(&[(runs, plan.run_time())])?.on(self.target);
        let Self { target, workload, .. } = self;
        let compared =
            experiment::compare(*target, workload, baseline, others, &plan, &watch, &mut |_| {});
        watch.finish();
        let comparisons = compared.map_err(Failure::broken)?;
        if self.args.json {
            serde_json::to_writer_pretty(&mut *out, &comparisons)?;
            writeln!(out)?;
            return Ok(Status::Done);
        }
        for comparison in &comparisons {
            print_pairs(out, &self.title(), "replays", comparison)?;
        }
        Ok(Status::Done)
    }
}

/// The result of one replay, for programs.
#[derive(Serialize)]
struct Single<'a> {
    afflux_replay: u32,
    trace: String,
    target: String,
    setting: &'a str,
    pace: PaceFlag,
    requests: usize,
    recorded_secs: f64,
    took_secs: f64,
    behind: Option<Behind>,
    summary: &'a Summary,
    measurement: &'a Measurement,
}

/// How long after their recorded times requests were sent, in milliseconds.
#[derive(Serialize)]
struct Behind {
    p50_ms: f64,
    p99_ms: f64,
    most_ms: f64,
}

impl Behind {
    fn of(behind: &Latencies) -> Self {
        let [p50_ms, p99_ms, most_ms] =
            [0.5, 0.99, 1.0].map(|part| behind.quantile(part).as_millis_f64());
        Self { p50_ms, p99_ms, most_ms }
    }
}

impl Single<'_> {
    fn print_times(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let (took, recorded) = (number(self.took_secs), number(self.recorded_secs));
        writeln!(out, "{} requests took {took} s, recorded {recorded} s", self.requests)?;
        if let Some(Behind { p50_ms, p99_ms, most_ms }) = &self.behind {
            let [p50, p99, most] = [p50_ms, p99_ms, most_ms].map(|ms| number(*ms));
            writeln!(
                out,
                "behind the recorded times: {p50} ms in the median, {p99} ms at the 99th \
                 percentile, {most} ms at most"
            )?;
        }
        Ok(())
    }
}
