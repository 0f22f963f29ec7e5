//! Numbers of a run by name: what published figures are compared with, and what sweeps list.
//!
//! To add one, write its line in [`NUMBERS`]. A name such as `A.io_secs` is a number of the
//! application `A` alone ([`OF_APPLICATION`]); `application2.io_secs` is one of the second,
//! whatever it is called, as in overrides.

use afflux_core::class::Class;
use afflux_core::nearest::nearest;
use afflux_core::summary::Summary;

use crate::outcome::{ApplicationOutcome, Outcome};
use crate::scenario::Scenario;

/// A number of a run.
pub struct Number {
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its value.
    pub of: fn(&Outcome, &Summary) -> f64,
}

/// A number of one application.
pub struct ApplicationNumber {
    /// Its name after the application's and a dot.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its value; none of an application that did not come to its end.
    pub of: fn(&ApplicationOutcome) -> Option<f64>,
}

macro_rules! numbers {
    ($($name:literal, $unit:literal, $about:literal, $of:expr;)*) => {
        &[$(Number { name: $name, unit: $unit, about: $about, of: $of }),*]
    };
}

/// All numbers of a run.
pub static NUMBERS: &[Number] = numbers! {
    "total_mb_s", "MB/s", "throughput of all clients", |_, s| s.total_mb_s;
    "read_mb_s", "MB/s", "what of it was read", |o, _| mb_s(o, Class::Read);
    "write_mb_s", "MB/s", "what of it was written", |o, _| mb_s(o, Class::Write);
    "tp_mb_s", "MB/s", "mean of a client", |_, s| s.tp_mb_s;
    "var_mb_s", "MB/s", "deviation over clients and seconds", |_, s| s.var_mb_s;
    "between_mb_s", "MB/s", "deviation between clients", |_, s| s.between_mb_s;
    "within_mb_s", "MB/s", "deviation within a client over its seconds", |_, s| s.within_mb_s;
    "least_mb_s", "MB/s", "the client that got least", |_, s| s.least_mb_s;
    "jain", "", "Jain's fairness index of the clients", |_, s| s.jain;
    "burst_mb_s", "MB/s", "speed of the bursts", |_, s| s.burst_mb_s;
    "operations_s", "1/s", "operations of the applications", |_, s| s.operations_s;
    "p50_ms", "ms", "median process time", |_, s| s.p50_ms;
    "p95_ms", "ms", "95th percentile of the process time", |_, s| s.p95_ms;
    "p99_ms", "ms", "99th percentile of the process time", |_, s| s.p99_ms;
    "operation_p99_ms", "ms", "99th percentile of operations", |_, s| s.operation_p99_ms;
    "access_ms", "ms", "mean time of a device on a request", |_, s| s.access_ms;
    "queue_ms", "ms", "mean wait of a request at a server", |_, s| s.queue_ms;
    "faults", "", "requests without an answer", |_, s| s.faults as f64;
    "ended_secs", "s", "when the run ended", |o, _| o.ended_secs;
    "replies", "", "replies taken", |o, _| o.totals.replies as f64;
    "resent", "", "requests sent again after a time-out", |o, _| o.totals.resent as f64;
    "failed", "", "requests given up", |o, _| o.totals.failed as f64;
    "wasted", "", "requests carried out for nobody", |o, _| o.totals.wasted as f64;
    "lost", "", "requests lost in a server that died", |o, _| o.totals.lost as f64;
    "failed_mb", "MB", "not moved, and the application knows", |o, _| mb(o.totals.failed_bytes);
    "lost_mb", "MB", "lost though believed written", |o, _| mb(o.totals.lost_bytes);
    "dropped", "", "segments for which a port had no room", |o, _| o.totals.dropped as f64;
    "rto", "", "losses noticed by a time-out only", |o, _| o.totals.rto as f64;
    "handovers", "", "locks handed on", |o, _| o.totals.handovers as f64;
    "deepest", "", "most requests at one server", |o, _| o.totals.deepest as f64;
};

/// All numbers of one application.
pub static OF_APPLICATION: &[ApplicationNumber] = &[
    ApplicationNumber {
        name: "io_secs",
        unit: "s",
        about: "from its first operation to the end of its last",
        of: ApplicationOutcome::io_secs,
    },
    ApplicationNumber {
        name: "ended_secs",
        unit: "s",
        about: "when its last operation ended",
        of: |one| one.ended_secs,
    },
    ApplicationNumber {
        name: "mb_s",
        unit: "MB/s",
        about: "its bytes by its time",
        of: |one| Some(one.bytes as f64 / 1e6 / one.io_secs()?),
    },
];

/// The value of the number called `name` in a run; none where an application did not come to its
/// end, or there is no such number ([`check`] says so beforehand).
pub fn value(name: &str, outcome: &Outcome, summary: &Summary) -> Option<f64> {
    if let Some(number) = NUMBERS.iter().find(|number| number.name == name) {
        return Some((number.of)(outcome, summary));
    }
    let (application, name) = name.rsplit_once('.')?;
    let number = OF_APPLICATION.iter().find(|number| number.name == name)?;
    let all = &outcome.applications;
    let numbered = || application.strip_prefix("application")?.parse::<usize>().ok();
    let at = all.iter().position(|one| one.name == application);
    (number.of)(all.get(at.or_else(|| numbered()?.checked_sub(1))?)?)
}

