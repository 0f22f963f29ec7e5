//! Numbers in rule files, read and written without losing a nanosecond or a thousandth.

use crate::indicator::Unit;

/// Times are written with one of these; the first that leaves a whole part is used for printing.
const TIME_UNITS: [(&str, u64, usize); 4] =
    [("s", 1_000_000_000, 9), ("ms", 1_000_000, 6), ("us", 1_000, 3), ("ns", 1, 0)];

/// Larger units, for reading only.
const LONG_UNITS: [(&str, u64); 2] = [("min", 60_000_000_000), ("h", 3_600_000_000_000)];

/// Why a number cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) what: String,
    pub(super) remedy: String,
}

fn refusal(what: String, remedy: &str) -> Refusal {
    Refusal { what, remedy: remedy.to_owned() }
}

/// Nanoseconds in one `unit`, if it is a unit of time.
pub(super) fn time_unit(unit: &str) -> Option<u64> {
    // The micro sign and the Greek letter look alike, and keyboards differ in which they give.
    if unit == "\u{b5}s" || unit == "\u{3bc}s" {
        return Some(1_000);
    }
    let short = TIME_UNITS.iter().find(|known| known.0 == unit).map(|known| known.1);
    short.or_else(|| LONG_UNITS.iter().find(|known| known.0 == unit).map(|known| known.1))
}

/// Reads the value of an indicator with the given unit from its digits and unit text.
pub(super) fn read(kind: Unit, digits: &str, unit: &str) -> Result<u64, Refusal> {
    match kind {
        Unit::Nanos => read_time(digits, unit),
        Unit::Milli if unit.is_empty() => read_scaled(digits, 1_000).map_err(|fault| match fault {
            Scaling::Finer => refusal(
                format!("`{digits}` is finer than a thousandth"),
                "ratios are kept in thousandths: write at most three decimals",
            ),
            other => other.refusal(digits),
        }),
        Unit::Milli => Err(refusal(
            format!("`{digits}{unit}` has the unit `{unit}`, but a ratio has none"),
            "write the plain number, as in 4.5",
        )),
    }
}

/// Reads a time into nanoseconds; the unit is mandatory.
pub(super) fn read_time(digits: &str, unit: &str) -> Result<u64, Refusal> {
    if unit.is_empty() {
        return Err(refusal(
            format!("`{digits}` has no unit of time"),
            "write the unit: ns, us, ms, s, min or h, as in 33ms",
        ));
    }
    let Some(scale) = time_unit(unit) else {
        return Err(refusal(
            format!("`{unit}` is not a unit of time"),
            "the units are ns, us, ms, s, min and h, as in 33ms",
        ));
    };
    read_scaled(digits, scale).map_err(|fault| match fault {
        Scaling::Finer => refusal(
            format!("`{digits}{unit}` is finer than a nanosecond"),
            "times are kept in nanoseconds: write fewer decimals",
        ),
        other => other.refusal(&format!("{digits}{unit}")),
    })
}

/// Reads a plain finite number.
pub(super) fn read_number(digits: &str) -> Result<f64, Refusal> {
    match digits.replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(refusal(format!("`{digits}` is too large"), "write a smaller number")),
        Err(_) => Err(Scaling::Malformed.refusal(digits)),
    }
}

/// Reads a whole number up to `most`.
pub(super) fn read_count(digits: &str, most: u64) -> Result<u64, Refusal> {
    match read_scaled(digits, 1) {
        Ok(count) if count <= most => Ok(count),
        Ok(_) | Err(Scaling::TooLarge) => {
            Err(refusal(format!("`{digits}` is too large"), &format!("write at most {most}")))
        }
        Err(Scaling::Finer) => {
            Err(refusal(format!("`{digits}` is not a whole number"), "write a whole number"))
        }
        Err(Scaling::Malformed) => Err(Scaling::Malformed.refusal(digits)),
    }
}

enum Scaling {
    Malformed,
    Finer,
    TooLarge,
}

impl Scaling {
    fn refusal(self, text: &str) -> Refusal {
        match self {
            Self::TooLarge => refusal(format!("`{text}` is too large"), "write a smaller value"),
            _ => refusal(format!("`{text}` is not a number"), "write digits, as in 33 or 0.9"),
        }
    }
}

