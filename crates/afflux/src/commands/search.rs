//! `afflux search`: finds rules for a workload on a target, and says what they gain.

use std::io::Write;
use std::path::PathBuf;

use afflux_core::objective::Objective;
use afflux_core::search::{METHODS, Setup};
use afflux_core::units::Span;
use afflux_core::workload::Workload;

use crate::commands::bench::whole_seconds;
use crate::failure::{Failure, Status};
use crate::search::budget::Budget;
use crate::search::journal::{Head, Start, VERSION};
use crate::search::{Found, Session, external};
use crate::tables::measured::print_comparison;
use crate::tables::number;
use crate::{target, workloads};

/// Arguments of `afflux search`.
#[derive(Debug, clap::Args)]
#[command(after_help = target::help(EXAMPLES))]
pub(crate) struct SearchArgs {
    /// Preset or workload file; without it, the methods are listed. None with --on cmd:COMMAND
    workload: Option<String>,
    #[arg(long, value_name = "TARGET", default_value = "lab", help = target::ABOUT)]
    on: String,
    /// How to search, with its parameters, as in sharp:m=off; or a program, as in
    /// 'external:python3 mine.py'
    #[arg(long, default_value = "sharp")]
    method: String,
    /// What is to be large: an expression over tp, var, p99, ..., or a preset such as steady
    #[arg(long, default_value = "tp")]
    objective: String,
    /// How long: 30min, 2h, 200runs; the confirming runs are part of it. Time is what passes here,
    /// on a simulated target too
    #[arg(long, default_value = "30min")]
    budget: Budget,
    /// Directory of the search; one that is there is gone on with
    #[arg(long, value_name = "DIR", default_value = "afflux-search")]
    out: PathBuf,
    /// Rounds of the confirmation: baseline, best fixed setting and what was found in each
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=100))]
    pairs: u32,
    /// Runs of each trial; without it 1, or 3 when bursts are scored by their deviation
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// Run candidates without the baseline beside each: twice as fast, but drift stays in
    #[arg(long)]
    unpaired: bool,
    /// Counted time of a run
    #[arg(long, default_value = "10s", value_parser = whole_seconds)]
    length: Span,
    /// Counted time of a confirming run; without it, as long as the others
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    confirm_length: Option<Span>,
    /// What the method starts from
    #[arg(long, value_enum, default_value_t = Start::Method)]
    start: Start,
    /// Time at the start of a run that is not counted
    #[arg(long, default_value = "2s")]
    settle: Span,
    /// Number of clients, in place of the workload's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    clients: Option<u32>,
    /// Seed of all choices
    #[arg(long, default_value_t = 1)]
    #[arg(value_parser = crate::commands::seed, allow_negative_numbers = true)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux search small-reads --budget 20min --out found
  afflux search random-write --objective 'tp - 1.0*var' --budget 2h --out steady
  afflux search random-write --on sim:contended --budget 300runs --out simulated
  afflux search --on 'cmd:./simulation' --length 20s --budget 2h  rules for your own command
  afflux search my.toml --on dirs:/mnt/a,/mnt/b --method sharp:m=off --out try
  afflux search small-reads --method 'external:python3 bench/search/optuna_tpe.py'
  afflux search                                       the methods, with their parameters

Every search measures a grid of fixed windows and gaps first, and what it finds must beat
the best of them in fresh runs. The baseline runs beside each candidate. It may be killed at
any time: the same command goes on where it was. The directory keeps search.jsonl (every
trial), found.rules (the rules, with where they come from), result.json and report.html.";

/// A deviation over runs takes several of them.
fn runs_of_trial(objective: &Objective, workload: &Workload) -> u32 {
    let deviates = ["var", "cv"].iter().any(|name| objective.names(name));
    if workload.is_bursty() && deviates { 3 } else { 1 }
}

/// Runs the command.
pub(crate) fn run(
    args: &SearchArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let chosen = workloads::chosen(args.workload.as_deref(), &args.on)?;
    let Some((mut workload, workload_text)) = chosen else { return list(out) };
    if let Some(clients) = args.clients {
        workload.clients = target::clients(clients, &args.on)?;
    }
    let objective: Objective =
        args.objective.parse().map_err(|error| Failure::input(format!("--objective: {error}")))?;
    // A misspelt method should be told before a lab is started.
    external::check(&args.method, &Setup::new(args.seed))?;
    if args.start == Start::Fixed && args.method.starts_with("external") {
        return Err(Failure::input(
            "--start fixed: a search program starts where it likes; leave --start out",
        ));
    }
    let head = Head {
        afflux_search: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        workload: workload.name.clone(),
        workload_text,
        clients: workload.clients,
        target: args.on.clone(),
        scenario_text: target::scenario_text(&args.on)?,
        method: args.method.clone(),
        objective: args.objective.clone(),
        seed: args.seed,
        settle: args.settle,
        length: args.length,
        confirm_length: args.confirm_length.unwrap_or(args.length),
        pairs: args.pairs,
        runs: args.runs.unwrap_or_else(|| runs_of_trial(&objective, &workload)),
        unpaired: args.unpaired,
        start: args.start,
    };
    let (budget, workload, dir) = (args.budget, &workload, args.out.as_path());
    let session = Session { head: &head, workload, objective, budget, dir };
    // Another search on the directory should be told before a lab is started, too.
    let journal = session.open(talk)?;
    let mut target = target::open(&args.on, talk)?;
    let target_name = target.name();
    let found = session.run(journal, target.as_mut(), talk)?;
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &found_json(&head, &found))?;
        writeln!(out)?;
    } else {
        print_found(out, &head, &target_name, workload, &found)?;
    }
    Ok(Status::Done)
}

/// Prints what was found, for people.
pub(crate) fn print_found(
    out: &mut dyn Write,
    head: &Head,
    target: &str,
    workload: &Workload,
    found: &Found,
) -> Result<(), Failure> {
    let (fixed, best) = (&found.fixed, &found.best);
    writeln!(out, "The method ended: {}.", found.ended)?;
    writeln!(out, "Best fixed setting: {}, {}", fixed.candidate.label(), number(fixed.score))?;
    writeln!(out, "Found: {}, {}", best.candidate.label(), number(best.score))?;
    let again = found.entries.iter().filter(|entry| entry.again.is_some()).count();
    if again > 0 {
        let of = found.entries.len();
        writeln!(
            out,
            "Doubted and made again: {again} of {of} trials; search.jsonl has them all."
        )?;
    }
    writeln!(out)?;
    for comparison in &found.comparisons {
        print_comparison(out, target, workload, &head.plan(), comparison)?;
    }
    Ok(())
}

/// What was found, for programs.
pub(crate) fn found_json(head: &Head, found: &Found) -> serde_json::Value {
    serde_json::json!({
        "afflux_search": VERSION,
        "search": head,
        "ended": found.ended,
        "best_fixed": found.fixed.candidate.label(),
        "best": found.best.candidate.label(),
        "comparisons": found.comparisons,
    })
}

fn list(out: &mut dyn Write) -> Result<Status, Failure> {
    for method in METHODS {
        writeln!(out, "{:<10} {}", method.name, method.about)?;
        for parameter in method.parameters {
            writeln!(out, "    {}={}  {}", parameter.name, parameter.default, parameter.about)?;
        }
    }
    writeln!(out, "\nSearch with: afflux search WORKLOAD --method NAME; see afflux search --help")?;
    Ok(Status::Done)
}
