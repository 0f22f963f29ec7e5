//! `afflux lab up|status|down`: the embedded storage cluster.

use std::io::{self, Write};
use std::path::PathBuf;

use afflux_core::units::parse_bytes;
use afflux_store::lab::cluster::serve::{ServeError, serve};
use afflux_store::lab::cluster::state::{LabState, StateError};
use afflux_store::lab::cluster::status::{LabStatus, ServerStatus};
use afflux_store::lab::cluster::{self, ClusterError, ClusterOptions, default_dir};
use afflux_store::lab::device::LabDevice;
use afflux_store::lab::server::CreditReport;
use clap::{Args, Subcommand};

use crate::failure::{Failure, Status};
use crate::tables::round_bytes;

/// Arguments of `afflux lab`.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Start a lab: storage servers and a metadata server as processes of this machine
    Up(UpArgs),
    /// Show whether its servers are alive, and what they did
    Status(StatusArgs),
    /// End it; its data stay unless --wipe is given
    Down(DownArgs),
    /// Be one of its servers; `lab up` starts these
    #[command(hide = true)]
    Serve {
        /// What server to be, as JSON
        order: String,
    },
}

#[derive(Debug, Args)]
struct UpArgs {
    /// How many storage servers
    #[arg(long, default_value_t = 4, value_name = "N")]
    servers: u32,
    /// What they keep objects on: mem, file, or the model of a device such as hdd, ssd or
    /// hdd:elevator=fifo
    #[arg(long, default_value = "hdd")]
    device: LabDevice,
    /// Where the lab lives [default: $XDG_RUNTIME_DIR/afflux-lab, else afflux-lab-UID in the
    /// directory for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Most bytes on each storage server, as in 2GiB [default: what the device holds; 1GiB with
    /// mem]
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    capacity: Option<u64>,
    /// Service threads of each storage server
    #[arg(long, default_value_t = 128, value_name = "N")]
    threads: usize,
    /// Have servers say how many requests each client may have in flight, so that the time there
    /// stays under a bound, as in L_max=200ms or L_max=1s,RCC_max=64,shares=3:1
    #[arg(long, value_name = "OPTIONS")]
    credits: Option<String>,
    /// First port; the servers take it and those after it [default: free ports]
    #[arg(long)]
    port: Option<u16>,
    /// Print the lab's state as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Where the lab lives [default: as for `lab up`]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DownArgs {
    /// Where the lab lives [default: as for `lab up`]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Remove its data too; files that are not the lab's stay
    #[arg(long)]
    wipe: bool,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// The lab could not be started or ended.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A server ended.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The executable that the servers run cannot be found.
    #[error("cannot find this program's own file: {0}")]
    Executable(io::Error),
    /// What was to be printed could not be.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Print(error) => Self::from(error),
            LabError::Cluster(error) if error.is_input() => Self::input(error),
            error => Self::broken(error),
        }
    }
}

impl From<StateError> for LabError {
    fn from(error: StateError) -> Self {
        Self::Cluster(error.into())
    }
}

