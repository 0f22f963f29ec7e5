//! The commands: one file each, and one line in [`Command`].

mod bench;
mod calibrate;
mod ctl;
mod devdisk;
mod engine;
pub(crate) mod guard;
mod lab;
mod mount;
mod quickstart;
mod replay;
mod report;
mod rules;
mod run;
mod search;
mod sim;
mod why;

use clap::{Parser, Subcommand};

use crate::failure::{Failure, Status};
use crate::printer::Printer;

/// Traffic control for shared storage: measure it, rule it, and see what that gains.
#[derive(Debug, Parser)]
#[command(name = "afflux", version, about, propagate_version = true, max_term_width = 100)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See it work: start a small lab, let clients collide, regulate them, print what that gained
    Quickstart(quickstart::QuickstartArgs),
    /// Start, stop and look at a lab: real servers with real bytes on this machine
    Lab(lab::LabArgs),
    /// Look at the storage that a target is on: what it can do, and what its servers do
    Engine(engine::EngineArgs),
    /// Be a disk: a file that takes the time of a device model, for storage servers of others
    Devdisk(devdisk::DevdiskArgs),
    /// Mount an engine as a file system, whose requests are regulated
    Mount(mount::MountArgs),
    /// Run a workload, under one setting or several in alternating pairs
    Bench(bench::BenchArgs),
    /// Make the requests of a trace again, under one setting or several in alternating pairs
    Replay(replay::ReplayArgs),
    /// Find rules for a workload on a target, and say what they gain in fresh runs
    Search(search::SearchArgs),
    /// Find the shortest run of a workload whose throughput repeats
    Calibrate(calibrate::CalibrateArgs),
    /// Run a simulated world, or thousands of them, from a scenario file
    Sim(Box<sim::SimArgs>),
    /// Run a command under traffic control: its I/O is measured and regulated, unmodified
    Run(Box<run::RunArgs>),
    /// Explain what held the requests of a run
    Why(why::WhyArgs),
    /// Look at runs that are under way, change their rules, pause and resume them
    Ctl(ctl::CtlArgs),
    /// Make the page, the plots and their data from a result again
    Report(report::ReportArgs),
    /// Check, show, convert, split and simplify rule files
    Rules(rules::RulesArgs),
    /// Runs a search program until its input ends, for `search`
    #[command(hide = true, name = guard::NAME)]
    Guard(guard::GuardArgs),
}

/// A seed.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("write a whole number from 0 to {}, as in 7", u64::MAX))
}

impl CommandLine {
    /// Runs the command.
    pub(crate) fn run(&self, printer: &mut Printer) -> Result<Status, Failure> {
        let (out, talk) = (&mut *printer.out, &mut *printer.talk);
        match &self.command {
            Command::Quickstart(args) => quickstart::run(args, out, talk),
            Command::Lab(args) => Ok(lab::run(args, out, talk)?),
            Command::Engine(args) => engine::run(args, out, talk),
            Command::Devdisk(args) => devdisk::run(args, talk),
            Command::Mount(args) => mount::run(args, talk),
            Command::Bench(args) => bench::run(args, out, talk),
            Command::Replay(args) => replay::run(args, out, talk),
            Command::Search(args) => search::run(args, out, talk),
            Command::Calibrate(args) => calibrate::run(args, out, talk),
            Command::Sim(args) => sim::run(args, out, talk),
            Command::Run(args) => run::run(args, out, talk),
            Command::Why(args) => why::run(args, out),
            Command::Ctl(args) => ctl::run(args, out),
            Command::Report(args) => report::run(args, out),
            Command::Rules(args) => Ok(rules::run(args, out, talk)?),
            Command::Guard(args) => guard::run(args),
        }
    }
}
