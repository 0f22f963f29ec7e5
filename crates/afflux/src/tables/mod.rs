//! Tables for people: how they look, and those that several commands print.

pub(crate) mod measured;

use afflux_core::units::display_bytes;
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

/// A size in at most five digits; below 10 KiB it is exact.
pub(crate) fn round_bytes(bytes: u64) -> String {
    let shift = match bytes {
        0..0x2800 => 0,
        0x2800..0x28_0000 => 10,
        0x28_0000..0xa_0000_0000 => 20,
        _ => 30,
    };
    display_bytes(bytes >> shift << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let shown = [0, 5000, 10_240, 3_000_000, 5 << 30, 50 << 30].map(round_bytes);
        assert_eq!(shown, ["0 B", "5000 B", "10 KiB", "2 MiB", "5 GiB", "50 GiB"]);
    }
}
