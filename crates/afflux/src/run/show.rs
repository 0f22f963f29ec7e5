//! What people see of a run.

use std::io::{self, Write};

use afflux_core::units::{Span, display_bytes};
use afflux_node::calls::Cause;

use crate::run::record::{Coverage, PathRecord, RunRecord};
use crate::tables::{number, table};

/// Prints the report of a run: paths, holds, coverage.
pub(crate) fn show(run: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    let exits: Vec<String> = run.exits.iter().map(i32::to_string).collect();
    writeln!(
        out,
        "afflux: {} of {} process(es), {} s, {}; exit {}",
        run.mode,
        run.processes,
        number(run.seconds),
        held(run),
        exits.join(" "),
    )?;
    paths(run, out)?;
    coverage(run, out)?;
    remarks(run, out)
}

/// What held requests, and who shared it.
pub(crate) fn held(run: &RunRecord) -> String {
    if run.mode == "observe" {
        return "nothing held".to_owned();
    }
    let shared = run.segments.iter().map(|segment| match segment.as_str() {
        "node" => "in windows of the node",
        "user" => "in windows of the user",
        _ => "each process by itself",
    });
    format!("{}, {}", run.setting, shared.collect::<Vec<_>>().join(" and "))
}

/// The paths, most bytes first.
fn paths(run: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    if run.paths.is_empty() {
        return writeln!(
            out,
            "no regulated file was read or written{}",
            if run.roots.is_empty() { "" } else { " below the roots" }
        );
    }
    let mut table = table(&[
        "path",
        "MB",
        "MB/s",
        "peak",
        "requests",
        "mean ms",
        "p99 ms",
        "held s",
        "most held by",
    ]);
    for path in sorted(run) {
        let peak = path.bytes_by_second.iter().max().copied().unwrap_or(0);
        let active = path.bytes_by_second.iter().filter(|bytes| **bytes > 0).count().max(1);
        let mean = path.pt_sum_nanos as f64 / 1e6 / path.requests.max(1) as f64;
        table.add_row([
            format!("{} {}", path.server, path.class),
            number(path.bytes as f64 / 1e6),
            number(path.bytes as f64 / 1e6 / active as f64),
            number(peak as f64 / 1e6),
            path.requests.to_string(),
            number(mean),
            number(path.quantile_ms(0.99)),
            number(path.held_nanos() as f64 / 1e9),
            most_held(path),
        ]);
    }
    writeln!(out, "{table}")
}

fn sorted(run: &RunRecord) -> Vec<&PathRecord> {
    let mut paths: Vec<_> = run.paths.iter().collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.bytes));
    paths
}

fn most_held(path: &PathRecord) -> String {
    let most = path.holds.iter().max_by_key(|(_, hold)| hold.nanos);
    most.map_or_else(String::new, |(reason, hold)| format!("{reason} ({})", hold.count))
}

/// Coverage, and what is missing by its cause.
fn coverage(run: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    let one = |coverage: Coverage| {
        format!(
            "{} of {} ({:.1}%)",
            display_bytes(coverage.seen),
            display_bytes(coverage.all),
            coverage.percent()
        )
    };
    let [read, written] = run.coverage();
    writeln!(
        out,
        "seen of what the kernel counted for files: reads {}, writes {}",
        one(read),
        one(written)
    )?;
    for cause in Cause::ALL {
        if let Some(escape) = run.escapes.get(cause.name()) {
            let bytes = match escape.bytes {
                0 => String::new(),
                bytes => format!(", {}", display_bytes(bytes)),
            };
            let (name, count, about) = (cause.name(), escape.count, cause.about());
            writeln!(out, "  escaped: {name} x {count}{bytes}: {about}")?;
        }
    }
    for (stranger, count) in &run.strangers {
        writeln!(out, "    {stranger} x {count}")?;
    }
    Ok(())
}

/// What else must be known to read the report right.
fn remarks(run: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    if run.faults > 0 {
        writeln!(out, "  {} error(s) inside the library: a defect, please report it", run.faults)?;
    }
    if run.private > 0 {
        writeln!(out, "  {} program(s) had controllers of their own", run.private)?;
    }
    if run.lost > 0 {
        let lost = run.lost;
        writeln!(
            out,
            "  the counters of {lost} program(s) found no room: what they did is missing"
        )?;
    }
    if run.left_running > 0 {
        let left = run.left_running;
        writeln!(out, "  {left} process(es) still run; what they do from now on is not counted")?;
    }
    for remark in &run.remarks {
        writeln!(out, "  {remark}")?;
    }
    Ok(())
}

/// A span for people: as long as it matters.
pub(crate) fn span(nanos: u64) -> String {
    let span = Span::from_nanos(nanos);
    if span < Span::from_secs(1) {
        format!("{} ms", number(span.as_millis_f64()))
    } else {
        format!("{} s", number(span.as_secs_f64()))
    }
}