/// Runs the command: data go to `out`, messages to `talk`.
///
/// # Errors
///
/// Those of the lab, its servers, or the output.
pub(crate) fn run(
    args: &LabArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, LabError> {
    match &args.command {
        LabCommand::Up(args) => up(args, out, talk),
        LabCommand::Status(args) => status(args, out),
        LabCommand::Down(args) => down(args, talk),
        LabCommand::Serve { order } => {
            serve(order, out)?;
            Ok(Status::Done)
        }
    }
}

fn up(args: &UpArgs, out: &mut dyn Write, talk: &mut dyn Write) -> Result<Status, LabError> {
    let dir = args.dir.clone().unwrap_or_else(default_dir);
    let options = ClusterOptions {
        servers: args.servers,
        device: args.device.clone(),
        capacity_bytes: args.capacity,
        threads: args.threads,
        credits: args.credits.clone(),
        port: args.port,
        ..ClusterOptions::new(&dir).map_err(LabError::Executable)?
    };
    let state = cluster::up(&options)?;
    if args.json {
        print_json(out, &state)?;
    } else {
        print_state(out, &state)?;
        let at =
            if args.dir.is_some() { format!(" --dir {}", dir.display()) } else { String::new() };
        writeln!(talk, "the lab is up in {}; end it with `afflux lab down{at}`", dir.display())?;
    }
    Ok(Status::Done)
}

fn print_state(out: &mut dyn Write, state: &LabState) -> io::Result<()> {
    for server in &state.servers {
        let pid = server.process.as_ref().map_or(0, |process| process.pid);
        writeln!(out, "{:<12} {}  pid {pid}", server.name, server.address())?;
    }
    Ok(())
}

fn status(args: &StatusArgs, out: &mut dyn Write) -> Result<Status, LabError> {
    let dir = args.dir.clone().unwrap_or_else(default_dir);
    let status = LabStatus::of(&dir)?;
    if args.json {
        print_json(out, &status)?;
    } else {
        let head = ["server", "state", "requests", "read", "written", "queue", "stored", "device"];
        print_row(out, &head.map(str::to_owned))?;
        for server in &status.servers {
            print_row(out, &row(server))?;
        }
        for server in &status.servers {
            let report = server.report.as_ref().and_then(|report| report.credits.as_ref());
            if let Some(report) = report {
                print_credits(out, &server.name, report)?;
            }
        }
    }
    Ok(if status.is_well() { Status::Done } else { Status::No })
}

fn row(server: &ServerStatus) -> [String; 8] {
    let state = match (&server.report, &server.trouble) {
        (Some(_), _) => "alive".to_owned(),
        (None, Some(trouble)) => format!("silent ({trouble})"),
        (None, None) => "down".to_owned(),
    };
    let report = server.report.clone().unwrap_or_default();
    let counted = report.statistics;
    let stored = counted.stored_bytes.map_or_else(|| "?".to_owned(), round_bytes);
    [
        server.name.clone(),
        state,
        counted.requests.to_string(),
        round_bytes(counted.read_bytes),
        round_bytes(counted.written_bytes),
        format!("{} (max {})", counted.queue_depth, counted.queue_depth_max),
        match report.capacity_bytes {
            Some(most) => format!("{stored} of {}", round_bytes(most)),
            None => stored,
        },
        report.device,
    ]
}

fn print_row(out: &mut dyn Write, cells: &[String; 8]) -> io::Result<()> {
    let [server, state, requests, read, written, queue, stored, device] = cells;
    writeln!(
        out,
        "{server:<11} {state:<6} {requests:>9} {read:>10} {written:>10} {queue:>13} {stored:>20} \
         {device}"
    )
}

/// What a server makes of its credits, and who ignores them.
fn print_credits(out: &mut dyn Write, server: &str, report: &CreditReport) -> io::Result<()> {
    let CreditReport { active, depth, iops, bound_secs, late, replies, .. } = report;
    let bound = match (report.depth_max, report.broken_secs) {
        (Some(most), _) => format!("the bound of {bound_secs} s holds with up to {most}"),
        (None, Some(secs)) => format!(
            "the bound of {bound_secs} s CANNOT be held: the least credits lead to {secs:.3} s; \
             raise L_max, or spread the clients over more servers"
        ),
        (None, None) => format!("the bound of {bound_secs} s; the rate is not known yet"),
    };
    let granted = report.granted.map_or("-".to_owned(), |granted| granted.to_string());
    writeln!(
        out,
        "\n{server}: {active} active clients, {granted} credits each, {depth} requests here at \
         {iops:.1} a second; {bound}; {late} of {replies} replies were later"
    )?;
    if let Some(secs) = report.timeout_secs {
        writeln!(out, "{server}: clients should wait for {secs:.1} s before they give up")?;
    }
    for (client, beyond) in &report.ignoring {
        writeln!(out, "{server}: {client} ignores its credits: {beyond} requests beyond them")?;
    }
    Ok(())
}

fn down(args: &DownArgs, talk: &mut dyn Write) -> Result<Status, LabError> {
    let dir = args.dir.clone().unwrap_or_else(default_dir);
    let ended = cluster::down(&dir, args.wipe)?;
    let what = if args.wipe { "its data are removed" } else { "its data are kept" };
    if ended.is_empty() {
        writeln!(talk, "the lab in {} was not running; {what}", dir.display())?;
    } else {
        writeln!(talk, "ended {} servers in {}; {what}", ended.len(), dir.display())?;
    }
    Ok(Status::Done)
}

fn print_json(out: &mut dyn Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}
