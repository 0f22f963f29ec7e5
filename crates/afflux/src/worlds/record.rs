//! What is kept of simulated worlds, in `result.json` and in what is printed for programs.

use afflux_core::class::Class;
use afflux_core::measure::{Latencies, Measurement};
use afflux_sim::{Outcome, Scenario};
use serde::{Deserialize, Serialize};

use super::published::Beside;

/// One world, besides what every run on any target shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorldRecord {
    /// How many clients each entry of the run's clients stands for.
    pub(crate) merged: u32,
    /// The course of the run.
    pub(crate) series: SeriesRecord,
    /// Process times by class of requests.
    pub(crate) process_times: Vec<TimesRecord>,
    /// What became of each application.
    pub(crate) applications: Vec<ApplicationRecord>,
    /// What happened over the whole run, and how often.
    pub(crate) counts: Vec<(String, u64)>,
    /// Published figures beside simulated ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) published: Vec<Beside>,
}

/// The course of a run; all lists have an entry for each step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeriesRecord {
    /// Length of a step.
    pub(crate) step_secs: f64,
    /// Time at the start that is not counted.
    pub(crate) settle_secs: f64,
    /// How many servers there are.
    pub(crate) servers: u32,
    /// What each application moved.
    pub(crate) throughput: Vec<ThroughputRecord>,
    /// Requests at a server, on average.
    pub(crate) queued: Vec<f64>,
    /// Those of the server that had most.
    pub(crate) queued_most: Vec<u64>,
    /// Mean process time; zero where no reply came.
    pub(crate) process_ms: Vec<f64>,
    /// The longest.
    pub(crate) process_most_ms: Vec<f64>,
    /// Mean window of a path for data.
    pub(crate) window: Vec<f64>,
    /// Requests in flight, all paths together.
    pub(crate) in_flight: Vec<u64>,
}

/// What one application moved in each step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ThroughputRecord {
    /// The application.
    pub(crate) application: String,
    /// What it read.
    pub(crate) read_mb_s: Vec<f64>,
    /// What it wrote.
    pub(crate) write_mb_s: Vec<f64>,
}

/// The distribution of process times of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimesRecord {
    /// The class.
    pub(crate) class: String,
    /// How many replies there were.
    pub(crate) replies: u64,
    /// Parts of them, from 0 to 1 ...
    pub(crate) parts: Vec<f64>,
    /// ... and the time that each part did not exceed.
    pub(crate) ms: Vec<f64>,
    /// The whole of it: each time that occurred, in milliseconds, and how many replies took at most
    /// so long. The parts above are enough for a drawing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) cumulative: Vec<(f64, u64)>,
}

/// What became of one application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ApplicationRecord {
    /// Its name.
    pub(crate) name: String,
    /// How many clients it had.
    pub(crate) clients: u32,
    /// When its first operation started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_secs: Option<f64>,
    /// When its last operation ended, where it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_secs: Option<f64>,
    /// What its operations moved.
    pub(crate) bytes: u64,
}

impl WorldRecord {
    /// What `outcome` showed of `scenario`.
    pub(crate) fn of(scenario: &Scenario, outcome: &Outcome, published: Vec<Beside>) -> Self {
        let times = Class::ALL.into_iter().filter_map(|class| {
            TimesRecord::of(class.name(), &process_times(&outcome.measurement, class))
        });
        let applications = outcome.applications.iter().map(|one| ApplicationRecord {
            name: one.name.clone(),
            clients: one.clients,
            started_secs: one.started_secs,
            ended_secs: one.ended_secs,
            bytes: one.bytes,
        });
        let named = |(what, count): (&str, u64)| (what.to_owned(), count);
        Self {
            merged: outcome.merged,
            series: SeriesRecord::of(scenario, outcome),
            process_times: times.collect(),
            applications: applications.collect(),
            counts: counts(outcome).into_iter().map(named).collect(),
            published,
        }
    }
}

impl SeriesRecord {
    fn of(scenario: &Scenario, outcome: &Outcome) -> Self {
        let series = &outcome.series;
        let step = series.step_secs;
        let throughput = scenario.applications.iter().zip(&series.bytes).map(|(one, steps)| {
            let mb_s = |way: usize| steps.iter().map(|b| b[way] as f64 / 1e6 / step).collect();
            let application = one.name.clone();
            ThroughputRecord { application, read_mb_s: mb_s(0), write_mb_s: mb_s(1) }
        });
        let servers = f64::from(scenario.servers.count);
        Self {
            step_secs: step,
            settle_secs: scenario.run.settle.as_secs_f64(),
            servers: scenario.servers.count,
            throughput: throughput.collect(),
            queued: series.queued.iter().map(|&queued| queued as f64 / servers).collect(),
            queued_most: series.queued_most.clone(),
            process_ms: series.process_ms.clone(),
            process_most_ms: series.process_most_ms.clone(),
            window: series.window.clone(),
            in_flight: series.in_flight.clone(),
        }
    }
}

