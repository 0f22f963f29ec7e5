//! `afflux why`: what held the requests of a run, and what would change it.

use std::io::Write;
use std::path::PathBuf;

use crate::commands::run::last_report;
use crate::failure::{Failure, Status};
use crate::run::explain::explain;
use crate::run::record::RunRecord;

/// Arguments of `afflux why`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WhyArgs {
    /// Report, or directory of reports, whose runs are added up; without it, the last run
    report: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux why                       the last run of this user
  afflux why ranks                 all reports that were kept with --report ranks, as one
  afflux why ranks --json";

/// Runs the command.
pub(crate) fn run(args: &WhyArgs, out: &mut dyn Write) -> Result<Status, Failure> {
    let path = args.report.clone().or_else(last_report);
    let path = path.filter(|path| args.report.is_some() || path.exists()).ok_or_else(|| {
        Failure::input("there was no run yet: start one with `afflux run -- COMMAND`")
    })?;
    let run = RunRecord::read(&path)?;
    if args.json {
        serde_json::to_writer(&mut *out, &run)?;
        writeln!(out)?;
    } else {
        explain(&run, out)?;
    }
    Ok(Status::Done)
}
