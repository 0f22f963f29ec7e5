//! From tokens to a tree.
//!
//! ```text
//! expression = term (("+" | "-") term)*
//! term       = factor (("*" | "/") factor)*
//! factor     = "-" factor | number | name | "(" expression ")"
//!            | function "(" expression ("," expression)* ")"
//!            | "if" "(" expression comparison expression "," expression "," expression ")"
//! ```

use super::error::{Fault, ObjectiveError};
use super::expression::{Comparison, Expression, Operator, SUM};
use super::function::{self, FUNCTIONS, Function};
use super::lex::{Kind, Token, cut, tokens};
use super::names::{self, NAMES};
use crate::nearest::nearest;

/// Parentheses, functions and signs within each other, at most: the reader and all that walks a
/// tree call themselves, and must not run out of stack on what somebody pasted.
pub(super) const DEPTH_MAX: usize = 64;

/// Names, numbers and marks, at most; a sum of so many terms is as deep a tree.
pub(super) const TOKENS_MAX: usize = 1_000;

/// Reads an expression.
pub(super) fn parse(source: &str) -> Result<Expression, ObjectiveError> {
    let tokens = tokens(source)?;
    let mut reader = Reader { source, tokens: &tokens, at: 0, depth: 0 };
    if tokens.is_empty() {
        return Err(reader.wrong(Fault::Empty));
    }
    let expression = reader.expression(SUM)?;
    match reader.peek() {
        None => Ok(expression),
        Some(_) => Err(reader.wrong(reader.stray())),
    }
}

struct Reader<'a> {
    source: &'a str,
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

