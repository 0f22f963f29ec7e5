//! `afflux calibrate`: the shortest run of a workload whose throughput repeats.

use std::io::Write;
use std::time::Duration;

use afflux_core::calibrate::{Ask, Calibration, Options, Outcome, Point, Verdict};
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::{Run, Target, TargetError};
use afflux_core::units::Span;
use afflux_core::workload::Workload;
use serde::Serialize;

use crate::commands::bench::whole_seconds;
use crate::failure::{Failure, Status};
use crate::interval::Interval;
use crate::progress::{Watch, words};
use crate::tables::{number, table};
use crate::{target, workloads};

/// Arguments of `afflux calibrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = target::help(EXAMPLES))]
pub(crate) struct CalibrateArgs {
    /// Preset or workload file; none with --on cmd:COMMAND
    workload: Option<String>,
    #[arg(long, value_name = "TARGET", default_value = "lab", help = target::ABOUT)]
    on: String,
    /// The first length, in whole seconds; each other is half as long again
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = whole_seconds)]
    from: Span,
    /// The last length
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = whole_seconds)]
    max: Span,
    /// Runs of each length
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=1000))]
    runs: u32,
    /// The coefficient of variation (deviation over mean) of the throughput must be under this
    #[arg(long, default_value_t = 0.1, value_parser = limit)]
    cv: f64,
    /// Leave a length as soon as no further runs could bring its CV under the limit
    #[arg(long)]
    stop_early: bool,
    /// Time at the start of a run that is not counted
    #[arg(long, value_name = "TIME", default_value = "1s")]
    settle: Span,
    /// Seed of the first run of each length; each further run adds one
    #[arg(long, default_value_t = 1)]
    #[arg(value_parser = crate::commands::seed, allow_negative_numbers = true)]
    seed: u64,
    /// Print JSON, with every run
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux calibrate seq-write                      10 s to 60 s, ten runs each, until CV < 0.1
  afflux calibrate my.toml --on dirs:/mnt/a,/mnt/b --max 120s --stop-early
  afflux calibrate random-read --from 2s --runs 5 --json

A search runs the length that is found hundreds of times. Bursty workloads are judged by the
speed of their bursts. It runs without traffic control. Exit 1 when no length passes.";

/// What it found, for programs. A CV or an end of an interval without bound is null.
#[derive(Serialize)]
struct Found<'a> {
    afflux_calibrate: u32,
    workload: &'a str,
    target: &'a str,
    seed: u64,
    runs: u32,
    cv_limit: f64,
    measure: &'a str,
    unit: &'a str,
    curve: Vec<Row<'a>>,
    /// The length that passes; null when none does.
    chosen: Option<Span>,
    /// The length that passes, or that came nearest.
    best: Span,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    point: &'a Point,
    mean: f64,
    cv: Interval,
}

/// Runs the command.
pub(crate) fn run(
    args: &CalibrateArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let chosen = workloads::chosen(args.workload.as_deref(), &args.on)?;
    let (workload, _) = chosen.ok_or_else(|| {
        Failure::input(
            "there is no WORKLOAD: name a preset of `afflux bench` or a file, or use --on cmd:...",
        )
    })?;
    let CalibrateArgs { from, max, runs, cv, stop_early, .. } = *args;
    let options = Options { from, max, runs, cv, stop_early, ..Options::default() };
    let mut calibration = Calibration::new(options).map_err(Failure::input)?;
    let time_of = |length: Span| Duration::from_nanos((args.settle + length).as_nanos());
    let groups: Vec<_> =
        calibration.lengths().iter().map(|&length| (runs, time_of(length))).collect();
    let mut target = target::open(&args.on, talk)?;
    let watch = Watch::at_most(&groups)?.on(target.as_ref());
    let longest = words(groups.iter().map(|(runs, time)| *time * *runs).sum());
    let of = if target.is_in_real_time() { "" } else { " of simulated time" };
    writeln!(talk, "afflux: {}: {}; at most {longest}{of}", workload.name, workload.about)?;
    let ended = drive(args, target.as_mut(), &workload, &mut calibration, &watch);
    watch.finish();
    let outcome = match ended {
        Ok(outcome) => outcome,
        Err(failure) => {
            // What was measured so far took long, and may be all that somebody wants to know.
            if calibration.curve()[0].values.len() > 1 {
                writeln!(talk, "{}", curve_table(calibration.curve()))?;
            }
            return Err(failure);
        }
    };
    if args.json {
        print_json(args, out, &target.name(), &workload, &calibration, outcome)?;
    } else {
        print(args, out, &target.name(), &workload, &calibration, outcome)?;
    }
    Ok(if matches!(outcome, Outcome::Passes(_)) { Status::Done } else { Status::No })
}

