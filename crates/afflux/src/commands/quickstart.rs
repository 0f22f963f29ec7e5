//! `afflux quickstart`: the whole idea in two minutes, on a lab that goes away again.

use std::io::Write;
use std::path::{Path, PathBuf};

use afflux_core::search::Told;
use afflux_core::units::Span;
use afflux_core::workload::Workload;

use crate::commands::search::{found_json, print_found};
use crate::experiment::Comparison;
use crate::failure::{Failure, Status};
use crate::search::budget::Budget;
use crate::search::journal::{Head, Stage, Start, VERSION};
use crate::search::{Found, Session};
use crate::survey::STEADY;
use crate::tables::{number, table};
use crate::{target, workloads};

/// Arguments of `afflux quickstart`.
#[derive(Debug, clap::Args)]
#[command(after_help = target::help(EXAMPLES))]
pub(crate) struct QuickstartArgs {
    /// Preset or workload file
    #[arg(long, default_value = "small-reads")]
    workload: String,
    /// What to run on; a lab of two disks that goes away again unless you name another
    #[arg(long, value_name = "TARGET")]
    on: Option<String>,
    /// Runs that try settings and rules
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(4..=10_000))]
    runs: u32,
    /// Counted time of each of them
    #[arg(long, default_value = "3s", value_parser = super::bench::whole_seconds)]
    try_for: Span,
    /// Time at the start of each run that is not counted
    #[arg(long, default_value = "1s")]
    settle: Span,
    /// Rounds that confirm what was found: baseline, best fixed setting, and rules in each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100))]
    pairs: u32,
    /// Counted time of a confirming run
    #[arg(long, default_value = "5s", value_parser = super::bench::whole_seconds)]
    length: Span,
    /// Seed of the workload's choices
    #[arg(long, default_value_t = 1)]
    #[arg(value_parser = crate::commands::seed, allow_negative_numbers = true)]
    seed: u64,
    /// Keep the journal, the rules that were found and a page to look at in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux quickstart
  afflux quickstart --workload random-write --pairs 8 --out look
  afflux quickstart --on dirs:/mnt/a,/mnt/b --json

It measures fixed windows and gaps, looks for rules from the best of them on, and confirms
both in fresh runs. It keeps at most 1 GiB, needs no rights, and leaves nothing behind but
what --out names.";

/// The lab that it starts.
const SERVERS: u32 = 2;
const DEVICE: &str = "hdd";

/// How it looks for rules: small steps from one that does what the best fixed setting does.
const METHOD: &str = "climb:repeats=2";

/// Runs the command.
pub(crate) fn run(
    args: &QuickstartArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let (workload, workload_text) = workloads::load_with_text(&args.workload)?;
    if workload.footprint_bytes() > 1 << 30 {
        return Err(Failure::input(format!(
            "{} keeps more than 1 GiB: quickstart does not; run it with `afflux bench`",
            workload.name
        )));
    }
    if let Some(on) = args.on.as_deref().filter(|on| target::command(on).is_some()) {
        return Err(Failure::input(format!(
            "quickstart runs a workload, and `{on}` is one of its own: use afflux search --on '{on}'"
        )));
    }
    let temporary = tempfile::tempdir()?;
    let dir = args.out.as_deref().unwrap_or(temporary.path());
    let head = head(args, &workload, workload_text)?;
    let session = Session {
        head: &head,
        workload: &workload,
        objective: STEADY.parse().map_err(Failure::broken)?,
        // Three sides confirm in each round; see [`Session`].
        budget: Budget::Runs(u64::from(args.runs + 3 * args.pairs)),
        dir,
    };
    let journal = session.open(talk)?;
    let mut target = match &args.on {
        Some(on) => target::open(on, talk)?,
        None => target::temporary_lab(SERVERS, DEVICE, talk)?,
    };
    writeln!(talk, "afflux: {}: {}", workload.name, workload.about)?;
    let name = target.name();
    let found = session.run(journal, target.as_mut(), talk)?;
    if args.json {
        let mut json = found_json(&head, &found);
        json["afflux_quickstart"] = 2.into();
        json["target"] = name.into();
        json["tried"] = serde_json::to_value(&found.entries)?;
        serde_json::to_writer_pretty(&mut *out, &json)?;
        writeln!(out)?;
        return Ok(Status::Done);
    }
    print_tried(out, &name, &head, &found)?;
    print_found(out, &head, &name, &workload, &found)?;
    print_words(out, &workload, &found, args.out.as_deref())?;
    Ok(Status::Done)
}