type Read<T> = Result<T, ObjectiveError>;

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn sees(&self, mark: &str) -> bool {
        self.peek().is_some_and(|token| matches!(token.kind, Kind::Mark(seen) if seen == mark))
    }

    fn take(&mut self, mark: &str) -> bool {
        let seen = self.sees(mark);
        self.at += usize::from(seen);
        seen
    }

    /// One of `known` whose mark comes next.
    fn one_of<T: Copy>(&self, known: &[(&'static str, T)]) -> Option<T> {
        known.iter().find(|(mark, _)| self.sees(mark)).map(|(_, one)| *one)
    }

    /// A fault at the next token, or behind the last.
    fn wrong(&self, fault: Fault) -> ObjectiveError {
        self.wrong_at(fault, self.at)
    }

    fn wrong_at(&self, fault: Fault, token: usize) -> ObjectiveError {
        let behind = self.tokens.last().map_or(1, |last| last.column + last.width);
        let place = self.tokens.get(token).map(|token| (token.column, token.width));
        let (column, width) = place.unwrap_or((behind, 1));
        ObjectiveError { fault, column, width, source_text: self.source.to_owned() }
    }

    /// What is wrong when the next token neither continues nor ends an expression.
    fn stray(&self) -> Fault {
        match self.peek().map(|token| &token.kind) {
            Some(Kind::Mark(")")) => Fault::Unopened,
            Some(Kind::Mark(",")) => Fault::Comma,
            _ if self.one_of(&Comparison::ALL).is_some() => Fault::Comparison,
            _ => Fault::MissingOperator,
        }
    }

    /// Operands joined by operators that bind at least as tightly as `strength`, from the left.
    fn expression(&mut self, strength: u8) -> Read<Expression> {
        let mut left = self.factor()?;
        while let Some(operator) = self.one_of(&Operator::ALL) {
            if operator.strength() < strength {
                break;
            }
            self.at += 1;
            let right = self.expression(operator.strength() + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Read<Expression> {
        let Some(token) = self.peek() else { return Err(self.wrong(Fault::MissingValue)) };
        let begin = self.at;
        match &token.kind {
            Kind::Number(number) => {
                self.at += 1;
                Ok(Expression::Number(*number))
            }
            Kind::Word(word) => {
                self.at += 1;
                if self.sees("(") { self.call(word, begin) } else { self.name(word, begin) }
            }
            Kind::Mark("-") => self.deeper(|reader| {
                reader.at += 1;
                Ok(Expression::Negate(Box::new(reader.factor()?)))
            }),
            Kind::Mark("(") => self.deeper(|reader| {
                reader.at += 1;
                let inside = reader.expression(SUM)?;
                reader.close(begin)?;
                Ok(inside)
            }),
            Kind::Mark(_) => Err(self.wrong(Fault::MissingValue)),
        }
    }

    fn name(&self, word: &str, at: usize) -> Read<Expression> {
        if let Some(name) = names::known(word) {
            return Ok(Expression::Name(name));
        }
        let function = FUNCTIONS.iter().map(|function| function.name).chain(["if"]);
        if let Some(function) = function.clone().find(|function| *function == word) {
            return Err(self.wrong_at(Fault::NotCalled(function), at));
        }
        let word = cut(word);
        let meant = nearest(&word, NAMES.iter().map(|name| name.name));
        Err(self.wrong_at(Fault::UnknownName { word, meant }, at))
    }

    /// What a function is given; the reader is at its opening parenthesis, one behind its name.
    fn call(&mut self, word: &str, begin: usize) -> Read<Expression> {
        let open = self.at;
        if word == "if" {
            return self.deeper(|reader| {
                reader.at += 1;
                reader.condition(begin, open)
            });
        }
        let Some(function) = function::known(word) else {
            let word = cut(word);
            let known = FUNCTIONS.iter().map(|function| function.name).chain(["if"]);
            let meant = nearest(&word, known);
            return Err(self.wrong_at(Fault::UnknownFunction { word, meant }, begin));
        };
        let arguments = self.deeper(|reader| {
            reader.at += 1;
            if reader.take(")") { Ok(Vec::new()) } else { reader.arguments(open) }
        })?;
        if (function.at_least..=function.at_most).contains(&arguments.len()) {
            return Ok(Expression::Call(function, arguments));
        }
        let (takes, given) = (takes(function), arguments.len());
        let fault = Fault::Arguments { function: function.name, takes, given };
        Err(self.wrong_at(fault, begin))
    }

    /// The inside of an `if`, and its end.
    fn condition(&mut self, begin: usize, open: usize) -> Read<Expression> {
        let left = self.expression(SUM)?;
        let Some(comparison) = self.one_of(&Comparison::ALL) else {
            let fault = match self.stray() {
                Fault::MissingOperator if self.peek().is_some() => Fault::MissingOperator,
                _ => Fault::NoComparison,
            };
            return Err(self.wrong(fault));
        };
        self.at += 1;
        let mut parts = vec![left, self.expression(SUM)?];
        if self.take(",") {
            parts.extend(self.arguments(open)?);
        } else {
            self.close(open)?;
        }
        // The comparison counts as one part.
        let given = parts.len() - 1;
        let parts: Result<Box<[Expression; 4]>, _> = parts.into_boxed_slice().try_into();
        let takes = "3 arguments".to_owned();
        let fault = Fault::Arguments { function: "if", takes, given };
        Ok(Expression::If(comparison, parts.map_err(|_| self.wrong_at(fault, begin))?))
    }

    /// Expressions between commas, up to the end of the parenthesis at `open`.
    fn arguments(&mut self, open: usize) -> Read<Vec<Expression>> {
        let mut arguments = vec![self.expression(SUM)?];
        while self.take(",") {
            arguments.push(self.expression(SUM)?);
        }
        self.close(open)?;
        Ok(arguments)
    }

    /// Takes the end of the parenthesis at `open`.
    fn close(&mut self, open: usize) -> Read<()> {
        if self.take(")") {
            return Ok(());
        }
        Err(match self.peek() {
            None => self.wrong_at(Fault::Unclosed, open),
            Some(_) => self.wrong(self.stray()),
        })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong(Fault::TooDeep));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }
}

/// How many arguments a function takes, in words.
fn takes(function: &Function) -> String {
    let (least, most) = (function.at_least, function.at_most);
    match most {
        1 => "1 argument".to_owned(),
        _ if least == most => format!("{least} arguments"),
        _ => format!("{least} to {most} arguments"),
    }
}
