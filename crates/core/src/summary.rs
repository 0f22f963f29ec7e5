//! Summaries: the numbers by which one trial is compared with another.
//!
//! Source: ASCAR, section III-E. `throughput(c, t)` is what client `c` moved in second `t`; `tp` is
//! its mean and `var` its standard deviation over clients and seconds.

use serde::{Deserialize, Serialize};

use crate::class::Class;
use crate::limits::HoldReason;
use crate::measure::{Latencies, Measurement};
use crate::path::HoldTotals;

/// The numbers of one trial. Throughputs are in MB/s (10^6 bytes), times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// All clients together.
    pub total_mb_s: f64,
    /// `tp`: mean over clients and seconds.
    pub tp_mb_s: f64,
    /// `var`: standard deviation over clients and seconds.
    pub var_mb_s: f64,
    /// Standard deviation between the clients' means.
    pub between_mb_s: f64,
    /// Standard deviation within a client over its seconds, averaged over the clients.
    pub within_mb_s: f64,
    /// Standard deviation of the total over the seconds.
    pub total_deviation_mb_s: f64,
    /// Bytes by the time in which the clients had something under way: the speed of bursts.
    pub burst_mb_s: f64,
    /// Operations of the application a second, all clients together.
    pub operations_s: f64,
    /// Median process time of reads and writes.
    pub p50_ms: f64,
    /// Their 95th percentile.
    pub p95_ms: f64,
    /// Their 99th percentile.
    pub p99_ms: f64,
    /// Process times by class: median and 99th percentile.
    pub by_class_ms: [[f64; 2]; Class::ALL.len()],
    /// 99th percentile of the application's operations.
    pub operation_p99_ms: f64,
    /// Mean time that a device worked on a request; zero when servers do not tell.
    pub access_ms: f64,
    /// Mean time that a request waited at a server; zero when servers do not tell.
    pub queue_ms: f64,
    /// Jain's index of the clients' throughputs: 1 when all got the same.
    pub jain: f64,
    /// Mean throughput of the client that got least.
    pub least_mb_s: f64,
    /// Geometric mean of the clients' throughputs; zero when one got nothing.
    pub geometric_mb_s: f64,
    /// Their harmonic mean; zero when one got nothing.
    pub harmonic_mb_s: f64,
    /// Seconds that paths were held, by reason, summed over all paths.
    pub held_secs: [f64; HoldReason::ALL.len()],
    /// Requests that ended without an answer.
    pub faults: u64,
}

impl Summary {
    /// Summarizes a measurement. Without clients or seconds, all is zero.
    pub fn of(measurement: &Measurement) -> Self {
        let clients = &measurement.clients;
        let rows: Vec<Vec<f64>> = clients
            .iter()
            .map(|client| client.seconds.iter().map(|[r, w]| (r + w) as f64 / 1e6).collect())
            .collect();
        let cells: Vec<f64> = rows.iter().flatten().copied().collect();
        let means: Vec<f64> = rows.iter().map(|row| mean(row)).collect();
        let deviations: Vec<f64> = rows.iter().map(|row| deviation(row)).collect();
        let seconds = rows.first().map_or(0, Vec::len);
        let totals: Vec<f64> =
            (0..seconds).map(|second| rows.iter().map(|row| row[second]).sum()).collect();
        let mut summary = Self {
            total_mb_s: mean(&totals),
            tp_mb_s: mean(&cells),
            var_mb_s: deviation(&cells),
            between_mb_s: deviation(&means),
            within_mb_s: mean(&deviations),
            total_deviation_mb_s: deviation(&totals),
            jain: jain(&means),
            least_mb_s: means.iter().copied().reduce(f64::min).unwrap_or_default(),
            geometric_mb_s: geometric(&means),
            harmonic_mb_s: harmonic(&means),
            ..Self::default()
        };
        let active: f64 = clients.iter().map(|client| client.active_secs).sum();
        if active > 0.0 {
            summary.burst_mb_s = cells.iter().sum::<f64>() / active * clients.len() as f64;
        }
        summary.take_times(measurement);
        summary
    }

