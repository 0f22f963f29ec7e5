//! Traffic control for shared storage: the command line.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "afflux", version, about = "Traffic control for shared storage")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Rules(commands::rules::RulesArgs),
}

fn main() -> ExitCode {
    let Command::Rules(args) = Cli::parse().command;
    let (mut out, mut talk) = (std::io::stdout().lock(), std::io::stderr().lock());
    match commands::rules::run(&args, &mut out, &mut talk) {
        Ok(answer) => ExitCode::from(answer.exit_code()),
        Err(error) => {
            let _ = std::io::Write::write_fmt(&mut talk, format_args!("afflux: {error}\n"));
            ExitCode::from(error.exit_code())
        }
    }
}
