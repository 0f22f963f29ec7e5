//! What one simulated run showed, for people.

use std::io::Write;

use afflux_core::class::Class;
use afflux_core::measure::Measurement;
use afflux_core::summary::Summary;
use afflux_sim::{Outcome, Scenario};

use crate::failure::Failure;
use crate::tables::measured::{print_clients, print_hits, print_holds, print_totals};
use crate::tables::{number, table};
use crate::worlds::published::Beside;
use crate::worlds::record::{client_means, counts, process_times};

/// Clients that have a row each; of more, the spread is told.
const ROWS: usize = 16;

/// All tables of a run.
pub(super) fn print(
    out: &mut dyn Write,
    scenario: &Scenario,
    setting: &str,
    outcome: &Outcome,
) -> Result<(), Failure> {
    let measurement = &outcome.measurement;
    let count = |count: u64, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let (clients, servers) = (scenario.client_count(), scenario.servers.count);
    writeln!(
        out,
        "{}: {} on {} under {setting}, seed {}; {} s counted after {}",
        scenario.name,
        count(clients.into(), "client"),
        count(servers.into(), "server"),
        outcome.seed,
        number(measurement.counted_secs),
        scenario.run.settle,
    )?;
    print_totals(out, &Summary::of(measurement))?;
    if measurement.clients.len() <= ROWS && outcome.merged == 1 {
        print_clients(out, measurement)?;
    } else {
        print_spread(out, measurement, outcome.merged)?;
    }
    print_times(out, measurement)?;
    print_applications(out, outcome)?;
    print_holds(out, measurement)?;
    print_hits(out, measurement)?;
    print_ledgers(out, outcome)?;
    print_counts(out, outcome)
}

/// How the throughput of many clients is spread.
fn print_spread(
    out: &mut dyn Write,
    measurement: &Measurement,
    merged: u32,
) -> Result<(), Failure> {
    let mut means = client_means(measurement);
    means.sort_by(f64::total_cmp);
    let who = if merged == 1 { "clients".to_owned() } else { format!("groups of {merged}") };
    let mut rows = table(&[&format!("{} {who}", means.len()), "MB/s"]);
    for (name, part) in
        [("least", 0.0), ("10% at most", 0.1), ("median", 0.5), ("90% at most", 0.9), ("most", 1.0)]
    {
        let at = ((means.len().max(1) - 1) as f64 * part).round() as usize;
        let value = means.get(at).copied().unwrap_or(0.0);
        // Of many clients each may have little.
        let value = if value < 0.1 { format!("{value:.4}") } else { number(value) };
        rows.add_row([name.to_owned(), value]);
    }
    writeln!(out, "{rows}\n")?;
    Ok(())
}

/// Percentiles that are told of process times.
const QUANTILES: [(&str, f64); 6] =
    [("10%", 0.1), ("50%", 0.5), ("90%", 0.9), ("99%", 0.99), ("99.9%", 0.999), ("longest", 1.0)];

fn print_times(out: &mut dyn Write, measurement: &Measurement) -> Result<(), Failure> {
    let heads = ["process time, ms", "replies", "mean"].into_iter();
    let heads: Vec<_> = heads.chain(QUANTILES.iter().map(|(name, _)| *name)).collect();
    let mut rows = table(&heads);
    for class in Class::ALL {
        let times = process_times(measurement, class);
        if times.count() == 0 {
            continue;
        }
        let quantiles =
            QUANTILES.iter().map(|(_, quantile)| number(times.quantile(*quantile).as_millis_f64()));
        let head =
            [class.to_string(), times.count().to_string(), number(times.mean().as_millis_f64())];
        rows.add_row(head.into_iter().chain(quantiles));
    }
    if !rows.is_empty() {
        writeln!(out, "{rows}\n")?;
    }
    Ok(())
}