impl TimesRecord {
    /// The distribution to half a percent, and its tail; nothing without any time.
    fn of(class: &str, times: &Latencies) -> Option<Self> {
        if times.count() == 0 {
            return None;
        }
        let tail = [0.999, 0.9999, 1.0];
        let parts: Vec<f64> = (0..200).map(|part| f64::from(part) / 200.0).chain(tail).collect();
        let ms = parts.iter().map(|&part| times.quantile(part).as_millis_f64()).collect();
        let steps = times.cumulative().into_iter();
        let cumulative = steps.map(|(time, count)| (time.as_millis_f64(), count)).collect();
        Some(Self { class: class.to_owned(), replies: times.count(), parts, ms, cumulative })
    }
}

/// Mean throughput of each client in MB/s.
pub(crate) fn client_means(measurement: &Measurement) -> Vec<f64> {
    let mean = |seconds: &[[u64; 2]]| {
        let bytes: u64 = seconds.iter().flatten().sum();
        bytes as f64 / 1e6 / seconds.len().max(1) as f64
    };
    measurement.clients.iter().map(|client| mean(&client.seconds)).collect()
}

/// The process times of all clients together.
pub(crate) fn process_times(measurement: &Measurement, class: Class) -> Latencies {
    let mut all = Latencies::default();
    for client in &measurement.clients {
        all.add(&client.process_time[class.index()]);
    }
    all
}

/// What is counted over the whole run, in words; zeros are left out.
pub(crate) fn counts(outcome: &Outcome) -> Vec<(&'static str, u64)> {
    let totals = &outcome.totals;
    let all = [
        ("operations ended", totals.operations),
        ("requests sent", totals.sent),
        ("replies taken", totals.replies),
        ("most requests at one server", totals.deepest),
        ("segments dropped by a port", totals.dropped),
        ("losses noticed by a retransmission time-out only", totals.rto),
        ("requests sent again after a time-out", totals.resent),
        ("requests given up", totals.failed),
        ("requests carried out though nobody waited for them", totals.wasted),
        ("requests lost in a server that died, or with their client's data", totals.lost),
        ("operations that ended with their client", totals.died),
        ("bytes not moved, and the application knows", totals.failed_bytes),
        ("bytes lost that the application believed written", totals.lost_bytes),
        ("locks handed from client to client", totals.handovers),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// A sweep and all of its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepRecord {
    /// What was swept; each combination of their values is a point.
    pub(crate) axes: Vec<AxisRecord>,
    /// Seeds of each point.
    pub(crate) seeds: u32,
    /// The numbers of every row, in the order of its values.
    pub(crate) numbers: Vec<NumberRecord>,
    /// Names of those that are shown.
    pub(crate) shown: Vec<String>,
    /// One for each point and seed, in the order of the product: the last axis turns fastest.
    pub(crate) rows: Vec<PointRecord>,
    /// Published figures at points of the sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) published: Vec<PublishedRecord>,
}

/// A key and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AxisRecord {
    /// The key, such as `servers.count`.
    pub(crate) key: String,
    /// Its values, as they were written.
    pub(crate) values: Vec<String>,
}

/// The name of a number, and its unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NumberRecord {
    /// Its name.
    pub(crate) name: String,
    /// What it is.
    pub(crate) about: String,
    /// Its unit; empty for a plain number.
    pub(crate) unit: String,
}

/// One world of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PointRecord {
    /// Which value of each axis it has.
    pub(crate) point: Vec<usize>,
    /// Its seed.
    pub(crate) seed: u64,
    /// Its numbers; none of what it does not have.
    pub(crate) values: Vec<Option<f64>>,
}

/// A published figure at a point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PublishedRecord {
    /// Which value of each axis it has.
    pub(crate) point: Vec<usize>,
    /// The figure beside the mean of the point's seeds.
    #[serde(flatten)]
    pub(crate) beside: Beside,
}

impl SweepRecord {
    /// The mean over the seeds of one number at a point, with its least and its most; none where no
    /// seed has it.
    pub(crate) fn spread(&self, number: &str, point: &[usize]) -> Option<Spread> {
        let at = self.numbers.iter().position(|one| one.name == number)?;
        let rows = self.rows.iter().filter(|row| row.point == point);
        let values: Vec<f64> = rows.filter_map(|row| row.values[at]).collect();
        (!values.is_empty()).then(|| Spread {
            mean: afflux_core::summary::mean(&values),
            deviation: afflux_core::summary::deviation(&values),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// All points in their order.
    pub(crate) fn points(&self) -> Vec<&[usize]> {
        let seeds = self.seeds.max(1) as usize;
        self.rows.iter().step_by(seeds).map(|row| row.point.as_slice()).collect()
    }

    /// The unit of a number.
    pub(crate) fn unit(&self, number: &str) -> &str {
        self.number(number).map_or("", |one| one.unit.as_str())
    }

    /// What a number is; its name where nobody says.
    pub(crate) fn about<'a>(&'a self, number: &'a str) -> &'a str {
        self.number(number).map_or(number, |one| one.about.as_str())
    }

    fn number(&self, name: &str) -> Option<&NumberRecord> {
        self.numbers.iter().find(|one| one.name == name)
    }
}

/// A number over some seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Its mean.
    pub(crate) mean: f64,
    /// Its standard deviation.
    pub(crate) deviation: f64,
    /// Its least value.
    pub(crate) least: f64,
    /// Its greatest value.
    pub(crate) most: f64,
}
