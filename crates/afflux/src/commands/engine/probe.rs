//! `afflux engine probe`: what a target can do, and what its servers counted.

use std::io::Write;

use afflux_core::units::Span;
use afflux_node::clock;
use afflux_store::engine::registry::EngineSpec;
use afflux_store::engine::{Capabilities, EngineError, ServerStatistics};
use serde::Serialize;

use crate::failure::{Failure, Status};
use crate::tables::{number, round_bytes, table};

/// Arguments of `afflux engine probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// What to look at, as for bench: lab, dirs:DIR,DIR or rados:CONF
    #[arg(long, default_value = "lab", value_name = "TARGET")]
    on: EngineSpec,
    /// Show what happens in this time, instead of what happened since the servers started
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Span>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux engine probe                                   the lab
  afflux engine probe --on rados --for 10s              ten seconds of a Ceph cluster
  afflux engine probe --on dirs:/mnt/a,/mnt/b --json";

/// What a probe shows.
#[derive(Debug, Serialize)]
struct Probe {
    target: String,
    engine: &'static str,
    durable: bool,
    keeps_data: bool,
    server_times: bool,
    cancels: bool,
    /// How long was watched, in seconds; none when the numbers are since the servers started.
    seconds: Option<f64>,
    servers: Vec<ServerStatistics>,
}

/// Runs the command.
pub(crate) fn run(
    args: &ProbeArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, Failure> {
    let engine = args.on.connect().map_err(Failure::input)?;
    let asked = |error: EngineError| Failure::broken(error);
    let mut servers = engine.statistics().map_err(asked)?;
    if let Some(length) = args.length {
        writeln!(talk, "afflux: watching {} for {length}", args.on)?;
        clock::sleep(length);
        let after = engine.statistics().map_err(asked)?;
        servers = after.iter().zip(&servers).map(|(after, before)| after.since(before)).collect();
    }
    let Capabilities { durable, keeps_data, server_times, cancels } = engine.capabilities();
    let (target, engine) = (args.on.to_string(), engine.name());
    let seconds = args.length.map(Span::as_secs_f64);
    let probe =
        Probe { target, engine, durable, keeps_data, server_times, cancels, seconds, servers };
    if args.json {
        serde_json::to_writer(&mut *out, &probe)?;
        writeln!(out)?;
    } else {
        print(out, &probe)?;
    }
    Ok(Status::Done)
}

fn print(out: &mut dyn Write, probe: &Probe) -> Result<(), Failure> {
    let (storage, catalog) = (probe.servers.len().saturating_sub(1), "a catalog");
    writeln!(out, "{}: engine {}, {storage} servers and {catalog}", probe.target, probe.engine)?;
    for (is, what) in [
        (probe.durable, "keeps what was acknowledged when its processes are killed"),
        (probe.keeps_data, "gives back what was written"),
        (probe.server_times, "tells the times of single requests at its servers"),
        (probe.cancels, "lets requests be given up"),
    ] {
        writeln!(out, "  {} {what}", if is { "yes" } else { "no " })?;
    }
    let heads = ["server", "requests", "read", "written", "queue", "wait ms", "answer ms", "kept"];
    let mut servers = table(&heads);
    for server in &probe.servers {
        let mean = |secs: f64| match server.requests {
            0 => "-".to_owned(),
            requests => number(1e3 * secs / requests as f64),
        };
        let rate = |count: u64, unit: fn(u64) -> String| match probe.seconds {
            Some(seconds) => format!("{}/s", unit((count as f64 / seconds) as u64)),
            None => unit(count),
        };
        servers.add_row([
            server.server.clone(),
            rate(server.requests, |requests| requests.to_string()),
            rate(server.read_bytes, round_bytes),
            rate(server.written_bytes, round_bytes),
            format!("{} (max {})", server.queue_depth, server.queue_depth_max),
            mean(server.waited_secs),
            mean(server.answered_secs),
            server.stored_bytes.map_or_else(|| "?".to_owned(), round_bytes),
        ]);
    }
    writeln!(out, "{servers}")?;
    Ok(())
}
