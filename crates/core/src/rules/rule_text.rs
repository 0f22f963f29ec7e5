//! Reading one rule, or one settings line, from its tokens.

use super::lex::{Kind, Problem, Token};
use super::literal::{self, Refusal};
use super::{Action, Gap, Hits, Region, Rule, UNBOUNDED};
use crate::indicator::{ACK_EWMA, COUNT, INDICATORS, Unit};
use crate::nearest::nearest;
use crate::units::Span;

/// A walk along the tokens of one line.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [Token],
    end: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(tokens: &'a [Token], source: &str) -> Self {
        let end = tokens.last().map_or(source.chars().count() + 1, |t| t.column + t.width);
        Self { rest: tokens, end }
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.rest.first()
    }

    fn next(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Column and width of the next token, or of the end of the line.
    pub(super) fn place(&self) -> (usize, usize) {
        self.peek().map_or((self.end, 1), |token| (token.column, token.width))
    }

    /// A problem with the next token.
    pub(super) fn problem(&self, what: &str, remedy: &str) -> Problem {
        let (column, width) = self.place();
        Problem { column, width, what: what.to_owned(), remedy: remedy.to_owned() }
    }

    fn missing(&self, expected: &str) -> Problem {
        let what = match self.peek().map(|token| &token.kind) {
            None => "the line ends too soon".to_owned(),
            Some(Kind::Word(word)) => format!("`{word}` does not belong here"),
            Some(Kind::Number { digits, unit }) => format!("`{digits}{unit}` does not belong here"),
            Some(Kind::Text(_)) => "a text does not belong here".to_owned(),
            Some(Kind::Mark(mark)) => format!("`{mark}` does not belong here"),
        };
        self.problem(&what, &format!("write {expected}"))
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token { kind: Kind::Word(found), .. }) if found == word)
    }

    fn at_mark(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(Token { kind: Kind::Mark(found), .. }) if *found == mark)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn take_mark(&mut self, mark: &str) -> bool {
        let found = self.at_mark(mark);
        if found {
            self.next();
        }
        found
    }

    fn keyword(&mut self, word: &str, expected: &str) -> Result<(), Problem> {
        if self.take_word(word) { Ok(()) } else { Err(self.missing(expected)) }
    }

    pub(super) fn mark(&mut self, mark: &str, expected: &str) -> Result<(), Problem> {
        if self.take_mark(mark) { Ok(()) } else { Err(self.missing(expected)) }
    }

    pub(super) fn word(&mut self, expected: &str) -> Result<String, Problem> {
        match self.peek() {
            Some(Token { kind: Kind::Word(word), .. }) => {
                self.next();
                Ok(word.clone())
            }
            _ => Err(self.missing(expected)),
        }
    }

    pub(super) fn text(&mut self, expected: &str) -> Result<String, Problem> {
        match self.peek() {
            Some(Token { kind: Kind::Text(text), .. }) => {
                self.next();
                Ok(text.clone())
            }
            _ => Err(self.missing(expected)),
        }
    }

    /// The key of a provenance line: a word, or any text in quotes.
    pub(super) fn key(&mut self) -> Result<String, Problem> {
        if matches!(self.peek(), Some(Token { kind: Kind::Text(_), .. })) {
            return self.text("a key");
        }
        self.word("a key and a value, as in `provenance seed \"7\"`")
    }

    /// Digits and unit of the next number; a unit may stand apart from its digits.
    fn quantity(&mut self, expected: &str) -> Result<(String, String), Problem> {
        let Some(Token { kind: Kind::Number { digits, unit }, .. }) = self.peek() else {
            return Err(self.missing(expected));
        };
        self.next();
        if unit.is_empty()
            && let Some(Token { kind: Kind::Word(word), .. }) = self.peek()
            && literal::time_unit(word).is_some()
        {
            self.next();
            return Ok((digits.clone(), word.clone()));
        }
        Ok((digits.clone(), unit.clone()))
    }

    /// The next number, read by `read` from its digits and unit.
    fn read<T>(
        &mut self,
        expected: &str,
        read: impl FnOnce(&str, &str) -> Result<T, Refusal>,
    ) -> Result<T, Problem> {
        let (column, width) = self.place();
        let (digits, unit) = self.quantity(expected)?;
        read(&digits, &unit).map_err(|Refusal { what, remedy }| Problem {
            column,
            width,
            what,
            remedy,
        })
    }

    fn number(&mut self, expected: &str) -> Result<f64, Problem> {
        self.read(expected, |digits, unit| {
            no_unit(digits, unit)?;
            literal::read_number(digits)
        })
    }

    pub(super) fn count(&mut self, expected: &str, most: u64) -> Result<u64, Problem> {
        self.read(expected, |digits, unit| {
            no_unit(digits, unit)?;
            literal::read_count(digits, most)
        })
    }

    /// The value of an indicator.
    fn value(&mut self, axis: usize) -> Result<u64, Problem> {
        let indicator = &INDICATORS[axis];
        if self.at_word("inf") || self.at_word("infinity") {
            let remedy = format!("a box without a top is written `{} >= ...`", indicator.name);
            return Err(self.problem("infinity is no bound", &remedy));
        }
        let expected = match indicator.unit {
            Unit::Nanos => "a time with its unit, as in 33ms",
            Unit::Milli => "a ratio, as in 4.5",
        };
        self.read(expected, |digits, unit| literal::read(indicator.unit, digits, unit))
    }

    /// A bound of a box; the greatest number of all stands for "no bound" and cannot be one.
    fn bound(&mut self, axis: usize) -> Result<u64, Problem> {
        let before = *self;
        match self.value(axis)? {
            UNBOUNDED => Err(before.problem(
                "this bound is too large",
                "write a smaller one, or leave the upper bound out with `>=`",
            )),
            value => Ok(value),
        }
    }

    /// The index of the indicator that is named next.
    fn indicator(&mut self) -> Result<usize, Problem> {
        let before = *self;
        let word = self.word("the name of an indicator, or `any` for the whole space")?;
        let known = || INDICATORS.iter().map(|indicator| indicator.name);
        known().position(|name| name == word).ok_or_else(|| {
            let hint = nearest(&word, known()).map(|near| format!("; did you mean `{near}`?"));
            let names: Vec<&str> = known().collect();
            before.problem(
                &format!("there is no indicator `{word}`"),
                &format!("the indicators are {}{}", names.join(", "), hint.unwrap_or_default()),
            )
        })
    }

    pub(super) fn end(&self) -> Result<(), Problem> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let mut problem = self.missing("nothing more on this line");
        problem.remedy = "remove the rest of the line; comments start with #".to_owned();
        Err(problem)
    }
}

