//! `afflux search`: finds rules for a workload on a target, and says what they gain.

use std::io::Write;
use std::path::PathBuf;

use afflux_core::objective::Objective;
use afflux_core::rules::RuleFile;
use afflux_core::search::{METHODS, Setup};
use afflux_core::units::Span;
use afflux_core::workload::Workload;

use crate::commands::bench::{print_comparison, whole_seconds};
use crate::experiment::Plan;
use crate::failure::{Failure, Status};
use crate::report::ResultFolder;
use crate::search::budget::Budget;
use crate::search::journal::{Head, Journal, VERSION};
use crate::search::live::Live;
use crate::search::{Driver, Found, external, record};
use crate::tables::number;
use crate::{target, workloads};

/// Arguments of `afflux search`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SearchArgs {
    /// Preset or workload file; without it, the methods are listed
    workload: Option<String>,
    /// What to run on: lab (a running one, else one for this search), lab:DIR, dirs:DIR,DIR, null
    #[arg(long, value_name = "TARGET", default_value = "lab")]
    on: String,
    /// How to search, with its parameters, as in sharp:m=off; or a program, as in
    /// 'external:python3 mine.py'
    #[arg(long, default_value = "sharp")]
    method: String,
    /// What is to be large: an expression over tp, var, p99, ..., or a preset such as steady
    #[arg(long, default_value = "tp")]
    objective: String,
    /// How long: 30min, 2h, 200runs; the confirming runs are part of it
    #[arg(long, default_value = "30min")]
    budget: Budget,
    /// Directory of the search; one that is there is gone on with
    #[arg(long, value_name = "DIR", default_value = "afflux-search")]
    out: PathBuf,
    /// Rounds of the confirmation: baseline, best fixed setting and what was found in each
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=100))]
    pairs: u32,
    /// Counted time of a run
    #[arg(long, default_value = "10s", value_parser = whole_seconds)]
    length: Span,
    /// Time at the start of a run that is not counted
    #[arg(long, default_value = "2s")]
    settle: Span,
    /// Number of clients, in place of the workload's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: Option<u32>,
    /// Seed of all choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux search small-reads --budget 20min --out found
  afflux search random-write --objective 'tp - 1.0*var' --budget 2h --out steady
  afflux search my.toml --on dirs:/mnt/a,/mnt/b --method sharp:m=off --out try
  afflux search small-reads --method 'external:python3 bench/search/optuna_tpe.py'
  afflux search                                       the methods, with their parameters

Every search measures a grid of fixed windows and gaps first, and what it finds must beat
the best of them in fresh runs. It may be killed at any time: the same command goes on
where it was. The directory keeps search.jsonl (every trial) and found.rules (the rules,
with where they come from).";

/// Runs the command.
pub(crate) fn run(
    args: &SearchArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let Some(name) = &args.workload else { return list(out) };
    let (mut workload, workload_text) = workloads::load_with_text(name)?;
    if let Some(clients) = args.clients {
        workload.clients = clients;
    }
    let objective: Objective =
        args.objective.parse().map_err(|error| Failure::input(format!("--objective: {error}")))?;
    // A misspelt method should be told before a lab is started.
    external::check(&args.method, &Setup::new(args.seed))?;
    let head = Head {
        afflux_search: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        workload: workload.name.clone(),
        workload_text,
        clients: workload.clients,
        target: args.on.clone(),
        method: args.method.clone(),
        objective: args.objective.clone(),
        seed: args.seed,
        settle: args.settle,
        length: args.length,
        pairs: args.pairs,
    };
    let journal = Journal::open(&args.out, &head)?;
    let earlier = journal.entries.len();
    if earlier > 0 || journal.torn_bytes > 0 {
        let dir = args.out.display();
        writeln!(talk, "afflux: going on with the search in {dir}, {earlier} runs are done")?;
    }
    let mut target = target::open(&args.on, talk)?;
    let live = Live::new()?;
    let target_name = target.name();
    let (budget, workload) = (args.budget, &workload);
    let target = target.as_mut();
    let driver = Driver { head: &head, journal, target, workload, objective, budget, live: &live };
    let found = driver.run();
    live.finish();
    let found = found?;
    keep(args, &head, &target_name, &found, talk)?;
    let folder = ResultFolder::at(&args.out);
    folder.write(&record::of(&head, &target_name, workload, args.budget, &found)?)?;
    writeln!(talk, "afflux: the page is {}", folder.page_path().display())?;
    print(args, out, &head, &target_name, workload, &found)
}

/// Prints what was found.
fn print(
    args: &SearchArgs,
    out: &mut dyn Write,
    head: &Head,
    target: &str,
    workload: &Workload,
    found: &Found,
) -> Result<Status, Failure> {
    let (settle, length) = (args.settle, args.length);
    let plan = Plan { pairs: args.pairs, settle, length, seed: args.seed, trace: None };
    if args.json {
        let best = found.best.candidate.label();
        let found = serde_json::json!({
            "afflux_search": VERSION,
            "search": head,
            "ended": found.ended,
            "best_fixed": found.fixed.candidate.label(),
            "best": best,
            "comparisons": found.comparisons,
        });
        serde_json::to_writer_pretty(&mut *out, &found)?;
        writeln!(out)?;
        return Ok(Status::Done);
    }
    let (fixed, best) = (&found.fixed, &found.best);
    writeln!(out, "The method ended: {}.", found.ended)?;
    writeln!(out, "Best fixed setting: {}, {}", fixed.candidate.label(), number(fixed.score))?;
    writeln!(out, "Found: {}, {}\n", best.candidate.label(), number(best.score))?;
    for comparison in &found.comparisons {
        print_comparison(out, target, workload, &plan, comparison)?;
    }
    Ok(Status::Done)
}

/// Keeps the rules that were found, with where they come from.
fn keep(
    args: &SearchArgs,
    head: &Head,
    target: &str,
    found: &Found,
    talk: &mut dyn Write,
) -> Result<(), Failure> {
    let Some(file) = found.best.candidate.rule_file() else { return Ok(()) };
    let gain = found.comparisons.first().and_then(|comparison| comparison.metrics.first());
    let gain = gain.map(|compared| {
        let change = compared.change_percent;
        format!("{:+.1}% ({:+.1}% to {:+.1}%)", change.mean, change.low, change.high)
    });
    let provenance = [
        ("workload", head.workload.clone()),
        ("clients", head.clients.to_string()),
        ("target", target.to_owned()),
        ("method", head.method.clone()),
        ("objective", head.objective.clone()),
        ("seed", head.seed.to_string()),
        ("score", found.best.score.to_string()),
        ("throughput-against-none", gain.unwrap_or_default()),
        ("program", format!("afflux {}", head.program)),
    ];
    let provenance = provenance.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let file = RuleFile { name: Some(format!("{}-found", head.workload)), provenance, ..file };
    let path = args.out.join("found.rules");
    std::fs::write(&path, file.to_string())
        .map_err(|error| Failure::broken(format!("cannot write {}: {error}", path.display())))?;
    writeln!(talk, "afflux: the rules are in {}", path.display())?;
    Ok(())
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