/// The names of all numbers of a run of `scenario`. Applications that share a name are numbered.
pub fn names(scenario: &Scenario) -> Vec<String> {
    let all = &scenario.applications;
    let of_applications = (1..).zip(all).flat_map(|(number, one)| {
        let alone = all.iter().filter(|other| other.name == one.name).count() == 1;
        let name = if alone { one.name.clone() } else { format!("application{number}") };
        OF_APPLICATION.iter().map(move |number| format!("{name}.{}", number.name))
    });
    NUMBERS.iter().map(|number| number.name.to_owned()).chain(of_applications).collect()
}

/// What the number called `name` is, and its unit; both empty of one that there is not.
pub fn told(name: &str) -> (String, &'static str) {
    if let Some(number) = NUMBERS.iter().find(|number| number.name == name) {
        return (number.about.to_owned(), number.unit);
    }
    let of_one = name.rsplit_once('.').and_then(|(application, last)| {
        let number = OF_APPLICATION.iter().find(|number| number.name == last)?;
        Some((format!("{application}: {}", number.about), number.unit))
    });
    of_one.unwrap_or_default()
}

/// All numbers as a Markdown table, in the form of the manual of scenarios.
pub fn manual() -> String {
    let mut text = "### Numbers of a run\n\n| name | unit | is |\n|---|---|---|\n".to_owned();
    let of_run = NUMBERS.iter().map(|number| (number.name.to_owned(), number.unit, number.about));
    let of_one = OF_APPLICATION.iter().map(|number| {
        let name = format!("APPLICATION.{}", number.name);
        (name, number.unit, number.about)
    });
    for (name, unit, about) in of_run.chain(of_one) {
        text.push_str(&format!("| `{name}` | {unit} | {about} |\n"));
    }
    text
}

/// Says what is wrong with a name, and what could stand there.
///
/// # Errors
/// No run of `scenario` has a number of that name.
pub fn check(name: &str, scenario: &Scenario) -> Result<(), String> {
    let all = names(scenario);
    let numbered = |(number, _)| OF_APPLICATION.iter().map(move |n| (number, n.name));
    let mut numbered = (1..).zip(&scenario.applications).flat_map(numbered);
    if all.iter().any(|known| known == name)
        || numbered.any(|(number, of)| name == format!("application{number}.{of}"))
    {
        return Ok(());
    }
    let meant = nearest(name, all.iter().map(String::as_str));
    let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
    Err(format!("there is no number `{name}`: {meant}there are: {}", all.join(", ")))
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Bytes of one direction by the counted time.
fn mb_s(outcome: &Outcome, class: Class) -> f64 {
    let clients = outcome.measurement.clients.iter();
    let bytes: u64 = clients.flat_map(|client| &client.seconds).map(|s| s[class.index()]).sum();
    let seconds = outcome.measurement.clients.first().map_or(0, |client| client.seconds.len());
    bytes as f64 / 1e6 / seconds.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name_and_those_of_applications_too() {
        let done = ApplicationOutcome {
            name: "a.b".to_owned(),
            started_secs: Some(1.0),
            ended_secs: Some(5.0),
            bytes: 8_000_000,
            ..ApplicationOutcome::default()
        };
        let outcome = Outcome { applications: vec![done], ended_secs: 6.0, ..Outcome::default() };
        let summary = Summary { p99_ms: 7.0, ..Summary::default() };
        let of = |name| value(name, &outcome, &summary);
        assert_eq!((of("p99_ms"), of("ended_secs")), (Some(7.0), Some(6.0)));
        assert_eq!((of("a.b.io_secs"), of("a.b.mb_s")), (Some(4.0), Some(2.0)));
        assert_eq!((of("b.io_secs"), of("p99")), (None, None));
        assert_eq!((of("application1.io_secs"), of("application0.io_secs")), (Some(4.0), None));
        assert_eq!(of("application2.io_secs"), None);
        assert_eq!(told("a.b.mb_s"), ("a.b: its bytes by its time".to_owned(), "MB/s"));
        assert_eq!((told("p99_ms").1, told("jain").1, told("p99").1), ("ms", "", ""));
    }

    #[test]
    fn names_that_no_run_has_are_refused() {
        let scenario = Scenario::default();
        let application = &scenario.applications[0].name;
        assert_eq!(check("total_mb_s", &scenario), Ok(()));
        assert_eq!(check(&format!("{application}.io_secs"), &scenario), Ok(()));
        let mut two = scenario.clone();
        two.applications.push(two.applications[0].clone());
        let last = names(&two).pop().unwrap();
        assert!(last.starts_with("application2.") && check(&last, &two).is_ok(), "{last}");
        assert!(check(&last, &scenario).is_err());
        let error = check("total_mbs", &scenario).unwrap_err();
        assert!(error.contains("did you mean `total_mb_s`?"), "{error}");
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<_> = NUMBERS.iter().map(|number| number.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NUMBERS.len());
    }
}
