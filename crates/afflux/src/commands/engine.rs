//! `afflux engine`: what there is to know of the storage below.

mod locate;
mod probe;

use std::io::Write;

use crate::failure::{Failure, Status};

/// Arguments of `afflux engine`.
#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    #[command(subcommand)]
    command: EngineCommand,
}

#[derive(Debug, clap::Subcommand)]
enum EngineCommand {
    /// Connect to a target and show what it can do, and what its servers counted
    Probe(probe::ProbeArgs),
    /// Say where a file lies: its mount, its layout, and which server keeps a byte of it
    Locate(locate::LocateArgs),
}

/// Runs the command.
pub(crate) fn run(
    args: &EngineArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    match &args.command {
        EngineCommand::Probe(args) => probe::run(args, out, talk),
        EngineCommand::Locate(args) => locate::run(args, out),
    }
}
