//! An objective as tokens, each with its place.

use super::error::{Fault, ObjectiveError};
use super::parse::TOKENS_MAX;

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name or a function.
    Word(String),
    /// A literal; finite and not negative.
    Number(f64),
    /// Punctuation.
    Mark(&'static str),
}

/// A token and where it stands, in characters from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) column: usize,
    pub(super) width: usize,
}

/// Longer marks stand before those that they begin with.
const MARKS: [&str; 13] = ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "(", ")", ","];

/// The tokens of `source`, at most [`TOKENS_MAX`].
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, ObjectiveError> {
    let chars: Vec<char> = source.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&first) = chars.get(at) {
        if first.is_whitespace() {
            at += 1;
            continue;
        }
        let wrong = |fault, width| ObjectiveError {
            fault,
            column: at + 1,
            width,
            source_text: source.to_owned(),
        };
        if found.len() == TOKENS_MAX {
            return Err(wrong(Fault::TooLong, 1));
        }
        let (kind, end) = if first.is_ascii_digit() {
            let end = number_end(&chars, at);
            let text: String = chars[at..end].iter().collect();
            let number = number(&text);
            let fault = || wrong(Fault::Number(cut(&text)), end - at);
            (Kind::Number(number.ok_or_else(fault)?), end)
        } else if first.is_alphabetic() || first == '_' {
            let end = run(&chars, at, |c| c.is_alphanumeric() || c == '_');
            (Kind::Word(chars[at..end].iter().collect()), end)
        } else {
            let starts =
                |mark: &&str| mark.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
            let mark = MARKS.into_iter().find(starts);
            let mark = mark.ok_or_else(|| wrong(Fault::Character(first), 1))?;
            (Kind::Mark(mark), at + mark.len())
        };
        found.push(Token { kind, column: at + 1, width: end - at });
        at = end;
    }
    Ok(found)
}

fn run(chars: &[char], from: usize, inside: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|&c| !inside(c)).map_or(chars.len(), |length| from + length)
}

/// Where the literal that begins at `from` ends, with all letters and points right behind it, so
/// that `10ms` and `1.2.3` are told as they were written.
fn number_end(chars: &[char], from: usize) -> usize {
    let mut end = run(chars, from, |c| c.is_alphanumeric() || c == '.' || c == '_');
    let exponent = matches!(chars[end - 1], 'e' | 'E');
    let signed = matches!(chars.get(end), Some('+' | '-'));
    if exponent && signed && chars.get(end + 1).is_some_and(char::is_ascii_digit) {
        end = run(chars, end + 1, |c| c.is_alphanumeric() || c == '.' || c == '_');
    }
    end
}

/// The value of a literal: digits, perhaps a point with more of them, perhaps an exponent.
fn number(text: &str) -> Option<f64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let well_formed = digits(whole) && digits(fraction) && digits(exponent);
    text.parse::<f64>().ok().filter(|number| well_formed && number.is_finite())
}

/// A text for an error, cut when it is long.
pub(super) fn cut(text: &str) -> String {
    const MAX: usize = 32;
    if text.chars().count() <= MAX {
        return text.to_owned();
    }
    text.chars().take(MAX).chain("...".chars()).collect()
}