/// A search that fits into two minutes: no baseline beside the trials, which few could pay for.
fn head(
    args: &QuickstartArgs,
    workload: &Workload,
    workload_text: String,
) -> Result<Head, Failure> {
    let scenario_text = args.on.as_deref().map(target::scenario_text).transpose()?;
    let scenario_text = scenario_text.unwrap_or_default();
    Ok(Head {
        afflux_search: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        workload: workload.name.clone(),
        workload_text,
        clients: workload.clients,
        target: args.on.clone().unwrap_or_else(|| "a lab of two disks".to_owned()),
        scenario_text,
        method: METHOD.to_owned(),
        objective: STEADY.to_owned(),
        seed: args.seed,
        settle: args.settle,
        length: args.try_for,
        confirm_length: args.length,
        pairs: args.pairs,
        runs: 1,
        unpaired: true,
        start: Start::Fixed,
    })
}

/// What was tried, in the order of the search.
fn print_tried(
    out: &mut dyn Write,
    target: &str,
    head: &Head,
    found: &Found,
) -> Result<(), Failure> {
    let (name, length) = (&head.workload, head.length);
    writeln!(out, "{name} on {target}: runs of {length}, so within noise of each other")?;
    let mut rows = table(&["tried", "MB/s", "deviation", "score (tp - var of a client)"]);
    for entry in found.entries.iter().filter(|entry| entry.stage != Stage::Confirm) {
        let shown = match &entry.told {
            Told::Outcome(outcome) => {
                [outcome.speed_mb_s, outcome.speed_deviation_mb_s, outcome.score].map(number)
            }
            Told::Cost(cost) => [String::new(), String::new(), number(-cost)],
            Told::Fault(why) => [why.clone(), String::new(), String::new()],
        };
        rows.add_row(std::iter::once(entry.label.clone()).chain(shown));
    }
    writeln!(out, "{rows}\n")?;
    Ok(())
}

fn print_words(
    out: &mut dyn Write,
    workload: &Workload,
    found: &Found,
    kept: Option<&Path>,
) -> Result<(), Failure> {
    let changes = |comparison: &Comparison| -> Vec<String> {
        let sure = comparison.metrics.iter().filter(|c| c.change_percent.excludes_zero());
        let words = sure.map(|compared| {
            let change = compared.change_percent.mean;
            format!("{} {change:+.0}% ({})", compared.metric, compared.verdict())
        });
        words.collect()
    };
    for comparison in &found.comparisons {
        let (setting, baseline) = (&comparison.setting, &comparison.baseline);
        let sure = changes(comparison);
        if sure.is_empty() {
            writeln!(out, "{setting} against {baseline}: nothing that could be told from noise.")?;
        } else {
            writeln!(out, "{setting} against {baseline}, beyond noise: {}.", sure.join(", "))?;
        }
    }
    writeln!(
        out,
        "none is the baseline, a window of 8 requests for each client and server, as Lustre has \
         it.\nReal bytes over real TCP; the disks are modelled (afflux lab --help)."
    )?;
    if let Some(dir) = kept {
        writeln!(out, "To look at: {}", dir.join("report.html").display())?;
    }
    writeln!(out, "Next, a search of half an hour: afflux search {} --out found", workload.name)?;
    Ok(())
}
