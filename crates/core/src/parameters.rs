//! Parameters of what is chosen by name: `8,gap=33ms` and the like, checked against its own table.

use std::collections::BTreeMap;

use crate::rules::Gap;
use crate::units::{Span, parse_rate};

/// What takes parameters: an entry of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// What it is one of, as error messages say it: `policy`, `method`.
    pub kind: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it takes, in the order in which values may be given without a name.
    pub parameters: &'static [Parameter],
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What stands when it is not given; empty when it must be.
    pub default: &'static str,
    /// One line for help, with its range.
    pub about: &'static str,
}

/// The parameters that were given, with defaults filled in.
#[derive(Clone, Debug)]
pub struct Parameters {
    owner: Named,
    values: BTreeMap<&'static str, String>,
}

/// A name or a parameter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Nothing of its kind has this name.
    #[error("`{name}` is no {kind}: use one of {known}")]
    UnknownName {
        /// What it should be one of.
        kind: &'static str,
        /// What was written.
        name: String,
        /// What is known.
        known: String,
    },
    /// There is no such parameter.
    #[error("{kind} {owner} has no parameter `{name}`: {known}")]
    UnknownParameter {
        /// What its owner is one of.
        kind: &'static str,
        /// The policy, method, ... that has no such parameter.
        owner: &'static str,
        /// What was written.
        name: String,
        /// What it has.
        known: String,
    },
    /// A parameter that has no default is missing.
    #[error("{kind} {owner} needs `{name}`, as in `{owner}:{name}=...`: {about}")]
    Missing {
        /// What its owner is one of.
        kind: &'static str,
        /// Its owner.
        owner: &'static str,
        /// The parameter.
        name: &'static str,
        /// What it is.
        about: &'static str,
    },
    /// A value is not what the parameter takes.
    #[error("{kind} {owner}: `{name}={value}` is not {expected}")]
    BadValue {
        /// What its owner is one of.
        kind: &'static str,
        /// Its owner.
        owner: &'static str,
        /// The parameter.
        name: &'static str,
        /// What was written.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// The command that its owner runs is missing.
    #[error("{kind} {owner} needs a command, as in `{owner}:python3 mine.py`")]
    NoCommand {
        /// What its owner is one of.
        kind: &'static str,
        /// Its owner.
        owner: &'static str,
    },
    /// It is written well, but is nothing that can be built from its name alone.
    #[error("{kind} {owner} runs a program, which only a driver can start")]
    Elsewhere {
        /// What its owner is one of.
        kind: &'static str,
        /// Its owner.
        owner: &'static str,
    },
}

impl Parameters {
    /// Reads `value,name=value,...` for `owner`.
    pub fn parse(owner: Named, text: &str) -> Result<Self, ParameterError> {
        let mut values = BTreeMap::new();
        for (position, item) in text.split(',').filter(|item| !item.is_empty()).enumerate() {
            let (name, value) = match item.split_once('=') {
                Some((name, value)) => (name, value),
                None => (owner.parameters.get(position).map_or(item, |p| p.name), item),
            };
            let Some(parameter) = owner.parameters.iter().find(|p| p.name == name) else {
                let names: Vec<_> = owner.parameters.iter().map(|p| p.name).collect();
                let known = match names.is_empty() {
                    true => "it takes none".to_owned(),
                    false => format!("it takes {}", names.join(", ")),
                };
                let (kind, name) = (owner.kind, name.to_owned());
                let owner = owner.name;
                return Err(ParameterError::UnknownParameter { kind, owner, name, known });
            };
            values.insert(parameter.name, value.to_owned());
        }
        for parameter in owner.parameters {
            if !values.contains_key(parameter.name) {
                if parameter.default.is_empty() {
                    let (kind, owner) = (owner.kind, owner.name);
                    let (name, about) = (parameter.name, parameter.about);
                    return Err(ParameterError::Missing { kind, owner, name, about });
                }
                values.insert(parameter.name, parameter.default.to_owned());
            }
        }
        Ok(Self { owner, values })
    }

    /// The value of `name` as it was written.
    pub fn text(&self, name: &'static str) -> &str {
        &self.values[name]
    }

    /// The value of `name` as a number in `[low, high]`.
    pub fn number(&self, name: &'static str, low: f64, high: f64) -> Result<f64, ParameterError> {
        let value = &self.values[name];
        match value.parse::<f64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(number),
            _ => Err(self.bad(name, format!("a number from {low} to {high}"))),
        }
    }

    /// The value of `name` as a whole number in `[low, high]`.
    pub fn count(&self, name: &'static str, low: u64, high: u64) -> Result<u64, ParameterError> {
        match self.values[name].parse::<u64>() {
            Ok(count) if (low..=high).contains(&count) => Ok(count),
            _ => Err(self.bad(name, format!("a whole number from {low} to {high}"))),
        }
    }

    /// The value of `name` as a time in `[low, high]`.
    pub fn span(&self, name: &'static str, low: Span, high: Span) -> Result<Span, ParameterError> {
        match self.values[name].parse::<Span>() {
            Ok(span) if (low..=high).contains(&span) => Ok(span),
            _ => Err(self.bad(name, format!("a time from {low} to {high}"))),
        }
    }

    /// The value of `name` as bytes in a second, at least one.
    pub fn rate(&self, name: &'static str) -> Result<u64, ParameterError> {
        match parse_rate(&self.values[name]) {
            Ok(rate) if rate > 0 => Ok(rate),
            _ => Err(self.bad(name, "a rate above zero, as in 500kB/s or 20MB/s".to_owned())),
        }
    }

    /// The value of `name`, which is one of `choices`.
    pub fn choice(
        &self,
        name: &'static str,
        choices: &[&'static str],
    ) -> Result<&'static str, ParameterError> {
        let found = choices.iter().find(|choice| **choice == self.values[name]);
        found.copied().ok_or_else(|| self.bad(name, format!("one of {}", choices.join(", "))))
    }

    /// Whether `name` is `on` or `off`.
    pub fn switch(&self, name: &'static str) -> Result<bool, ParameterError> {
        match self.values[name].as_str() {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(self.bad(name, "on or off".to_owned())),
        }
    }

    /// The value of `name` as a gap: a time, or a fraction of `ack_ewma` such as `0.9ack`.
    pub fn gap(&self, name: &'static str) -> Result<Gap, ParameterError> {
        let value = &self.values[name];
        if let Some(fraction) = value.strip_suffix("ack") {
            return match fraction.parse::<f64>() {
                Ok(fraction) if (0.0..=100.0).contains(&fraction) => Ok(Gap::OfAck(fraction)),
                _ => Err(self.bad(name, "a fraction from 0 to 100, as in 0.9ack".to_owned())),
            };
        }
        value.parse().map(Gap::Time).map_err(|_| {
            self.bad(name, "a time such as 33ms, or a fraction such as 0.9ack".to_owned())
        })
    }

    fn bad(&self, name: &'static str, expected: String) -> ParameterError {
        let value = self.values[name].clone();
        let (kind, owner) = (self.owner.kind, self.owner.name);
        ParameterError::BadValue { kind, owner, name, value, expected }
    }
}
