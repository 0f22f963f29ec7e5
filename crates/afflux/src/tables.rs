//! Tables for people.

use afflux_core::summary::Summary;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// Lines around the table and below its head, none between rows.
const STYLE: TableStyle = {
    let line = LineStyle::none().fill('─').junction('─');
    TableStyle::new().top_border(line).header_separator(line).bottom_border(line)
};

/// An empty table with these column heads; all columns but the first are aligned right.
pub(crate) fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(heads);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A number with as many digits as are worth reading.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

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
