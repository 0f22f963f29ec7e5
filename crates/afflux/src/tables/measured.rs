//! What was measured, as tables: of one run, and of a comparison.

use std::io::Write;

use afflux_core::class::Class;
use afflux_core::limits::HoldReason;
use afflux_core::measure::Measurement;
use afflux_core::summary::Summary;
use afflux_core::workload::Workload;

use super::{number, table};
use crate::experiment::{Comparison, Plan};
use crate::failure::Failure;

/// The numbers of all clients together: name, value, unit.
pub(crate) fn all_clients(summary: &Summary) -> [(&'static str, f64, &'static str); 13] {
    [
        ("throughput", summary.total_mb_s, "MB/s"),
        ("operations", summary.operations_s, "1/s"),
        ("mean of a client", summary.tp_mb_s, "MB/s"),
        ("deviation over clients and seconds", summary.var_mb_s, "MB/s"),
        ("deviation between clients", summary.between_mb_s, "MB/s"),
        ("deviation within clients", summary.within_mb_s, "MB/s"),
        ("fairness (Jain)", summary.jain, ""),
        ("burst speed", summary.burst_mb_s, "MB/s"),
        ("median process time", summary.p50_ms, "ms"),
        ("p99 process time", summary.p99_ms, "ms"),
        ("p99 of operations", summary.operation_p99_ms, "ms"),
        ("device access", summary.access_ms, "ms"),
        ("wait at servers", summary.queue_ms, "ms"),
    ]
}

/// All about one run, under a line that begins with `title`.
pub(crate) fn print_run(
    out: &mut dyn Write,
    title: &str,
    summary: &Summary,
    measurement: &Measurement,
) -> Result<(), Failure> {
    writeln!(out, "{title}, {} s counted", number(measurement.counted_secs))?;
    print_totals(out, summary)?;
    print_clients(out, measurement)?;
    print_holds(out, measurement)?;
    print_hits(out, measurement)
}

/// How many requests had no answer, and why the first had none; nothing where all had one.
pub(crate) fn print_faults(out: &mut dyn Write, measurement: &Measurement) -> Result<(), Failure> {
    let faults: u64 = measurement.clients.iter().map(|client| client.faults).sum();
    let first = measurement.clients.iter().find_map(|client| client.first_fault.as_deref());
    if let Some(first) = first {
        writeln!(out, "{faults} requests ended without an answer; the first: {first}")?;
    }
    Ok(())
}

/// The numbers of all clients together.
pub(crate) fn print_totals(out: &mut dyn Write, summary: &Summary) -> Result<(), Failure> {
    let mut totals = table(&["all clients", "value", "unit"]);
    for (name, value, unit) in all_clients(summary) {
        totals.add_row([name.to_owned(), number(value), unit.to_owned()]);
    }
    writeln!(out, "{totals}\n")?;
    Ok(())
}

/// A row for each client.
pub(crate) fn print_clients(out: &mut dyn Write, measurement: &Measurement) -> Result<(), Failure> {
    let mut clients =
        table(&["client", "MB/s", "deviation", "read p99 ms", "write p99 ms", "by second, MB/s"]);
    for (index, client) in measurement.clients.iter().enumerate() {
        let row: Vec<f64> = client.seconds.iter().map(|[r, w]| (r + w) as f64 / 1e6).collect();
        let p99 = |class: Class| {
            let times = &client.process_time[class.index()];
            if times.count() == 0 {
                return "-".to_owned();
            }
            number(times.quantile(0.99).as_millis_f64())
        };
        // Long runs are cut: the whole matrix is in --json.
        let shown: Vec<_> = row.iter().take(12).map(|mb| format!("{mb:.0}")).collect();
        let more = if row.len() > 12 { " ..." } else { "" };
        clients.add_row([
            format!("{index}"),
            number(afflux_core::summary::mean(&row)),
            number(afflux_core::summary::deviation(&row)),
            p99(Class::Read),
            p99(Class::Write),
            shown.join(" ") + more,
        ]);
    }
    writeln!(out, "{clients}\n")?;
    Ok(())
}

/// What held requests back; nothing where nothing did.
pub(crate) fn print_holds(out: &mut dyn Write, measurement: &Measurement) -> Result<(), Failure> {
    let mut holds = table(&["held by", "times", "seconds, over all paths"]);
    for reason in HoldReason::ALL {
        let totals = measurement.clients.iter().flat_map(|client| &client.holds);
        let (times, nanos) = totals.fold((0, 0), |(times, nanos), totals| {
            (times + totals.holds[reason.index()], nanos + totals.held_nanos[reason.index()])
        });
        if times > 0 {
            let row = [reason.name().to_owned(), times.to_string(), number(nanos as f64 / 1e9)];
            holds.add_row(row);
        }
    }
    if !holds.is_empty() {
        writeln!(out, "{holds}\n")?;
    }
    Ok(())
}

/// Which rules decided; nothing without rules.
pub(crate) fn print_hits(out: &mut dyn Write, measurement: &Measurement) -> Result<(), Failure> {
    let mut hits = table(&["class", "rule", "hits"]);
    for (class, counters) in Class::ALL.into_iter().zip(measurement.rule_hits()) {
        for (rule, seen) in counters.hits().iter().enumerate() {
            hits.add_row([class.to_string(), (rule + 1).to_string(), seen.count.to_string()]);
        }
    }
    if !hits.is_empty() {
        writeln!(out, "{hits}\n")?;
    }
    Ok(())
}

/// One comparison as a table.
pub(crate) fn print_comparison(
    out: &mut dyn Write,
    target: &str,
    workload: &Workload,
    plan: &Plan,
    comparison: &Comparison,
) -> Result<(), Failure> {
    let title = format!("{} on {target}", workload.name);
    print_pairs(out, &title, &format!("{} each", plan.length), comparison)
}

/// One comparison as a table, under a line that begins with `title` and says what its pairs are of.
pub(crate) fn print_pairs(
    out: &mut dyn Write,
    title: &str,
    of: &str,
    comparison: &Comparison,
) -> Result<(), Failure> {
    let Comparison { setting, baseline, pairs, .. } = comparison;
    let pairs = pairs.len();
    writeln!(out, "{title}: {setting} against {baseline}, {pairs} alternating pairs of {of}")?;
    let mut rows = table(&["", "baseline", "with it", "unit", "change", "95% interval", ""]);
    for compared in &comparison.metrics {
        let change = compared.change_percent;
        rows.add_row([
            compared.metric.to_owned(),
            number(compared.baseline),
            number(compared.setting),
            compared.unit.to_owned(),
            format!("{:+.1}%", change.mean),
            format!("{:+.1}% to {:+.1}%", change.low, change.high),
            compared.verdict().to_owned(),
        ]);
    }
    writeln!(out, "{rows}\n")?;
    Ok(())
}