/// Applications, where there are several or they come to an end.
fn print_applications(out: &mut dyn Write, outcome: &Outcome) -> Result<(), Failure> {
    let all = &outcome.applications;
    if all.len() < 2 && all.iter().all(|one| one.ended_secs.is_none()) {
        return Ok(());
    }
    let mut rows =
        table(&["application", "clients", "started, s", "ended, s", "I/O time, s", "MB"]);
    let secs = |secs: Option<f64>| secs.map_or("-".to_owned(), |secs| format!("{secs:.3}"));
    for one in all {
        rows.add_row([
            one.name.clone(),
            one.clients.to_string(),
            secs(one.started_secs),
            secs(one.ended_secs),
            secs(one.io_secs()),
            number(one.bytes as f64 / 1e6),
        ]);
    }
    writeln!(out, "{rows}\n")?;
    Ok(())
}

/// Servers that are told each; more are as many rows that say the same.
const LEDGERS: usize = 4;

/// What the servers' credits came to, and who ignored them.
fn print_ledgers(out: &mut dyn Write, outcome: &Outcome) -> Result<(), Failure> {
    if outcome.ledgers.is_empty() {
        return Ok(());
    }
    let heads =
        ["server", "active", "a second", "bound holds to", "late", "beyond credits", "time-out, s"];
    let mut rows = table(&heads);
    for (server, one) in outcome.ledgers.iter().enumerate().take(LEDGERS) {
        let bound = match (one.depth_max, one.broken_secs) {
            (Some(depth), _) => depth.to_string(),
            (None, Some(secs)) => format!("broken: {secs:.3} s"),
            (None, None) => "-".to_owned(),
        };
        rows.add_row([
            server.to_string(),
            one.active.to_string(),
            number(one.iops),
            bound,
            one.late.to_string(),
            one.overdrawn.to_string(),
            one.timeout_secs.map_or("-".to_owned(), number),
        ]);
    }
    writeln!(out, "{rows}\n")?;
    let mut ignoring: Vec<u32> =
        outcome.ledgers.iter().flat_map(|one| one.ignoring.iter().copied()).collect();
    ignoring.sort_unstable();
    ignoring.dedup();
    if !ignoring.is_empty() {
        let names: Vec<String> = ignoring.iter().take(ROWS).map(u32::to_string).collect();
        let more = if ignoring.len() > ROWS { ", ..." } else { "" };
        let count = ignoring.len();
        writeln!(out, "{count} of the clients ignored credits: {}{more}\n", names.join(", "))?;
    }
    Ok(())
}

/// What happened over the whole run; what did not is left out.
fn print_counts(out: &mut dyn Write, outcome: &Outcome) -> Result<(), Failure> {
    let mut rows = table(&["in the whole run", "count"]);
    for (what, count) in counts(outcome) {
        rows.add_row([what.to_owned(), count.to_string()]);
    }
    writeln!(out, "{rows}")?;
    Ok(())
}

/// Published figures beside simulated ones.
pub(super) fn print_beside(out: &mut dyn Write, figures: &[Beside]) -> Result<(), Failure> {
    if figures.is_empty() {
        return Ok(());
    }
    let heads =
        ["figure", "published", "simulated", "unit", "difference", "all models", "", "source"];
    let mut rows = table(&heads);
    for column in [6, 7] {
        rows.column_mut(column).into_iter().for_each(|column| {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        });
    }
    for one in figures {
        let dash = || "-".to_owned();
        rows.add_row([
            one.name.clone(),
            number(one.published),
            one.simulated.map_or_else(dash, number),
            one.unit.clone(),
            one.difference_percent.map_or_else(dash, |percent| format!("{percent:+.1}%")),
            one.range.map_or_else(dash, |[least, most]| {
                format!("{} to {}", number(least), number(most))
            }),
            one.use_.words().to_owned(),
            one.source.clone(),
        ]);
    }
    writeln!(out, "\n{rows}")?;
    if figures.iter().any(|one| one.range.is_some()) {
        writeln!(
            out,
            "The paper leaves open which of the models holds, so that each result is a range over \
             them; what stands above is of the first. One alone: --set model=NAME"
        )?;
    }
    Ok(())
}
