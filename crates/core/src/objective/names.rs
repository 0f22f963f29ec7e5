//! The numbers that an objective may name. [`NAMES`] is the registry: one entry each.

use crate::class::Class;
use crate::summary::Summary;

/// A number of a summary under the name that it has in objectives.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// As it is written: small letters, digits and underscores.
    pub name: &'static str,
    /// Its unit; empty when it has none.
    pub unit: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Its value. What is not a finite number makes a score the worst.
    pub of: fn(&Summary) -> f64,
}

impl PartialEq for Name {
    /// Names are unique in the registry.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// An entry of the registry.
const fn name(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    of: fn(&Summary) -> f64,
) -> Name {
    Name { name, unit, about, of }
}

/// What can be named, in the order of the help. The first three are the paper's (III-E).
pub static NAMES: &[Name] = &[
    name("tp", "MB/s", "mean throughput over clients and seconds", |s| s.tp_mb_s),
    name("var", "MB/s", "its standard deviation over clients and seconds", |s| s.var_mb_s),
    name("cv", "", "var / tp; undefined when nothing was moved", |s| s.var_mb_s / s.tp_mb_s),
    name("total", "MB/s", "throughput of all clients together", |s| s.total_mb_s),
    name("unrest", "MB/s", "deviation of `total` over the seconds", |s| s.total_deviation_mb_s),
    name("spread", "MB/s", "deviation between the clients' means", |s| s.between_mb_s),
    name("within", "MB/s", "deviation of a client over its seconds", |s| s.within_mb_s),
    name("least", "MB/s", "mean throughput of the client that got least", |s| s.least_mb_s),
    name("geometric", "MB/s", "geometric mean over the clients", |s| s.geometric_mb_s),
    name("harmonic", "MB/s", "harmonic mean over the clients", |s| s.harmonic_mb_s),
    name("jain", "", "Jain's index of the clients: 1 when all got the same", |s| s.jain),
    name("burst", "MB/s", "all clients' speed while something was under way", |s| s.burst_mb_s),
    name("ops", "1/s", "operations of the applications", |s| s.operations_s),
    name("p50", "ms", "median process time of reads and writes", |s| s.p50_ms),
    name("p95", "ms", "their 95th percentile", |s| s.p95_ms),
    name("p99", "ms", "their 99th percentile", |s| s.p99_ms),
    name("read_p50", "ms", "median process time of reads", |s| of_class(s, Class::Read)[0]),
    name("read_p99", "ms", "their 99th percentile", |s| of_class(s, Class::Read)[1]),
    name("write_p50", "ms", "median process time of writes", |s| of_class(s, Class::Write)[0]),
    name("write_p99", "ms", "their 99th percentile", |s| of_class(s, Class::Write)[1]),
    name("meta_p50", "ms", "median of metadata", |s| of_class(s, Class::Metadata)[0]),
    name("meta_p99", "ms", "their 99th percentile", |s| of_class(s, Class::Metadata)[1]),
    name("op_p99", "ms", "99th percentile of the operations", |s| s.operation_p99_ms),
    name("access", "ms", "mean work of a device on a request", |s| s.access_ms),
    name("queue", "ms", "mean wait of a request at a server", |s| s.queue_ms),
    name("faults", "", "requests that ended without an answer", |s| s.faults as f64),
];

fn of_class(summary: &Summary, class: Class) -> [f64; 2] {
    summary.by_class_ms[class.index()]
}

/// The entry of that name.
pub(super) fn known(name: &str) -> Option<&'static Name> {
    NAMES.iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::function::FUNCTIONS;

    #[test]
    fn names_are_words_of_their_own() {
        for (at, one) in NAMES.iter().enumerate() {
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(one.name.chars().all(good), "{}", one.name);
            assert!(NAMES[..at].iter().all(|other| other != one), "{} twice", one.name);
            assert!(FUNCTIONS.iter().all(|function| function.name != one.name), "{}", one.name);
            assert!(one.name != "if" && !one.about.is_empty());
        }
    }

    /// Each name finds the field that it promises.
    #[test]
    fn names_reach_their_numbers() {
        let summary = Summary {
            tp_mb_s: 8.0,
            var_mb_s: 2.0,
            p95_ms: 95.0,
            by_class_ms: [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            faults: 7,
            ..Summary::default()
        };
        let value = |name: &str| (known(name).unwrap().of)(&summary);
        assert_eq!((value("cv"), value("p95"), value("faults")), (0.25, 95.0, 7.0));
        assert_eq!((value("read_p99"), value("write_p50"), value("meta_p99")), (2.0, 3.0, 6.0));
        assert!(NAMES.iter().all(|name| !(name.of)(&Summary::default()).is_infinite()));
    }
}
