//! `afflux report`: the page, the plots and their data from a result that was written before.

use std::io::Write;
use std::path::PathBuf;

use crate::failure::{Failure, Status};
use crate::report::ResultFolder;

/// Arguments of `afflux report`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Directory that a command wrote with `--out`
    dir: PathBuf,
    /// Print the path of the page as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux bench random-write --compare fixed:32 --out result
  afflux report result

Reads DIR/result.json and writes DIR/report.html, DIR/plots/*.svg and DIR/data/*.csv.
The page needs no network and no script.";

/// Runs the command.
pub(crate) fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<Status, Failure> {
    let folder = ResultFolder::at(&args.dir);
    let result = folder.read()?;
    folder.render(&result)?;
    let page = folder.page_path().display().to_string();
    if args.json {
        serde_json::to_writer(&mut *out, &serde_json::json!({ "page": page }))?;
        writeln!(out)?;
    } else {
        writeln!(out, "{page}")?;
    }
    Ok(Status::Done)
}
