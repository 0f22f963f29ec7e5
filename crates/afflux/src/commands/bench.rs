//! `afflux bench`: a workload under one setting, or under several in alternating pairs.

use std::io::Write;

use afflux_core::class::Class;
use afflux_core::limits::HoldReason;
use afflux_core::measure::Measurement;
use afflux_core::objective::Objective;
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::Target;
use afflux_core::units::Span;
use afflux_core::workload::{PRESETS, Workload};
use serde::Serialize;

use crate::experiment::{self, Comparison, Plan, trial};
use crate::failure::{Failure, Status};
use crate::progress::Watch;
use crate::settings::{self, SettingFlags};
use crate::tables::{number, table};
use crate::{survey, target, workloads};

/// Arguments of `afflux bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Preset or workload file; without it, the presets are listed
    workload: Option<String>,
    /// What to run on: lab (a running one, else one for this run), lab:DIR, dirs:DIR,DIR, null
    #[arg(long, value_name = "TARGET", default_value = "lab")]
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: Option<u32>,
    /// Seed of the workload's choices; each pair adds one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON, with every client and second
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux bench seq-write                          eight clients on a lab of its own, as they come
  afflux bench random-read --policy fixed:4       with a window of 4
  afflux bench mix-10-1 --compare fixed:2 --compare shipped:reads-first --pairs 6
  afflux bench checkpoint --survey                what of all there is helps this workload?
  afflux bench seq-write --objective 'if(cv < 0.2, tp, 0)'       scored; also: steady, alpha-fair
  afflux bench my.toml --on dirs:/mnt/a,/mnt/b --json

Settings are joined by `+`: read=fixed:2+write=fixed:16, shipped:paced+fan-in=8, none+turn=300ms.
With --compare, gains come with a 95% interval over alternating pairs of fresh runs.";

/// Runs the command.
pub(crate) fn run(
    args: &BenchArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let Some(name) = &args.workload else { return list(args, out) };
    let mut workload = workloads::load(name)?;
    if let Some(clients) = args.clients {
        workload.clients = clients;
    }
    let baseline = args.setting.setting()?;
    let others: Result<Vec<_>, _> = args.compare.iter().map(|text| settings::parse(text)).collect();
    let others = others?;
    let plan =
        Plan { pairs: args.pairs, settle: args.settle, length: args.length, seed: args.seed };
    if args.survey {
        let mut target = target::open(&args.on, talk)?;
        return run_survey(args, out, target.as_mut(), &workload, &plan);
    }
    let runs = if others.is_empty() { 1 } else { 2 * others.len() as u32 * args.pairs };
    let mut target = target::open(&args.on, talk)?;
    let watch = Watch::new(&[(runs, plan.run_time())])?;
    if others.is_empty() {
        let measurement = trial(target.as_mut(), &workload, &baseline, args.seed, &plan, &watch);
        watch.finish();
        let measurement = measurement.map_err(Failure::broken)?;
        return single(args, out, &target.name(), &workload, &baseline, &measurement);
    }
    let comparisons =
        experiment::compare(target.as_mut(), &workload, &baseline, &others, &plan, &watch);
    watch.finish();
    let comparisons = comparisons.map_err(Failure::broken)?;
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &comparisons)?;
        writeln!(out)?;
    } else {
        for comparison in &comparisons {
            print_comparison(out, &target.name(), &workload, &plan, comparison)?;
        }
    }
    Ok(Status::Done)
}

/// Tries a dozen settings; confirms the fastest and, where it is another, the best by score.
fn run_survey(
    args: &BenchArgs,
    out: &mut dyn Write,
    target: &mut dyn Target,
    workload: &Workload,
    plan: &Plan,
) -> Result<Status, Failure> {
    let groups = [(survey::size(), plan.run_time()), (4 * args.pairs, plan.run_time())];
    let watch = Watch::new(&groups)?;
    let found = survey::survey(target, workload, plan, &watch).and_then(|tried| {
        let mut best = vec![survey::best(&tried, |tried| tried.score(workload))?];
        let fastest = survey::best(&tried, |tried| tried.speed(workload))?;
        if fastest.label != best[0].label {
            best.push(fastest);
        }
        // Other seeds than the survey's: what it chose must hold where it was not chosen.
        let plan = Plan { seed: plan.seed + 100, ..*plan };
        let confirmed =
            experiment::compare(target, workload, &Setting::none(), &best, &plan, &watch);
        Ok((tried, confirmed.map_err(Failure::broken)?))
    });
    watch.finish();
    let (tried, confirmed) = found?;
    if args.json {
        let found = serde_json::json!({
            "afflux_survey": 1,
            "workload": workload.name,
            "target": target.name(),
            "seed": args.seed,
            "tried": tried,
            "confirmed": confirmed,
        });
        serde_json::to_writer_pretty(&mut *out, &found)?;
        writeln!(out)?;
        return Ok(Status::Done);
    }
    survey::print(out, &target.name(), workload, plan, &tried)?;
    for comparison in &confirmed {
        print_comparison(out, &target.name(), workload, plan, comparison)?;
    }
    Ok(Status::Done)
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
        print_single(out, &title, summary, measurement)?;
        if let Some(Scored { objective, score }) = scored {
            let score =
                if score.is_finite() { number(score) } else { "none, the worst".to_owned() };
            writeln!(out, "score: {score}, by {objective}")?;
        }
    }
    warn_of_faults(out, measurement, args.json)?;
    Ok(if summary.faults == 0 { Status::Done } else { Status::No })
}

