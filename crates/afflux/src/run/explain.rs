//! Why requests were held: for each path, what held them, what that means, and what would change
//! it.

use std::io::{self, Write};

use afflux_core::limits::HoldReason;

use crate::run::record::{PathRecord, RunRecord};
use crate::run::show::{held, span};
use crate::tables::number;

/// What each reason means and what to do about it.
const fn meaning(reason: HoldReason) -> (&'static str, &'static str) {
    match reason {
        HoldReason::Window => (
            "as many requests were under way on this path as its window allows",
            "a larger window (--policy fixed:N) lets more go at once; if process times then grow \
             and throughput does not, the server was the limit",
        ),
        HoldReason::Gap => (
            "the rules ask for a pause between two requests",
            "another rule set, or one without gaps",
        ),
        HoldReason::Credits => (
            "the server granted no more credits",
            "the server is busy with others; it grants more when it is not",
        ),
        HoldReason::Cap => {
            ("the administrator's cap for this path was reached", "ask for a larger cap")
        }
        HoldReason::FanIn => (
            "this node had as many requests under way, over all servers, as --fan-in allows",
            "a larger --fan-in, unless answers then collide at this node's switch port",
        ),
        HoldReason::Turn => (
            "it was another client's turn at this server",
            "fewer clients that take turns, or shorter slots",
        ),
    }
}

/// Explains the holds of a run.
pub(crate) fn explain(run: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    let mut paths: Vec<_> = run.paths.iter().filter(|path| path.held_nanos() > 0).collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.held_nanos()));
    let (runs, processes) = (run.runs, run.processes);
    writeln!(
        out,
        "{runs} run(s), {processes} process(es), {} s, {}, {}",
        number(run.seconds),
        run.mode,
        held(run)
    )?;
    if paths.is_empty() {
        let why = match run.mode.as_str() {
            "observe" => "an observer holds nothing back",
            _ if run.paths.iter().all(|path| path.requests == 0) => {
                "no request reached a server: reads came from the page cache, and writes into it \
                 are not held (unless with --mode write-behind)"
            }
            _ => "no limit was ever reached",
        };
        return writeln!(out, "nothing was held: {why}");
    }
    for path in paths {
        one(path, out)?;
    }
    Ok(())
}

fn one(path: &PathRecord, out: &mut dyn Write) -> io::Result<()> {
    let requests = path.requests.max(1);
    writeln!(
        out,
        "\n{} {}: {} requests, {} on average at the server, {} held",
        path.server,
        path.class,
        path.requests,
        span(path.pt_sum_nanos / requests),
        span(path.held_nanos() / requests),
    )?;
    for reason in HoldReason::ALL {
        let Some(hold) = path.holds.get(reason.name()) else { continue };
        let (means, remedy) = meaning(reason);
        let share = 100 * hold.nanos / path.held_nanos().max(1);
        writeln!(
            out,
            "  {} {share}%: held {} times, {} in all: {means}",
            reason.name(),
            hold.count,
            span(hold.nanos)
        )?;
        writeln!(out, "    to change it: {remedy}")?;
    }
    let hits: Vec<String> = (1..)
        .zip(&path.rule_hits)
        .filter(|(_, hits)| **hits > 0)
        .map(|(rule, hits)| format!("{rule}: {hits}"))
        .collect();
    if !hits.is_empty() {
        writeln!(out, "  replies by rule: {}", hits.join(", "))?;
    }
    Ok(())
}