fn no_unit(digits: &str, unit: &str) -> Result<(), Refusal> {
    if unit.is_empty() {
        return Ok(());
    }
    Err(Refusal {
        what: format!("`{digits}{unit}` has the unit `{unit}`, but a plain number belongs here"),
        remedy: format!("write `{digits}`"),
    })
}

/// Reads `window at most 30, at most 2 changes/s`; either part may be left out.
pub(super) fn settings(cursor: &mut Cursor<'_>) -> Result<(Option<f64>, Option<u32>), Problem> {
    let (mut window_max, mut rate) = (None, None);
    loop {
        let clause = *cursor;
        let window = cursor.take_word("window");
        cursor.keyword("at", "`window at most 30` or `at most 2 changes/s`")?;
        cursor.keyword("most", "`at most`")?;
        if if window { window_max.is_some() } else { rate.is_some() } {
            return Err(clause.problem("this limit is given twice", "keep one of the two"));
        }
        if window {
            window_max = Some(cursor.number("the largest window, as in `window at most 30`")?);
        } else {
            let example = "a whole number, as in `at most 2 changes/s`";
            rate = Some(cursor.count(example, u64::from(u32::MAX))? as u32);
            cursor.keyword("changes", "`changes/s`")?;
            cursor.mark("/", "`changes/s`")?;
            cursor.keyword("s", "`changes/s`")?;
        }
        if !cursor.take_mark(",") {
            return Ok((window_max, rate));
        }
    }
}

/// Reads `conditions -> action; hits`.
pub(super) fn rule(cursor: &mut Cursor<'_>) -> Result<Rule, Problem> {
    let region = region(cursor)?;
    cursor.mark("->", "`and` with one more condition, or `->` and an action")?;
    let action = action(cursor)?;
    let hits = if cursor.take_mark(";") { hits(cursor)? } else { Hits::default() };
    Ok(Rule { region, action, hits })
}

