//! `afflux`: traffic control for shared storage, on the command line.

#![forbid(unsafe_code)]

mod commands;
mod experiment;
mod failure;
mod interval;
mod locate;
mod printer;
mod progress;
mod report;
mod run;
mod search;
mod settings;
mod survey;
mod tables;
mod target;
mod workloads;
mod worlds;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let command_line = match commands::CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => return printer::usage(&error),
    };
    let mut printer = printer::Printer::new();
    let outcome = command_line.run(&mut printer);
    printer.end(outcome)
}
