//! `afflux quickstart`: the whole idea in two minutes, on a lab that goes away again.

use std::io::Write;

use afflux_core::setting::Setting;
use afflux_core::target::Target;
use afflux_core::units::Span;
use afflux_core::workload::Workload;
use serde::Serialize;

use crate::commands::bench::print_comparison;
use crate::experiment::{self, Comparison, Plan};
use crate::failure::{Failure, Status};
use crate::progress::Watch;
use crate::survey::{self, Tried};
use crate::{target, workloads};

/// Arguments of `afflux quickstart`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QuickstartArgs {
    /// Preset or workload file
    #[arg(long, default_value = "small-reads")]
    workload: String,
    /// What to run on; a lab of two disks that goes away again unless you name another
    #[arg(long, value_name = "TARGET")]
    on: Option<String>,
    /// Counted time of the run that tries each setting
    #[arg(long, default_value = "3s", value_parser = super::bench::whole_seconds)]
    try_for: Span,
    /// Time at the start of each run that is not counted
    #[arg(long, default_value = "1s")]
    settle: Span,
    /// Pairs that confirm the best setting against the baseline
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=100))]
    pairs: u32,
    /// Counted time of a confirming run
    #[arg(long, default_value = "6s", value_parser = super::bench::whole_seconds)]
    length: Span,
    /// Seed of the workload's choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux quickstart
  afflux quickstart --workload random-write --pairs 8
  afflux quickstart --on dirs:/mnt/a,/mnt/b --json

It keeps at most 1 GiB, needs no rights, and leaves nothing behind.";

/// The lab that it starts.
const SERVERS: u32 = 2;
const DEVICE: &str = "hdd";

/// What it found, for programs.
#[derive(Serialize)]
struct Quickstart<'a> {
    afflux_quickstart: u32,
    workload: &'a str,
    target: &'a str,
    seed: u64,
    tried: &'a [Tried],
    confirmed: &'a Comparison,
}

/// Runs the command.
pub(crate) fn run(
    args: &QuickstartArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let workload = workloads::load(&args.workload)?;
    if workload.footprint_bytes() > 1 << 30 {
        return Err(Failure::input(format!(
            "{} keeps more than 1 GiB: quickstart does not; run it with `afflux bench`",
            workload.name
        )));
    }
    let (settle, seed, trace) = (args.settle, args.seed, None);
    let short = Plan { pairs: 0, settle, length: args.try_for, seed, trace };
    let confirm = Plan { pairs: args.pairs, length: args.length, seed: args.seed + 100, ..short };
    let mut target = match &args.on {
        Some(on) => target::open(on, talk)?,
        None => target::temporary_lab(SERVERS, DEVICE, talk)?,
    };
    writeln!(talk, "afflux: {}: {}", workload.name, workload.about)?;
    let watch =
        Watch::new(&[(survey::size(), short.run_time()), (2 * args.pairs, confirm.run_time())])?;
    let found = search(target.as_mut(), &workload, &short, &confirm, &watch);
    watch.finish();
    let (tried, confirmed) = found?;
    let target = target.name();
    if args.json {
        let (workload, target) = (workload.name.as_str(), target.as_str());
        let (tried, confirmed, seed) = (&tried, &confirmed, args.seed);
        let found = Quickstart { afflux_quickstart: 1, workload, target, seed, tried, confirmed };
        serde_json::to_writer_pretty(&mut *out, &found)?;
        writeln!(out)?;
        return Ok(Status::Done);
    }
    survey::print(out, &target, &workload, &short, &tried)?;
    print_comparison(out, &target, &workload, &confirm, &confirmed)?;
    print_words(out, &workload, &confirmed)?;
    Ok(Status::Done)
}

/// Tries a dozen settings and confirms the best of them.
fn search(
    target: &mut dyn Target,
    workload: &Workload,
    short: &Plan,
    confirm: &Plan,
    watch: &Watch,
) -> Result<(Vec<Tried>, Comparison), Failure> {
    let tried = survey::survey(target, workload, short, watch)?;
    let best = survey::best(&tried, |tried| tried.score(workload))?;
    let baseline = Setting::none();
    let comparisons = experiment::compare(target, workload, &baseline, &[best], confirm, watch)
        .map_err(Failure::broken)?;
    let confirmed = comparisons.into_iter().next();
    Ok((tried, confirmed.ok_or_else(|| Failure::broken("nothing was compared"))?))
}

fn print_words(
    out: &mut dyn Write,
    workload: &Workload,
    confirmed: &Comparison,
) -> Result<(), Failure> {
    let gained: Vec<String> = confirmed
        .metrics
        .iter()
        .filter(|compared| compared.change_percent.excludes_zero())
        .map(|compared| {
            let change = compared.change_percent.mean;
            format!("{} {change:+.0}% ({})", compared.metric, compared.verdict())
        })
        .collect();
    let setting = &confirmed.setting;
    if gained.is_empty() {
        writeln!(out, "No difference that {setting} makes could be told from noise.")?;
    } else {
        writeln!(out, "What {setting} changes beyond noise: {}.", gained.join(", "))?;
    }
    writeln!(
        out,
        "The baseline is a window of 8 requests for each client and server, as Lustre has it.\n\
         Real bytes over real TCP; the disks are modelled (afflux lab --help).\n\
         Next: afflux bench {} --compare {setting} --pairs 8",
        workload.name
    )?;
    Ok(())
}
