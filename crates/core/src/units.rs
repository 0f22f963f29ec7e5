//! Time and sizes, counted in integers so that every machine gets the same answer.
//!
//! ```
//! use afflux_core::units::{Span, Time};
//!
//! let sent = Time::from_nanos(1_000_000);
//! let replied = sent + Span::from_millis(41);
//! assert_eq!(replied.since(sent), Span::from_millis(41));
//! assert_eq!(Span::from_micros(28_512).to_string(), "28512us");
//! assert_eq!("28.512ms".parse::<Span>().unwrap(), Span::from_micros(28_512));
//! ```

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point on the driver's clock, in nanoseconds since an origin that the driver chose.
#[repr(transparent)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than any time that is reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero when it lies in the future.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The distance to `other`, whichever is later.
    pub const fn distance(self, other: Self) -> Span {
        Span(self.0.abs_diff(other.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than anything measured.
    pub const MAX: Self = Self(u64::MAX);

    /// A length of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A length of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A length of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A length of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The nearest length to `secs` seconds; negative and not-a-number count as zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        // A cast from f64 saturates and sends NaN to zero, which is just what is wanted.
        Self((secs * 1e9 + 0.5) as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This length times `factor`; negative and not-a-number factors give zero.
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor + 0.5) as u64)
    }

    /// This length less `other`, or zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Span {
    /// The largest unit that shows the value exactly as an integer: `28512us`, `33ms`, `2s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (divisor, unit) = match self.0 {
            0 => (1_000_000, "ms"),
            n if n % 1_000_000_000 == 0 => (1_000_000_000, "s"),
            n if n % 1_000_000 == 0 => (1_000_000, "ms"),
            n if n % 1_000 == 0 => (1_000, "us"),
            _ => (1, "ns"),
        };
        f.pad(&format!("{}{unit}", self.0 / divisor))
    }
}

/// A quantity that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// There is no number in front, or it is negative or not finite.
    #[error("`{0}` does not start with a number that is zero or more")]
    NotANumber(String),
    /// The unit is missing or not one of those known.
    #[error("`{text}` has {found}: write {expected}")]
    Unit {
        /// What was read.
        text: String,
        /// What stands where the unit should.
        found: String,
        /// The units that are known, with an example.
        expected: &'static str,
    },
    /// It does not fit into 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

impl FromStr for Span {
    type Err = QuantityError;

    /// Reads `500us`, `33 ms`, `1.5s`, `2min`, `90ns`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let scale = |unit: &str| {
            Some(match unit {
                "ns" => 1,
                "us" | "µs" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "min" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return None,
            })
        };
        quantity(text, "a unit of time, as in 500us, 33ms, 1.5s, 2min or 1h", scale).map(Self)
    }
}

/// Reads a size such as `1 MiB`, `64KiB`, `4096B` or `1.5GB` into bytes.
///
/// ```
/// assert_eq!(afflux_core::units::parse_bytes("1 MiB").unwrap(), 1 << 20);
/// assert!(afflux_core::units::parse_bytes("1 Mb").is_err());
/// ```
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let scale = |unit: &str| {
        Some(match unit {
            "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => return None,
        })
    };
    quantity(text, "a unit of size, as in 4096B, 64KiB, 1MiB, 2GiB or 10MB", scale)
}

/// Reads a rate such as `20MB/s` or `1.5 GiB/s` into bytes in a second.
///
/// ```
/// assert_eq!(afflux_core::units::parse_rate("20MB/s").unwrap(), 20_000_000);
/// assert!(afflux_core::units::parse_rate("20MB").is_err());
/// ```
pub fn parse_rate(text: &str) -> Result<u64, QuantityError> {
    let expected = "a rate, as in 500kB/s, 20MB/s or 1GiB/s";
    let size = text.trim().strip_suffix("/s").ok_or_else(|| QuantityError::Unit {
        text: text.to_owned(),
        found: "no `/s` at its end".to_owned(),
        expected,
    })?;
    parse_bytes(size)
}

/// Writes a size with the largest binary unit that shows it exactly.
///
/// ```
/// assert_eq!(afflux_core::units::display_bytes(1 << 20), "1 MiB");
/// assert_eq!(afflux_core::units::display_bytes(1500), "1500 B");
/// ```
pub fn display_bytes(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

/// Reads `number unit` exactly: the decimal digits never pass through a float.
fn quantity(
    text: &str,
    expected: &'static str,
    scale: impl Fn(&str) -> Option<u64>,
) -> Result<u64, QuantityError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
    let (number, unit) = trimmed.split_at(split.unwrap_or(trimmed.len()));
    let unit = unit.trim_start();
    let digits = number.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    if whole.is_empty() || fraction.contains('.') || (digits.contains('.') && fraction.is_empty()) {
        return Err(QuantityError::NotANumber(text.to_owned()));
    }
    let Some(scale) = scale(unit) else {
        let found =
            if unit.is_empty() { "no unit".to_owned() } else { format!("the unit `{unit}`") };
        return Err(QuantityError::Unit { text: text.to_owned(), found, expected });
    };
    let too_large = || QuantityError::TooLarge(text.to_owned());
    let fraction = &fraction[..fraction.len().min(18)];
    let ten_to = 10_u128.pow(fraction.len() as u32);
    let number: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
    let scaled = number.checked_mul(u128::from(scale)).ok_or_else(too_large)?;
    u64::try_from(scaled / ten_to).map_err(|_| too_large())
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!("0.000000001s".parse(), Ok(Span::from_nanos(1)));
        assert_eq!("1.23ms".parse(), Ok(Span::from_micros(1_230)));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("4_096B"), Ok(4_096));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let unit = "5 mss".parse::<Span>().unwrap_err().to_string();
        assert!(unit.contains("the unit `mss`") && unit.contains("33ms"), "{unit}");
        assert!(parse_bytes("12").unwrap_err().to_string().contains("no unit"));
        for text in ["", "ms", "-1ms", ".5s", "1.s", "1.2.3s", "99999999999999999999h"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn display_reads_back() {
        for nanos in [0, 1, 999, 1_000, 28_512_000, 33_000_000, 2_000_000_000, 61_000_000_000] {
            let span = Span::from_nanos(nanos);
            assert_eq!(span.to_string().parse(), Ok(span));
        }
    }
}
