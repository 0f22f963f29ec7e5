//! The command line.

mod commands;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::lab::{self, LabEnd};

#[derive(Debug, Parser)]
#[command(version, about = "Traffic control for shared storage")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The embedded storage cluster
    Lab(lab::LabArgs),
}

fn main() -> ExitCode {
    let Command::Lab(args) = Cli::parse().command;
    let ended = lab::run(&args, &mut io::stdout(), &mut io::stderr());
    match ended {
        Ok(LabEnd::Done) => ExitCode::SUCCESS,
        Ok(LabEnd::No) => ExitCode::from(1),
        Err(error) => {
            anstream::eprintln!("afflux: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