fn region(cursor: &mut Cursor<'_>) -> Result<Region, Problem> {
    let mut region = Region::ALL;
    if cursor.take_word("any") {
        return Ok(region);
    }
    let mut bounded = [[false; 2]; COUNT];
    loop {
        let condition = *cursor;
        let axis = cursor.indicator()?;
        let (low, high) = bounds(cursor, axis)?;
        for (side, bound) in [low, high].into_iter().enumerate() {
            let Some(bound) = bound else {
                continue;
            };
            if std::mem::replace(&mut bounded[axis][side], true) {
                return Err(condition.problem(
                    &format!("`{}` is bounded twice on the same side", INDICATORS[axis].name),
                    "keep one of the two bounds",
                ));
            }
            let sides = [&mut region.low, &mut region.high];
            sides[side][axis] = bound;
        }
        if !cursor.take_word("and") {
            return Ok(region);
        }
    }
}

/// Lower and upper bound of one condition.
fn bounds(cursor: &mut Cursor<'_>, axis: usize) -> Result<(Option<u64>, Option<u64>), Problem> {
    if cursor.take_mark(">=") {
        return Ok((Some(cursor.bound(axis)?), None));
    }
    if cursor.take_mark("<") {
        return Ok((None, Some(cursor.bound(axis)?)));
    }
    if cursor.at_mark("<=") || cursor.at_mark(">") || cursor.at_mark("=") {
        return Err(cursor.problem(
            "boxes take in their lower bound and leave out their upper one",
            "write `>=`, `<` or `in [low, high)`",
        ));
    }
    cursor.keyword("in", "`in [low, high)`, `>= low` or `< high`")?;
    if cursor.at_mark("(") {
        return Err(cursor.problem("the lower bound is part of the box", "write `[`"));
    }
    cursor.mark("[", "`[low, high)`")?;
    let low = cursor.bound(axis)?;
    cursor.mark(",", "a comma and the upper bound")?;
    let high = cursor.bound(axis)?;
    if cursor.at_mark("]") {
        return Err(cursor.problem("the upper bound is not part of the box", "write `)`"));
    }
    cursor.mark(")", "`)` after the upper bound")?;
    Ok((Some(low), Some(high)))
}

fn action(cursor: &mut Cursor<'_>) -> Result<Action, Problem> {
    let forms = "`window unchanged`, `window * 0.5 + 1`, `window + 0.3` or the like";
    cursor.keyword("window", forms)?;
    let mut action = Action::NONE;
    if !cursor.take_word("unchanged") {
        let before = *cursor;
        if cursor.take_mark("*") {
            let sign = if cursor.take_mark("-") { -1.0 } else { 1.0 };
            action.multiply = Some(sign * cursor.number("a factor, as in `window * 0.5`")?);
        }
        let plus = cursor.take_mark("+");
        if plus || cursor.take_mark("-") {
            let sign = if plus { 1.0 } else { -1.0 };
            action.add =
                sign * cursor.number("a number, as in `window + 0.3` or `window - 1.7`")?;
        } else if action.multiply.is_none() {
            return Err(before.missing(forms));
        }
    }
    if cursor.take_mark(",") {
        cursor.keyword("gap", "`gap`, as in `gap 33ms`")?;
        action.gap = gap(cursor)?;
    }
    Ok(action)
}

fn gap(cursor: &mut Cursor<'_>) -> Result<Gap, Problem> {
    let expected = "a time, as in `gap 33ms`, or a fraction, as in `gap 0.9 of ack_ewma`";
    let mut ahead = *cursor;
    ahead.next();
    if ahead.take_word("of") {
        let fraction = cursor.number(expected)?;
        *cursor = ahead;
        cursor
            .keyword(INDICATORS[ACK_EWMA].name, "`ack_ewma`: gaps are fractions of nothing else")?;
        return Ok(Gap::OfAck(fraction));
    }
    let nanos = cursor.read(expected, literal::read_time)?;
    Ok(Gap::Time(Span::from_nanos(nanos)))
}

fn hits(cursor: &mut Cursor<'_>) -> Result<Hits, Problem> {
    cursor.keyword("hits", "`hits` and how often the rule matched, or end the line")?;
    let mut hits =
        Hits { count: cursor.count("how often the rule matched", u64::MAX)?, ..Hits::default() };
    if !cursor.take_word("at") {
        return Ok(hits);
    }
    let mut given = [false; COUNT];
    loop {
        let before = *cursor;
        let axis = cursor.indicator()?;
        if std::mem::replace(&mut given[axis], true) {
            return Err(before.problem("this mean is given twice", "keep one of the two"));
        }
        hits.means[axis] = cursor.value(axis)?;
        if !cursor.take_mark(",") {
            return Ok(hits);
        }
    }
}
