//! One line of a rule file as tokens, each with its place.

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name or keyword.
    Word(String),
    /// A number, with the unit that follows it without a space.
    Number { digits: String, unit: String },
    /// A text in quotes, its escapes resolved.
    Text(String),
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

/// Something wrong in a line, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) column: usize,
    pub(super) width: usize,
    pub(super) what: String,
    pub(super) remedy: String,
}

/// Longer marks stand before those that they begin with.
const MARKS: [&str; 17] =
    ["->", ">=", "<=", "<", ">", "[", "]", "(", ")", ",", ":", ";", "*", "+", "-", "/", "="];

/// The tokens of `line`, up to its comment.
pub(super) fn tokens(line: &str) -> Result<Vec<Token>, Problem> {
    let chars: Vec<char> = line.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&first) = chars.get(at) {
        if first == '#' {
            break;
        }
        if first.is_whitespace() {
            at += 1;
            continue;
        }
        let (kind, end) = if first.is_ascii_digit() {
            number(&chars, at)
        } else if first.is_alphabetic() || first == '_' {
            let end = run(&chars, at, |c| c.is_alphanumeric() || c == '_' || c == '.');
            (Kind::Word(chars[at..end].iter().collect()), end)
        } else if first == '"' {
            text(&chars, at)?
        } else {
            mark(&chars, at)?
        };
        found.push(Token { kind, column: at + 1, width: end - at });
        at = end;
    }
    Ok(found)
}

fn run(chars: &[char], from: usize, inside: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|&c| !inside(c)).map_or(chars.len(), |length| from + length)
}

/// Digits, a fraction, an exponent if digits follow the `e`, and the letters right behind.
fn number(chars: &[char], from: usize) -> (Kind, usize) {
    let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let mut end = run(chars, from, |c| c.is_ascii_digit() || c == '.' || c == '_');
    if matches!(chars.get(end), Some('e' | 'E')) {
        let sign = usize::from(matches!(chars.get(end + 1), Some('+' | '-')));
        if digit(end + 1 + sign) {
            end = run(chars, end + 1 + sign, |c| c.is_ascii_digit());
        }
    }
    let unit_end = run(chars, end, char::is_alphabetic);
    let part = |from: usize, to: usize| chars[from..to].iter().collect();
    (Kind::Number { digits: part(from, end), unit: part(end, unit_end) }, unit_end)
}

/// A quoted text; `from` is at its opening quote.
fn text(chars: &[char], from: usize) -> Result<(Kind, usize), Problem> {
    let mut value = String::new();
    let mut at = from + 1;
    while let Some(&c) = chars.get(at) {
        match c {
            '"' => return Ok((Kind::Text(value), at + 1)),
            '\\' => {
                let (meant, end) = escape(chars, at).ok_or_else(|| Problem {
                    column: at + 1,
                    width: 2.min(chars.len() - at),
                    what: "this backslash starts no known escape".to_owned(),
                    remedy: r#"the escapes are \", \\, \n, \r, \t and \u{1f4be}"#.to_owned(),
                })?;
                value.push(meant);
                at = end;
            }
            _ => {
                value.push(c);
                at += 1;
            }
        }
    }
    Err(Problem {
        column: from + 1,
        width: chars.len() - from,
        what: "this text has no closing quote".to_owned(),
        remedy: r#"close it with " on the same line; a quote inside is written \""#.to_owned(),
    })
}

fn escape(chars: &[char], at: usize) -> Option<(char, usize)> {
    let simple = |c| Some((c, at + 2));
    match chars.get(at + 1)? {
        '"' => simple('"'),
        '\\' => simple('\\'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'u' if chars.get(at + 2) == Some(&'{') => {
            let end = run(chars, at + 3, |c| c.is_ascii_hexdigit());
            let digits: String = chars[at + 3..end].iter().collect();
            let meant = char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?;
            (chars.get(end) == Some(&'}')).then_some((meant, end + 1))
        }
        _ => None,
    }
}

fn mark(chars: &[char], at: usize) -> Result<(Kind, usize), Problem> {
    let starts = |mark: &&str| mark.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let found = MARKS.into_iter().find(starts).ok_or_else(|| {
        let remedy = match chars[at] {
            '.' => "write a digit before the point, as in 0.5",
            '\'' | '\u{201c}' | '\u{201d}' => "texts stand in straight double quotes",
            '%' => "write a fraction, as in 0.9 of ack_ewma",
            _ => "remove it; comments start with #",
        };
        Problem {
            column: at + 1,
            width: 1,
            what: format!("`{}` has no meaning here", chars[at].escape_debug()),
            remedy: remedy.to_owned(),
        }
    })?;
    Ok((Kind::Mark(found), at + found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(line: &str) -> Vec<Kind> {
        tokens(line).unwrap().into_iter().map(|token| token.kind).collect()
    }

    fn number(digits: &str, unit: &str) -> Kind {
        Kind::Number { digits: digits.to_owned(), unit: unit.to_owned() }
    }

    #[test]
    fn numbers_keep_their_units_and_exponents_apart() {
        assert_eq!(kinds("41ms"), [number("41", "ms")]);
        assert_eq!(kinds("1e-9s"), [number("1e-9", "s")]);
        assert_eq!(kinds("2each"), [number("2", "each")]);
        assert_eq!(kinds("-1.5"), [Kind::Mark("-"), number("1.5", "")]);
    }

    #[test]
    fn texts_hold_escapes_and_hashes() {
        let line = r##"name "a \"b\" \u{b5}\n # not a comment" # a comment"##;
        let text = Kind::Text("a \"b\" \u{b5}\n # not a comment".to_owned());
        assert_eq!(kinds(line), [Kind::Word("name".to_owned()), text]);
        assert!(tokens("\"open").unwrap_err().what.contains("closing quote"));
        assert_eq!(tokens(r#""ab\q""#).unwrap_err().column, 4);
        assert!(tokens(r#""\u{d800}""#).is_err());
    }
}