    fn take_times(&mut self, measurement: &Measurement) {
        let (mut data, mut operations) = (Latencies::default(), Latencies::default());
        let (mut access, mut queue) = (Latencies::default(), Latencies::default());
        let mut by_class: [Latencies; Class::ALL.len()] = Default::default();
        let mut holds = HoldTotals::default();
        for client in &measurement.clients {
            for class in Class::ALL {
                by_class[class.index()].add(&client.process_time[class.index()]);
                holds.add(&client.holds[class.index()]);
            }
            data.add(&client.process_time[Class::Read.index()]);
            data.add(&client.process_time[Class::Write.index()]);
            operations.add(&client.operation_time);
            access.add(&client.access_time);
            queue.add(&client.queue_time);
            self.faults += client.faults;
            self.operations_s += client.operations as f64 / measurement.counted_secs.max(1e-9);
        }
        let quantile = |times: &Latencies, quantile: f64| times.quantile(quantile).as_millis_f64();
        self.p50_ms = quantile(&data, 0.5);
        self.p95_ms = quantile(&data, 0.95);
        self.p99_ms = quantile(&data, 0.99);
        self.by_class_ms =
            std::array::from_fn(|at| [quantile(&by_class[at], 0.5), quantile(&by_class[at], 0.99)]);
        self.operation_p99_ms = quantile(&operations, 0.99);
        self.access_ms = access.mean().as_millis_f64();
        self.queue_ms = queue.mean().as_millis_f64();
        self.held_secs = std::array::from_fn(|at| holds.held_nanos[at] as f64 / 1e9);
    }
}

/// The mean; zero of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The value in the middle, of an even number the greater of the two; zero of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The standard deviation of the whole population, as the papers use it; zero of nothing.
pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    if values.is_empty() { 0.0 } else { (squares / values.len() as f64).sqrt() }
}

/// The geometric mean of values from zero up; zero of nothing, or when one of them is zero.
pub fn geometric(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|&value| libm::log(value)).collect();
    if values.is_empty() { 0.0 } else { libm::exp(mean(&logs)) }
}

/// The harmonic mean of values from zero up; zero of nothing, or when one of them is zero.
pub fn harmonic(values: &[f64]) -> f64 {
    let inverses: Vec<f64> = values.iter().map(|value| 1.0 / value).collect();
    if values.is_empty() { 0.0 } else { 1.0 / mean(&inverses) }
}

/// Jain's fairness index: `(sum x)^2 / (n * sum x^2)`; 1 of nothing or of zeros.
pub fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ClientMeasurement;

    #[test]
    fn deviations_are_told_apart() {
        let client = |seconds: &[u64]| ClientMeasurement {
            seconds: seconds.iter().map(|mb| [mb * 1_000_000, 0]).collect(),
            active_secs: 1.0,
            ..Default::default()
        };
        let measurement =
            Measurement { counted_secs: 2.0, clients: vec![client(&[10, 30]), client(&[20, 20])] };
        let summary = Summary::of(&measurement);
        assert_eq!(summary.total_mb_s, 40.0);
        assert_eq!(summary.tp_mb_s, 20.0);
        assert_eq!((summary.between_mb_s, summary.within_mb_s), (0.0, 5.0));
        assert!((summary.var_mb_s - 50.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!((summary.jain, summary.total_deviation_mb_s), (1.0, 10.0));
        assert_eq!(summary.burst_mb_s, 80.0);
        assert_eq!((summary.least_mb_s, summary.harmonic_mb_s), (20.0, 20.0));
        assert_eq!(Summary::of(&Measurement::default()).total_mb_s, 0.0);
    }

    #[test]
    fn means_lean_to_the_least_and_know_zero() {
        let values = [1.0, 4.0, 16.0];
        assert!((geometric(&values) - 4.0).abs() < 1e-12);
        assert!((harmonic(&values) - 48.0 / 21.0).abs() < 1e-12);
        for mean in [geometric, harmonic] {
            assert_eq!((mean(&[]), mean(&[0.0, 5.0]), mean(&[0.0])), (0.0, 0.0, 0.0));
        }
    }
}
