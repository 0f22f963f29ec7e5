//! Parameters of policies: `8,gap=33ms` and the like, checked against the policy's own table.

use std::collections::BTreeMap;

use crate::policy::PolicyEntry;
use crate::rules::Gap;

/// One parameter of a policy.
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
    policy: &'static str,
    values: BTreeMap<&'static str, String>,
}

/// A policy or a parameter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No policy has this name.
    #[error("`{name}` is no policy: use one of {known}")]
    UnknownPolicy {
        /// What was written.
        name: String,
        /// What is known.
        known: String,
    },
    /// The policy has no such parameter.
    #[error("policy {policy} has no parameter `{name}`: {known}")]
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// What was written.
        name: String,
        /// What it has.
        known: String,
    },
    /// A parameter that has no default is missing.
    #[error("policy {policy} needs `{name}`, as in `{policy}:{name}=...`: {about}")]
    Missing {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        name: &'static str,
        /// What it is.
        about: &'static str,
    },
    /// A value is not what the parameter takes.
    #[error("policy {policy}: `{name}={value}` is not {expected}")]
    BadValue {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        name: &'static str,
        /// What was written.
        value: String,
        /// What it takes.
        expected: String,
    },
}

impl Parameters {
    /// Reads `value,name=value,...` for `entry`.
    pub(super) fn parse(entry: &PolicyEntry, text: &str) -> Result<Self, ParameterError> {
        let policy = entry.name;
        let mut values = BTreeMap::new();
        for (position, item) in text.split(',').filter(|item| !item.is_empty()).enumerate() {
            let (name, value) = match item.split_once('=') {
                Some((name, value)) => (name, value),
                None => (entry.parameters.get(position).map_or(item, |p| p.name), item),
            };
            let Some(parameter) = entry.parameters.iter().find(|p| p.name == name) else {
                let names: Vec<_> = entry.parameters.iter().map(|p| p.name).collect();
                let known = match names.is_empty() {
                    true => "it takes none".to_owned(),
                    false => format!("it takes {}", names.join(", ")),
                };
                return Err(ParameterError::UnknownParameter {
                    policy,
                    name: name.to_owned(),
                    known,
                });
            };
            values.insert(parameter.name, value.to_owned());
        }
        for parameter in entry.parameters {
            if !values.contains_key(parameter.name) {
                if parameter.default.is_empty() {
                    let (name, about) = (parameter.name, parameter.about);
                    return Err(ParameterError::Missing { policy, name, about });
                }
                values.insert(parameter.name, parameter.default.to_owned());
            }
        }
        Ok(Self { policy, values })
    }

    /// The value of `name` as a number in `[low, high]`.
    pub fn number(&self, name: &'static str, low: f64, high: f64) -> Result<f64, ParameterError> {
        let value = &self.values[name];
        match value.parse::<f64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(number),
            _ => Err(self.bad(name, format!("a number from {low} to {high}"))),
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
        ParameterError::BadValue { policy: self.policy, name, value, expected }
    }
}
