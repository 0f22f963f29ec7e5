//! Expressions as trees: what they are worth, and how they are written.

use std::fmt;

use super::function::Function;
use super::names::Name;

/// A tree of numbers, names and what is done to them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    /// A literal; finite and not negative.
    Number(f64),
    /// A number of the summary.
    Name(&'static Name),
    /// Unary minus.
    Negate(Box<Self>),
    /// Two operands.
    Binary(Operator, Box<Self>, Box<Self>),
    /// A function with as many arguments as it takes.
    Call(&'static Function, Vec<Self>),
    /// `if(left comparison right, then, otherwise)`, the four in this order.
    If(Comparison, Box<[Self; 4]>),
}

/// What stands between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// How an `if` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

/// How tightly sums, products and unary minus bind.
pub(super) const SUM: u8 = 1;
pub(super) const PRODUCT: u8 = 2;
const SIGN: u8 = 3;

impl Operator {
    /// All with their marks.
    pub(super) const ALL: [(&'static str, Self); 4] =
        [("+", Self::Add), ("-", Self::Subtract), ("*", Self::Multiply), ("/", Self::Divide)];

    /// How tightly it binds; both sides of a stronger one are taken first.
    pub(super) const fn strength(self) -> u8 {
        match self {
            Self::Add | Self::Subtract => SUM,
            Self::Multiply | Self::Divide => PRODUCT,
        }
    }

    fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
        }
    }
}

impl Comparison {
    /// All with their marks.
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("<", Self::Less),
        ("<=", Self::AtMost),
        (">", Self::More),
        (">=", Self::AtLeast),
        ("==", Self::Equal),
        ("!=", Self::Unequal),
    ];

    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::More => left > right,
            Self::AtLeast => left >= right,
            Self::Equal => left == right,
            Self::Unequal => left != right,
        }
    }
}

fn mark_of<T: Copy + PartialEq>(all: &[(&'static str, T)], one: T) -> &'static str {
    all.iter().find(|(_, known)| *known == one).map_or("?", |(mark, _)| mark)
}

impl Expression {
    /// Its value where `value` says what names are worth; `None` as soon as a step that is taken
    /// has no finite result. Of an `if`, only the branch that it chooses is taken.
    pub(super) fn value(&self, value: &dyn Fn(&Name) -> f64) -> Option<f64> {
        let result = match self {
            Self::Number(number) => *number,
            Self::Name(name) => value(name),
            Self::Negate(of) => -of.value(value)?,
            Self::Binary(operator, left, right) => {
                operator.apply(left.value(value)?, right.value(value)?)
            }
            Self::Call(function, arguments) => {
                let given = arguments.iter().map(|argument| argument.value(value));
                (function.of)(&given.collect::<Option<Vec<f64>>>()?)
            }
            Self::If(comparison, parts) => {
                let [left, right, then, otherwise] = parts.as_ref();
                let holds = comparison.holds(left.value(value)?, right.value(value)?);
                if holds { then.value(value)? } else { otherwise.value(value)? }
            }
        };
        // An infinity would beat every honest score, so it counts as little as no number at all.
        result.is_finite().then_some(result)
    }

    /// Whether the name stands in it anywhere.
    pub(super) fn names(&self, name: &str) -> bool {
        match self {
            Self::Number(_) => false,
            Self::Name(known) => known.name == name,
            Self::Negate(of) => of.names(name),
            Self::Binary(_, left, right) => left.names(name) || right.names(name),
            Self::Call(_, arguments) => arguments.iter().any(|argument| argument.names(name)),
            Self::If(_, parts) => parts.iter().any(|part| part.names(name)),
        }
    }

    fn strength(&self) -> u8 {
        match self {
            Self::Binary(operator, ..) => operator.strength(),
            _ => SIGN,
        }
    }

    /// Writes it, in parentheses where it binds less tightly than what stands around it needs.
    fn write(&self, f: &mut fmt::Formatter<'_>, needed: u8) -> fmt::Result {
        if self.strength() < needed {
            f.write_str("(")?;
            self.write(f, 0)?;
            return f.write_str(")");
        }
        match self {
            Self::Number(number) => f.write_str(&literal(*number)),
            Self::Name(name) => f.write_str(name.name),
            Self::Negate(of) => {
                f.write_str("-")?;
                of.write(f, SIGN)
            }
            Self::Binary(operator, left, right) => {
                let strength = operator.strength();
                left.write(f, strength)?;
                write!(f, " {} ", mark_of(&Operator::ALL, *operator))?;
                // Sums of floats depend on their order, so the right side keeps its parentheses.
                right.write(f, strength + 1)
            }
            Self::Call(function, arguments) => {
                write!(f, "{}(", function.name)?;
                for (position, argument) in arguments.iter().enumerate() {
                    f.write_str(if position == 0 { "" } else { ", " })?;
                    argument.write(f, 0)?;
                }
                f.write_str(")")
            }
            Self::If(comparison, parts) => {
                let mark = mark_of(&Comparison::ALL, *comparison);
                let [left, right, then, otherwise] = parts.as_ref();
                write!(f, "if({left} {mark} {right}, {then}, {otherwise})")
            }
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// The shorter of the two ways to write a number exactly.
fn literal(number: f64) -> String {
    let (plain, scientific) = (format!("{number}"), format!("{number:e}"));
    if scientific.len() < plain.len() { scientific } else { plain }
}