/// Runs what is asked for until nothing is.
fn drive(
    args: &CalibrateArgs,
    target: &mut dyn Target,
    workload: &Workload,
    calibration: &mut Calibration,
    watch: &Watch,
) -> Result<Outcome, Failure> {
    loop {
        let (length, run) = match calibration.ask() {
            Ask::Run { length, run } => (length, run),
            Ask::Done(outcome) => return Ok(outcome),
        };
        let seed = args.seed.wrapping_add(u64::from(run));
        let summary =
            trial(args, target, workload, length, seed, watch).map_err(Failure::broken)?;
        if summary.faults > 0 {
            return Err(Failure::broken(format!(
                "{} requests of a run of {length} ended without an answer, so its throughput says \
                 nothing: see what is wrong with afflux bench",
                summary.faults
            )));
        }
        calibration.tell(throughput(workload, &summary));
        let point = calibration.curve().iter().find(|point| point.length == length);
        if let Some(point) = point.filter(|point| point.verdict == Verdict::Hopeless) {
            let time = Duration::from_nanos((args.settle + length).as_nanos());
            watch.skip(args.runs - point.values.len() as u32, time);
        }
    }
}

fn trial(
    args: &CalibrateArgs,
    target: &mut dyn Target,
    workload: &Workload,
    length: Span,
    seed: u64,
    watch: &Watch,
) -> Result<Summary, TargetError> {
    target.prepare(workload)?;
    target.deploy(&Setting::none())?;
    let run_time = Duration::from_nanos((args.settle + length).as_nanos());
    watch.begin(&format!("length {length}"), run_time);
    let run = Run { seed, settle: args.settle, length, progress: watch, trace: None };
    let measurement = target.run(&run);
    watch.end();
    Ok(Summary::of(&measurement?))
}

/// What must repeat.
fn throughput(workload: &Workload, summary: &Summary) -> f64 {
    if workload.is_bursty() { summary.burst_mb_s } else { summary.total_mb_s }
}

fn measure(workload: &Workload) -> &'static str {
    if workload.is_bursty() { "burst speed" } else { "throughput" }
}

fn curve_table(curve: &[Point]) -> comfy_table::Table {
    let heads = ["length", "runs", "mean MB/s", "least", "most", "CV", "95% interval", ""];
    let mut rows = table(&heads);
    for point in curve.iter().filter(|point| !point.values.is_empty()) {
        let cv = variation(point);
        let least = point.values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = point.values.iter().copied().fold(0.0, f64::max);
        rows.add_row([
            point.length.to_string(),
            point.values.len().to_string(),
            number(point.mean()),
            number(least),
            number(most),
            three(cv.mean),
            format!("{} to {}", three(cv.low), three(cv.high)),
            match point.verdict {
                Verdict::Open => "not all runs",
                Verdict::Passes => "passes",
                Verdict::Uneven => "uneven",
                Verdict::Hopeless => "left early",
            }
            .to_owned(),
        ]);
    }
    rows
}

/// The CV of a point with what so few runs leave open.
fn variation(point: &Point) -> Interval {
    Interval::of_variation(point.cv(), point.values.len())
}

/// A CV, to three decimals; a dash when there is none.
fn three(cv: f64) -> String {
    if cv.is_finite() { format!("{cv:.3}") } else { "-".to_owned() }
}

fn print(
    args: &CalibrateArgs,
    out: &mut dyn Write,
    target: &str,
    workload: &Workload,
    calibration: &Calibration,
    outcome: Outcome,
) -> Result<(), Failure> {
    let (name, measure, limit) = (&workload.name, measure(workload), args.cv);
    let runs = args.runs;
    writeln!(out, "{name} on {target}: {runs} runs of each length until CV < {limit} ({measure})")?;
    writeln!(out, "{}\n", curve_table(calibration.curve()))?;
    match outcome {
        Outcome::Passes(length) => {
            writeln!(out, "{length} is long enough: the {measure} repeats.")?;
            let cv = calibration.curve().last().map(variation);
            if let Some(cv) = cv.filter(|cv| cv.high > limit) {
                writeln!(
                    out,
                    "But {runs} runs leave a CV of up to {} possible: more --runs say more.",
                    three(cv.high)
                )?;
            }
            let what = args.workload.clone().unwrap_or_else(|| format!("--on '{}'", args.on));
            writeln!(out, "Next: afflux bench {what} --length {length}")?;
        }
        Outcome::NonePasses(best) => {
            writeln!(
                out,
                "No length up to {} is long enough; {best} came nearest. Longer runs (--max), less \
                 else\ngoing on there, or a higher --cv may help; a search then needs more runs of \
                 each setting.",
                args.max
            )?;
        }
    }
    Ok(())
}

fn print_json(
    args: &CalibrateArgs,
    out: &mut dyn Write,
    target: &str,
    workload: &Workload,
    calibration: &Calibration,
    outcome: Outcome,
) -> Result<(), Failure> {
    let row = |point| Row { point, mean: point.mean(), cv: variation(point) };
    let (chosen, best) = match outcome {
        Outcome::Passes(length) => (Some(length), length),
        Outcome::NonePasses(best) => (None, best),
    };
    let found = Found {
        afflux_calibrate: 1,
        workload: &workload.name,
        target,
        seed: args.seed,
        runs: args.runs,
        cv_limit: args.cv,
        measure: measure(workload),
        unit: "MB/s",
        curve: calibration.curve().iter().map(row).collect(),
        chosen,
        best,
    };
    serde_json::to_writer_pretty(&mut *out, &found)?;
    writeln!(out)?;
    Ok(())
}

/// A limit of the CV.
fn limit(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(limit) if limit > 0.0 && limit <= 10.0 => Ok(limit),
        _ => Err("write a number above 0, at most 10, as in 0.1".to_owned()),
    }
}
