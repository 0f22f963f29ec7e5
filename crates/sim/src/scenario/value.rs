//! Values of keys: what TOML or an override gave, and the readers that keys use.

use std::str::FromStr;

use afflux_core::units::{Span, parse_bytes};

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A list of texts.
    List(Vec<String>),
}

/// What a reader answers: the value, or what would be right.
pub(super) type Read<T> = Result<T, String>;

impl Value {
    /// What stands after the `=` of an override.
    pub(super) fn of_override(text: &str) -> Self {
        let text = text.trim();
        if let Ok(number) = text.parse() {
            return Self::Integer(number);
        }
        if let Ok(number) = text.parse() {
            return Self::Float(number);
        }
        match text {
            "true" => Self::Flag(true),
            "false" => Self::Flag(false),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// The value as people wrote it, for errors.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(items) => items.join(", "),
        }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// A whole number from `least` to `most`.
pub(super) fn count(value: &Value, least: u32, most: u32) -> Read<u32> {
    let Value::Integer(number) = value else { return Err("not a whole number".to_owned()) };
    let number = u32::try_from(*number).ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("not from {least} to {most}"))
}

/// A count, or none when `word` stands there.
pub(super) fn count_or(value: &Value, word: &str, least: u32, most: u32) -> Read<Option<u32>> {
    if value.text() == Some(word) { Ok(None) } else { count(value, least, most).map(Some) }
}

/// A number above zero.
pub(super) fn factor(value: &Value) -> Read<f64> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        _ => return Err("not a number".to_owned()),
    };
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("not above zero".to_owned()) }
}

/// Any number.
pub(super) fn number(value: &Value) -> Read<f64> {
    match value {
        Value::Integer(number) => Ok(*number as f64),
        Value::Float(number) if number.is_finite() => Ok(*number),
        _ => Err("not a number".to_owned()),
    }
}

/// A number of bytes with its unit.
pub(super) fn bytes(value: &Value) -> Read<u64> {
    let text = value.text().ok_or("a size has a unit and stands in quotes")?;
    parse_bytes(text).map_err(|error| error.to_string())
}

/// A number of bytes above zero.
pub(super) fn some_bytes(value: &Value) -> Read<u64> {
    match bytes(value)? {
        0 => Err("it must be at least 1B".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Bytes above zero, or none when `word` stands there.
pub(super) fn bytes_or(value: &Value, word: &str) -> Read<Option<u64>> {
    if value.text() == Some(word) {
        return Ok(None);
    }
    match bytes(value)? {
        0 => Err(format!("nothing fits into zero bytes: leave it out or write \"{word}\"")),
        bytes => Ok(Some(bytes)),
    }
}

/// A time with its unit.
pub(super) fn span(value: &Value) -> Read<Span> {
    let text = value.text().ok_or("a time has a unit and stands in quotes")?;
    text.parse().map_err(|error| format!("{error}"))
}

/// A time above zero, or none when `word` stands there.
pub(super) fn span_or(value: &Value, word: &str) -> Read<Option<Span>> {
    if value.text() == Some(word) {
        return Ok(None);
    }
    match span(value)? {
        Span::ZERO => Err(format!("no time at all: leave it out or write \"{word}\"")),
        span => Ok(Some(span)),
    }
}

/// Bytes a second, written in bits or in bytes.
pub(super) fn rate(value: &Value) -> Read<u64> {
    let text = value.text().ok_or("a rate has a unit and stands in quotes")?.trim();
    let shape = || "write it as \"1Gbit/s\", \"100Mbit/s\" or \"125MB/s\"".to_owned();
    let amount = text.strip_suffix("/s").ok_or_else(shape)?;
    let rate = match amount.strip_suffix("bit") {
        // Bits have decimal prefixes only; the reader of sizes knows those as kB, MB and GB.
        Some(bits) => parse_bytes(&format!("{bits}B")).map_err(|_| shape())? / 8,
        None => parse_bytes(amount).map_err(|_| shape())?,
    };
    if rate == 0 { Err("at a rate of 0 nothing would ever arrive".to_owned()) } else { Ok(rate) }
}

/// `true` or `false`.
pub(super) fn flag(value: &Value) -> Read<bool> {
    if let Value::Flag(flag) = value { Ok(*flag) } else { Err("not true or false".to_owned()) }
}

/// Text of any kind.
pub(super) fn text(value: &Value) -> Read<String> {
    value.text().map(str::to_owned).ok_or_else(|| "not a text in quotes".to_owned())
}

/// A list of texts.
pub(super) fn list(value: &Value) -> Read<Vec<String>> {
    match value {
        Value::List(items) => Ok(items.clone()),
        Value::Text(text) => Ok(vec![text.clone()]),
        _ => Err("not a list of texts".to_owned()),
    }
}

/// One of some words.
pub(super) fn word<T: Copy>(value: &Value, words: &[(&str, T)]) -> Read<T> {
    let found = value.text().and_then(|text| words.iter().find(|(word, _)| *word == text));
    found.map(|(_, meaning)| *meaning).ok_or_else(|| "no word that is known here".to_owned())
}

/// What another crate's reader makes of a text.
pub(super) fn parsed<T: FromStr<Err: std::fmt::Display>>(value: &Value) -> Read<T> {
    text(value)?.parse().map_err(|error: T::Err| error.to_string())
}

/// Whatever reads itself from text, or none when `word` stands there.
pub(super) fn parsed_or<T: FromStr<Err: std::fmt::Display>>(
    value: &Value,
    word: &str,
) -> Read<Option<T>> {
    if value.text() == Some(word) { Ok(None) } else { parsed(value).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn rates_are_read_in_bits_and_bytes() {
        assert_eq!(rate(&text("1Gbit/s")), Ok(125_000_000));
        assert_eq!(rate(&text("100 Mbit/s")), Ok(12_500_000));
        assert_eq!(rate(&text("125MB/s")), Ok(125_000_000));
        assert_eq!(rate(&text("1MiB/s")), Ok(1 << 20));
        for wrong in ["0Gbit/s", "1Gbit", "fast", "-1MB/s", "1/s"] {
            assert!(rate(&text(wrong)).is_err(), "{wrong}");
        }
        assert!(rate(&Value::Integer(5)).is_err());
    }

    #[test]
    fn overrides_find_their_type() {
        assert_eq!(Value::of_override("8"), Value::Integer(8));
        assert_eq!(Value::of_override("0.5"), Value::Float(0.5));
        assert_eq!(Value::of_override("true"), Value::Flag(true));
        assert_eq!(Value::of_override("5s"), text("5s"));
    }
}
