//! The data of every plot and table as CSV, for other programs.

use afflux_core::indicator::INDICATORS;
use afflux_core::rules::{Gap, RuleFile, UNBOUNDED};

use super::schema::{ResultFile, RunRecord, TraceRecord};
use super::worlds;

/// A table as text: a row of names, then the values; none of it in a unit that its name hides.
pub(super) struct Table {
    rows: csv::Writer<Vec<u8>>,
    count: usize,
}

impl Table {
    pub(super) fn new(names: &[&str]) -> Self {
        let mut table = Self { rows: csv::Writer::from_writer(Vec::new()), count: 0 };
        table.write(names.iter().map(|name| (*name).to_owned()).collect());
        table.count = 0;
        table
    }

    pub(super) fn write(&mut self, row: Vec<String>) {
        // Writing to memory fails only for rows of unequal length, which would be our own mistake.
        self.rows.write_record(row).expect("all rows of a table have the same length");
        self.count += 1;
    }

    /// The text, unless there are no rows.
    fn finish(self) -> Option<Vec<u8>> {
        let text = self.rows.into_inner().expect("writing to memory does not fail");
        (self.count > 0).then_some(text)
    }
}

/// A row from anything that can be written.
macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$($value.to_string()),*] };
}

/// Name without ending, and text, of every table that has a row.
pub(super) fn all(result: &ResultFile) -> Vec<(&'static str, Vec<u8>)> {
    let tables = [
        ("runs", runs(result)),
        ("clients", clients(result)),
        ("holds", holds(result)),
        ("path", path(result)),
        ("path-throughput", path_throughput(result)),
        ("changes", changes(result)),
        ("pairs", pairs(result)),
        ("rules", rules(result)),
        ("survey", survey(result)),
        ("search", search(result)),
    ];
    let tables = tables.into_iter().chain(worlds::tables(result));
    tables.filter_map(|(name, table)| Some((name, table.finish()?))).collect()
}

/// Runs with their numbers from 1, as all tables name them.
fn numbered(result: &ResultFile) -> impl Iterator<Item = (usize, &RunRecord)> {
    (1..).zip(&result.runs)
}

fn runs(result: &ResultFile) -> Table {
    let mut table = Table::new(&[
        "run",
        "setting",
        "comparison",
        "pair",
        "baseline",
        "seed",
        "total_mb_s",
        "tp_mb_s",
        "var_mb_s",
        "between_mb_s",
        "within_mb_s",
        "burst_mb_s",
        "operations_s",
        "p50_ms",
        "p99_ms",
        "operation_p99_ms",
        "jain",
        "faults",
    ]);
    for (number, run) in numbered(result) {
        let place = |of: fn(&super::schema::RunPlace) -> String| {
            run.place.as_ref().map(of).unwrap_or_default()
        };
        let summary = &run.summary;
        table.write(row![
            number,
            run.setting,
            place(|place| (place.comparison + 1).to_string()),
            place(|place| (place.pair + 1).to_string()),
            place(|place| place.baseline.to_string()),
            run.seed,
            summary.total_mb_s,
            summary.tp_mb_s,
            summary.var_mb_s,
            summary.between_mb_s,
            summary.within_mb_s,
            summary.burst_mb_s,
            summary.operations_s,
            summary.p50_ms,
            summary.p99_ms,
            summary.operation_p99_ms,
            summary.jain,
            summary.faults,
        ]);
    }
    table
}

fn clients(result: &ResultFile) -> Table {
    let mut table =
        Table::new(&["run", "setting", "client", "second", "read_bytes", "write_bytes"]);
    for (number, run) in numbered(result) {
        for (client, record) in run.clients.iter().enumerate() {
            let at = |bytes: &[u64], second: usize| bytes.get(second).copied().unwrap_or(0);
            for second in 0..record.bytes().len() {
                let read = at(&record.read_bytes, second);
                let write = at(&record.write_bytes, second);
                table.write(row![number, run.setting, client, second, read, write]);
            }
        }
    }
    table
}

fn holds(result: &ResultFile) -> Table {
    let mut table = Table::new(&["run", "setting", "second", "reason", "held_secs"]);
    for (number, run) in numbered(result) {
        for (reason, held) in &run.held_secs {
            for (second, held) in held.iter().enumerate() {
                table.write(row![number, run.setting, second, reason, held]);
            }
        }
    }
    table
}

/// The runs that were traced.
fn traced(result: &ResultFile) -> impl Iterator<Item = (usize, &RunRecord, &TraceRecord)> {
    numbered(result).filter_map(|(number, run)| Some((number, run, run.trace.as_ref()?)))
}

fn path(result: &ResultFile) -> Table {
    let mut names = vec!["run", "setting", "client", "path", "at_secs"];
    // Traces of one file have the same indicators; a file of another version may have others.
    let first = traced(result).next();
    let columns: Vec<String> = first.map_or_else(Vec::new, |(_, _, trace)| {
        let name = |column: &super::schema::IndicatorColumn| match column.unit.as_str() {
            "" => column.name.clone(),
            unit => format!("{}_{unit}", column.name),
        };
        trace.indicators.iter().map(name).collect()
    });
    names.extend(columns.iter().map(String::as_str));
    names.extend(["window", "gap_ms", "in_flight"]);
    let mut table = Table::new(&names);
    for (number, run, trace) in traced(result) {
        for (point, at) in trace.at_secs.iter().enumerate() {
            let value = |values: &[f64]| values.get(point).map(f64::to_string).unwrap_or_default();
            let mut row = row![number, run.setting, trace.client, trace.path, at];
            row.extend((0..columns.len()).map(|column| {
                trace.indicators.get(column).map(|column| value(&column.values)).unwrap_or_default()
            }));
            let in_flight = trace.in_flight.get(point).map(u32::to_string).unwrap_or_default();
            row.extend([value(&trace.window), value(&trace.gap_ms), in_flight]);
            table.write(row);
        }
    }
    table
}