fn warn_of_faults(
    out: &mut dyn Write,
    measurement: &Measurement,
    json: bool,
) -> Result<(), Failure> {
    let faults: u64 = measurement.clients.iter().map(|client| client.faults).sum();
    let first = measurement.clients.iter().find_map(|client| client.first_fault.as_deref());
    if let Some(first) = first.filter(|_| !json) {
        writeln!(out, "{faults} requests ended without an answer; the first: {first}")?;
    }
    Ok(())
}

fn print_single(
    out: &mut dyn Write,
    title: &str,
    summary: &Summary,
    measurement: &Measurement,
) -> Result<(), Failure> {
    writeln!(out, "{title}, {} s counted", number(measurement.counted_secs))?;
    let mut totals = table(&["all clients", "value", "unit"]);
    for (name, value, unit) in [
        ("throughput", summary.total_mb_s, "MB/s"),
        ("operations", summary.operations_s, "1/s"),
        ("mean of a client", summary.tp_mb_s, "MB/s"),
        ("deviation over clients and seconds", summary.var_mb_s, "MB/s"),
        ("deviation between clients", summary.between_mb_s, "MB/s"),
        ("deviation within clients", summary.within_mb_s, "MB/s"),
        ("fairness (Jain)", summary.jain, ""),
        ("burst speed", summary.burst_mb_s, "MB/s"),
        ("median process time", summary.p50_ms, "ms"),
        ("p99 process time", summary.p99_ms, "ms"),
        ("p99 of operations", summary.operation_p99_ms, "ms"),
        ("device access", summary.access_ms, "ms"),
        ("wait at servers", summary.queue_ms, "ms"),
    ] {
        totals.add_row([name.to_owned(), number(value), unit.to_owned()]);
    }
    writeln!(out, "{totals}\n")?;
    print_clients(out, measurement)?;
    print_holds(out, measurement)?;
    print_hits(out, measurement)
}

fn print_clients(out: &mut dyn Write, measurement: &Measurement) -> Result<(), Failure> {
    let mut clients =
        table(&["client", "MB/s", "deviation", "read p99 ms", "write p99 ms", "by second, MB/s"]);
    for (index, client) in measurement.clients.iter().enumerate() {
        let row: Vec<f64> = client.seconds.iter().map(|[r, w]| (r + w) as f64 / 1e6).collect();
        let p99 = |class: Class| {
            let times = &client.process_time[class.index()];
            if times.count() == 0 {
                return "-".to_owned();
            }
            number(times.quantile(0.99).as_millis_f64())
        };
        // Long runs are cut: the whole matrix is in --json.
        let shown: Vec<_> = row.iter().take(12).map(|mb| format!("{mb:.0}")).collect();
        let more = if row.len() > 12 { " ..." } else { "" };
        clients.add_row([
            format!("{index}"),
            number(afflux_core::summary::mean(&row)),
            number(afflux_core::summary::deviation(&row)),
            p99(Class::Read),
            p99(Class::Write),
            shown.join(" ") + more,
        ]);
    }
    writeln!(out, "{clients}\n")?;
    Ok(())
}

fn print_holds(out: &mut dyn Write, measurement: &Measurement) -> Result<(), Failure> {
    let mut holds = table(&["held by", "times", "seconds, over all paths"]);
    for reason in HoldReason::ALL {
        let totals = measurement.clients.iter().flat_map(|client| &client.holds);
        let (times, nanos) = totals.fold((0, 0), |(times, nanos), totals| {
            (times + totals.holds[reason.index()], nanos + totals.held_nanos[reason.index()])
        });
        if times > 0 {
            let row = [reason.name().to_owned(), times.to_string(), number(nanos as f64 / 1e9)];
            holds.add_row(row);
        }
    }
    if !holds.is_empty() {
        writeln!(out, "{holds}\n")?;
    }
    Ok(())
}

fn print_hits(out: &mut dyn Write, measurement: &Measurement) -> Result<(), Failure> {
    let mut hits = table(&["class", "rule", "hits"]);
    for class in Class::ALL {
        let clients = &measurement.clients;
        let rules = clients.iter().map(|client| client.rule_hits[class.index()].len()).max();
        for rule in 0..rules.unwrap_or(0) {
            let count: u64 = clients
                .iter()
                .filter_map(|client| client.rule_hits[class.index()].get(rule))
                .map(|hits| hits.count)
                .sum();
            hits.add_row([class.to_string(), (rule + 1).to_string(), count.to_string()]);
        }
    }
    if !hits.is_empty() {
        writeln!(out, "{hits}\n")?;
    }
    Ok(())
}

/// One comparison as a table.
pub(crate) fn print_comparison(
    out: &mut dyn Write,
    target: &str,
    workload: &Workload,
    plan: &Plan,
    comparison: &Comparison,
) -> Result<(), Failure> {
    writeln!(
        out,
        "{} on {target}: {} against {}, {} alternating pairs of {} each",
        workload.name, comparison.setting, comparison.baseline, plan.pairs, plan.length
    )?;
    let mut rows = table(&["", "baseline", "with it", "unit", "change", "95% interval", ""]);
    for compared in &comparison.metrics {
        let change = compared.change_percent;
        rows.add_row([
            compared.metric.to_owned(),
            number(compared.baseline),
            number(compared.setting),
            compared.unit.to_owned(),
            format!("{:+.1}%", change.mean),
            format!("{:+.1}% to {:+.1}%", change.low, change.high),
            compared.verdict().to_owned(),
        ]);
    }
    writeln!(out, "{rows}\n")?;
    Ok(())
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