/// `digits * scale`, only if that is a whole number: the decimals never pass through a float.
fn read_scaled(digits: &str, scale: u64) -> Result<u64, Scaling> {
    let plain = digits.replace('_', "");
    let (whole, fraction) = match plain.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(Scaling::Malformed),
        None => (plain.as_str(), ""),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return Err(Scaling::Malformed);
    }
    // Thirteen decimals are more than the finest that any unit can use: 1h / 3.6e12 is 1ns.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 13 {
        return Err(Scaling::Finer);
    }
    let number: u128 = format!("{whole}{fraction}").parse().map_err(|_| Scaling::TooLarge)?;
    let scaled = number.checked_mul(u128::from(scale)).ok_or(Scaling::TooLarge)?;
    let ten_to = 10_u128.pow(fraction.len() as u32);
    if scaled % ten_to != 0 {
        return Err(Scaling::Finer);
    }
    u64::try_from(scaled / ten_to).map_err(|_| Scaling::TooLarge)
}

/// Writes an indicator's value with its unit.
pub(super) fn write(kind: Unit, value: u64) -> String {
    match kind {
        Unit::Nanos => write_time(value),
        Unit::Milli => decimal(value, 1_000, 3),
    }
}

/// Writes nanoseconds in the largest unit that leaves a whole part: `28.512ms`, `2s`, `0ms`.
pub(super) fn write_time(nanos: u64) -> String {
    let fitting = TIME_UNITS.iter().find(|(_, scale, _)| nanos >= *scale);
    let (unit, scale, places) = fitting.unwrap_or(&TIME_UNITS[1]);
    format!("{}{unit}", decimal(nanos, *scale, *places))
}

/// `value / scale` with as few decimals as are needed.
fn decimal(value: u64, scale: u64, places: usize) -> String {
    let fraction = format!("{:0places$}", value % scale);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}", value / scale)
}

/// Writes the shortest decimal that reads back as the same `f64`.
pub(super) fn write_number(number: f64) -> String {
    let size = number.abs();
    // Beyond these sizes plain decimals would be mostly zeros.
    if size != 0.0 && !(1e-7..1e16).contains(&size) {
        format!("{number:e}")
    } else {
        format!("{number}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split_unit(text: &str) -> (&str, &str) {
        text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()))
    }

    proptest! {
        #[test]
        fn every_value_reads_back(value in prop_oneof![any::<u64>(), 0_u64..5_000_000_000]) {
            for kind in [Unit::Nanos, Unit::Milli] {
                let text = write(kind, value);
                let (digits, unit) = split_unit(&text);
                prop_assert_eq!(read(kind, digits, unit), Ok(value), "{}", text);
            }
        }

        #[test]
        fn every_finite_number_reads_back(number in any::<f64>()) {
            prop_assume!(number.is_finite());
            let text = write_number(number.abs());
            prop_assert_eq!(read_number(&text).unwrap().to_bits(), number.abs().to_bits());
        }
    }

    #[test]
    fn times_are_written_short() {
        let pairs = [(0, "0ms"), (28_512_000, "28.512ms"), (2_000_000_000, "2s"), (7, "7ns")];
        for (nanos, text) in pairs {
            assert_eq!(write_time(nanos), text);
        }
        assert_eq!(write(Unit::Milli, 4_500), "4.5");
    }

    #[test]
    fn what_would_lose_something_is_refused() {
        assert!(read_time("0.5", "ns").unwrap_err().what.contains("finer than a nanosecond"));
        assert!(read_time("33", "").unwrap_err().remedy.contains("33ms"));
        assert!(read(Unit::Milli, "4.5001", "").unwrap_err().what.contains("thousandth"));
        assert!(read(Unit::Milli, "4", "ms").unwrap_err().what.contains("a ratio has none"));
        assert!(read_time("1e3", "ms").unwrap_err().what.contains("not a number"));
        assert!(read_time("0.0000000002777777777778", "h").is_err());
        assert_eq!(read_time("1.5000", "min"), Ok(90_000_000_000));
        assert!(read_number("1e999").unwrap_err().what.contains("too large"));
        assert!(read_count("2.5", 9).unwrap_err().what.contains("whole"));
        assert!(read_count("10", 9).unwrap_err().remedy.contains("at most 9"));
    }
}
