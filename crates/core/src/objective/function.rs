//! The functions that an objective may call. [`FUNCTIONS`] is the registry: one entry each.

/// A function of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// As it is written.
    pub name: &'static str,
    /// What it is given, as help shows it.
    pub arguments: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// The least number of arguments.
    pub at_least: usize,
    /// The largest.
    pub at_most: usize,
    /// Its value. All arguments are finite; what is not a finite number makes a score the worst.
    pub of: fn(&[f64]) -> f64,
}

impl PartialEq for Function {
    /// Names are unique in the registry.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// More arguments than this say that a parenthesis is missing rather than that all are meant.
const MANY: usize = 16;

/// What can be called besides `if`.
pub static FUNCTIONS: &[Function] = &[
    Function {
        name: "pow",
        arguments: "x, y",
        about: "x to the power of y",
        at_least: 2,
        at_most: 2,
        of: |x| libm::pow(x[0], x[1]),
    },
    Function {
        name: "log",
        arguments: "x, base",
        about: "logarithm; natural without a base",
        at_least: 1,
        at_most: 2,
        of: |x| libm::log(x[0]) / x.get(1).map_or(1.0, |&base| libm::log(base)),
    },
    Function {
        name: "min",
        arguments: "x, y, ...",
        about: "the least",
        at_least: 2,
        at_most: MANY,
        of: |x| x.iter().copied().fold(f64::INFINITY, f64::min),
    },
    Function {
        name: "max",
        arguments: "x, y, ...",
        about: "the largest",
        at_least: 2,
        at_most: MANY,
        of: |x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    },
];

/// The entry of that name.
pub(super) fn known(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|known| known.name == name)
}

/// How the function `name`, or `if`, is written.
pub(super) fn usage(name: &str) -> String {
    let arguments = known(name).map_or("x < y, then, else", |function| function.arguments);
    format!("{name}({arguments})")
}