fn path_throughput(result: &ResultFile) -> Table {
    let mut table = Table::new(&["run", "setting", "client", "path", "from_secs", "secs", "bytes"]);
    for (number, run, trace) in traced(result) {
        for (slot, bytes) in trace.slot_bytes.iter().enumerate() {
            let from = slot as f64 * trace.slot_secs;
            let (client, path) = (trace.client, &trace.path);
            table.write(row![number, run.setting, client, path, from, trace.slot_secs, bytes]);
        }
    }
    table
}

fn changes(result: &ResultFile) -> Table {
    let mut table = Table::new(&[
        "comparison",
        "setting",
        "baseline",
        "metric",
        "unit",
        "baseline_mean",
        "setting_mean",
        "change_percent",
        "low_percent",
        "high_percent",
        "verdict",
    ]);
    for (number, comparison) in (1..).zip(&result.comparisons) {
        for compared in &comparison.metrics {
            let change = compared.change_percent;
            let end = |end: Option<f64>| end.map(|end| end.to_string()).unwrap_or_default();
            table.write(row![
                number,
                comparison.setting,
                comparison.baseline,
                compared.metric,
                compared.unit,
                compared.baseline,
                compared.setting,
                change.mean,
                end(change.low),
                end(change.high),
                compared.verdict().words(),
            ]);
        }
    }
    table
}

fn pairs(result: &ResultFile) -> Table {
    let mut table = Table::new(&["comparison", "setting", "metric", "pair", "change_percent"]);
    for (number, comparison) in (1..).zip(&result.comparisons) {
        for compared in &comparison.metrics {
            for (pair, change) in (1..).zip(&compared.pairs_percent) {
                let pair: u32 = pair;
                table.write(row![number, comparison.setting, compared.metric, pair, change]);
            }
        }
    }
    table
}

fn rules(result: &ResultFile) -> Table {
    let mut names: Vec<String> = ["setting", "rules", "for", "rule"].map(str::to_owned).into();
    for indicator in &INDICATORS {
        names.extend([format!("{}_low", indicator.name), format!("{}_high", indicator.name)]);
    }
    names.extend(["m", "b", "gap_ns", "gap_of_ack_ewma", "hits"].map(str::to_owned));
    names.extend(INDICATORS.iter().map(|indicator| format!("{}_mean", indicator.name)));
    let mut table = Table::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for record in &result.rules {
        let Ok(file) = RuleFile::parse(&record.text) else { continue };
        for section in &file.sections {
            for (number, rule) in (1..).zip(&section.set().rules) {
                let number: u32 = number;
                let mut row = row![record.setting, record.name, section.classes, number];
                for axis in 0..INDICATORS.len() {
                    let high = rule.region.high[axis];
                    let high = (high != UNBOUNDED).then(|| high.to_string());
                    row.extend([rule.region.low[axis].to_string(), high.unwrap_or_default()]);
                }
                let (time, fraction) = match rule.action.gap {
                    Gap::Time(span) => (span.as_nanos().to_string(), String::new()),
                    Gap::OfAck(fraction) => (String::new(), fraction.to_string()),
                };
                let multiply = rule.action.multiply.map(|m| m.to_string()).unwrap_or_default();
                row.extend([multiply, rule.action.add.to_string(), time, fraction]);
                row.push(rule.hits.count.to_string());
                let mean = |mean: &u64| match rule.hits.count {
                    0 => String::new(),
                    _ => mean.to_string(),
                };
                row.extend(rule.hits.means.iter().map(mean));
                table.write(row);
            }
        }
    }
    table
}

fn survey(result: &ResultFile) -> Table {
    let mut table = Table::new(&[
        "setting",
        "total_mb_s",
        "between_mb_s",
        "within_mb_s",
        "operation_p99_ms",
        "score",
    ]);
    for tried in &result.survey {
        let summary = &tried.summary;
        table.write(row![
            tried.setting,
            summary.total_mb_s,
            summary.between_mb_s,
            summary.within_mb_s,
            summary.operation_p99_ms,
            tried.score,
        ]);
    }
    table
}

fn search(result: &ResultFile) -> Table {
    let names = ["trial", "kind", "epoch", "round", "setting", "score", "best", "at_secs"];
    let mut table = Table::new(&names);
    for trial in result.search.iter().flat_map(|search| &search.trials) {
        let whole = |value: Option<u32>| value.map(|value| value.to_string()).unwrap_or_default();
        let real = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        table.write(row![
            trial.number,
            trial.kind,
            whole(trial.epoch),
            whole(trial.round),
            trial.setting,
            real(trial.score),
            real(trial.best),
            real(trial.at_secs),
        ]);
    }
    table
}
