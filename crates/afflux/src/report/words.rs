//! Numbers and verdicts as the page says them.

use super::schema::{ComparedRecord, IntervalRecord};
use crate::interval::Verdict;
use crate::tables::number;

/// A change in percent: `+12.3 %`, with a minus sign that is one.
pub(super) fn percent(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+∞".to_owned() } else { "−∞".to_owned() };
    }
    let size = value.abs();
    let digits = if size >= 99.95 { format!("{size:.0}") } else { format!("{size:.1}") };
    // What is rounded to nothing has no sign.
    let sign = match digits.trim_matches(['0', '.']) {
        "" => "",
        _ if value < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{digits} %")
}

/// An interval: `+8.1 % to +16.5 %`.
pub(super) fn interval(interval: IntervalRecord) -> String {
    let low = interval.low.unwrap_or(f64::NEG_INFINITY);
    format!("{} to {}", percent(low), percent(interval.high.unwrap_or(f64::INFINITY)))
}

/// A value with its unit: `93.4 MB/s`.
pub(super) fn quantity(value: f64, unit: &str) -> String {
    let space = if unit.is_empty() { "" } else { " " };
    format!("{}{space}{unit}", number(value))
}

/// The verdict in a few words: `Throughput +12.3 %`, or that none can be given.
pub(super) fn verdict(compared: &ComparedRecord) -> String {
    match compared.verdict() {
        Verdict::NoDifference => format!("no difference in {} seen", compared.metric),
        _ => format!("{} {}", compared.metric, percent(compared.change_percent.mean)),
    }
}

/// With a great first letter.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// A count and what is counted: `1 pair`, `4 pairs`.
pub(super) fn count(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// As [`count`], of replies.
pub(super) fn replies(count: u64) -> String {
    if count == 1 { "1 reply".to_owned() } else { format!("{count} replies") }
}

/// A length of time in seconds: `6 s`, `0.05 s`.
pub(super) fn seconds(secs: f64) -> String {
    format!("{secs} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_with_their_sign() {
        let told = [12.34, -5.0, 0.0, -0.01, 240.0, f64::NEG_INFINITY].map(percent);
        assert_eq!(told, ["+12.3 %", "−5.0 %", "0.0 %", "0.0 %", "+240 %", "−∞"]);
        let unknown = IntervalRecord { mean: 1.0, low: None, high: Some(2.0) };
        assert_eq!(interval(unknown), "−∞ to +2.0 %");
        assert_eq!((count(1, "run"), count(0, "run")), ("1 run".to_owned(), "0 runs".to_owned()));
        assert_eq!(sentence("été"), "Été");
    }
}
