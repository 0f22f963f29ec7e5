//! What a strategy is told about a trial.

use serde::{Deserialize, Serialize};

use crate::indicator::COUNT;
use crate::measure::Measurement;
use crate::rules::Hits;
use crate::summary::Summary;
use crate::units::Span;

/// What a trial showed. It is what a driver's journal keeps of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Told {
    /// It was measured and scored. A score that is not finite counts as a fault.
    Outcome(Outcome),
    /// All that is known is what it cost, such as the run time of a user's own program; less is
    /// better. It counts as a score of minus the cost, and no rule was seen to match.
    Cost(f64),
    /// It failed, with the reason.
    Fault(String),
}

/// A trial that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// As the objective gives it; more is better.
    pub score: f64,
    /// Throughput of all clients together in MB/s, the mean over the seconds of the run.
    pub speed_mb_s: f64,
    /// Its standard deviation over the seconds of the run. Zero where seconds are not alike by
    /// nature, as in bursts, since a trial whose seconds differ much is run again.
    pub speed_deviation_mb_s: f64,
    /// What each rule of the candidate saw, over all paths; empty without rules. In JSON a rule is
    /// `[count, means...]`, the means in the units of the indicators, and `[0]` when never used.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "short_hits")]
    pub hits: Vec<Hits>,
    /// The mean time between two replies on a path, in nanoseconds: the fair share of a path at
    /// this speed. Absent when nothing was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_gap_ns: Option<u64>,
}

/// Hits in JSON without the names of their fields, since a journal has those of every rule in
/// every trial.
mod short_hits {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::{COUNT, Hits};

    pub(super) fn serialize<S: Serializer>(
        hits: &[Hits],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(hits.iter().map(|hits| match hits.count {
            0 => vec![0],
            count => [count].into_iter().chain(hits.means).collect(),
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Hits>, D::Error> {
        let rules: Vec<Vec<u64>> = Vec::deserialize(from)?;
        let hits = rules.into_iter().map(|numbers| match &numbers[..] {
            [0] => Ok(Hits::default()),
            [count, means @ ..] if means.len() == COUNT => {
                Ok(Hits { count: *count, means: std::array::from_fn(|axis| means[axis]) })
            }
            _ => Err(D::Error::custom(format!("the hits of a rule are 0, or 1 + {COUNT} numbers"))),
        });
        hits.collect()
    }
}

impl Told {
    /// What it showed, or why it failed.
    pub(super) fn outcome(self) -> Result<Outcome, String> {
        let outcome = match self {
            Self::Outcome(outcome) => outcome,
            Self::Cost(cost) => Outcome { score: -cost, ..Outcome::default() },
            Self::Fault(why) => return Err(why),
        };
        match outcome.score.is_finite() {
            true => Ok(outcome),
            false => Err(format!("its score is {}, which no other compares with", outcome.score)),
        }
    }
}

impl Outcome {
    /// The outcome of a measurement that an objective gives `score`.
    pub fn of(score: f64, measurement: &Measurement) -> Self {
        let summary = Summary::of(measurement);
        Self {
            score,
            speed_mb_s: summary.total_mb_s,
            speed_deviation_mb_s: summary.total_deviation_mb_s,
            hits: merged(measurement),
            fair_gap_ns: measurement.fair_gap().map(Span::as_nanos),
        }
    }
}

/// What each rule saw over all clients and classes: counts add up, means are weighted by them and
/// rounded down, as the original's merging has it.
fn merged(measurement: &Measurement) -> Vec<Hits> {
    let mut sums: Vec<(u64, [u128; COUNT])> = Vec::new();
    for seen in measurement.clients.iter().flat_map(|client| &client.rule_hits) {
        if sums.len() < seen.len() {
            sums.resize(seen.len(), (0, [0; COUNT]));
        }
        for ((count, totals), hits) in sums.iter_mut().zip(seen) {
            *count = count.saturating_add(hits.count);
            for (total, &mean) in totals.iter_mut().zip(&hits.means) {
                *total += u128::from(mean) * u128::from(hits.count);
            }
        }
    }
    let hits = sums.into_iter().map(|(count, totals)| Hits {
        count,
        // A mean is never greater than the greatest of what it is the mean of, so it fits.
        means: totals.map(|total| (total / u128::from(count.max(1))) as u64),
    });
    hits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ClientMeasurement;

    fn client(hits: &[Hits], replies: u64) -> ClientMeasurement {
        let mut client = ClientMeasurement { data_paths: 2, ..Default::default() };
        client.rule_hits[1] = hits.to_vec();
        (0..replies).for_each(|_| client.process_time[1].record(Span::from_millis(3)));
        client
    }

    #[test]
    fn hits_of_all_clients_are_weighted_by_their_counts() {
        let hits = |count, mean| Hits { count, means: [mean, 2 * mean, 1_000] };
        let clients = vec![client(&[hits(3, 10)], 300), client(&[hits(1, 15), hits(2, 7)], 100)];
        let outcome = Outcome::of(5.0, &Measurement { counted_secs: 4.0, clients });
        // (3 * 10 + 15) / 4 = 11.25 and twice that 22.5, both rounded down.
        assert_eq!(outcome.hits[0], Hits { count: 4, means: [11, 22, 1_000] });
        assert_eq!(outcome.hits[1], hits(2, 7));
        // Four paths share 400 replies in 4 s: one reply in 40 ms on each.
        assert_eq!(outcome.fair_gap_ns, Some(40_000_000));
        let nothing = Outcome::of(0.0, &Measurement::default());
        assert_eq!((nothing.hits.len(), nothing.fair_gap_ns), (0, None));
    }

    #[test]
    fn a_tell_reads_back_from_a_journal() {
        let hits = vec![Hits { count: 3, means: [1, 2, 3] }, Hits::default()];
        let outcome = Outcome { score: 0.1, hits, fair_gap_ns: Some(7), ..Outcome::default() };
        for told in [Told::Outcome(outcome), Told::Cost(3.5), Told::Fault("gone".to_owned())] {
            let line = serde_json::to_string(&told).unwrap();
            assert_eq!(serde_json::from_str::<Told>(&line).unwrap(), told, "{line}");
            assert!(!line.contains("hits") || line.contains("[[3,1,2,3],[0]]"), "{line}");
        }
        assert!(
            serde_json::from_str::<Outcome>(
                r#"{"score":1,"speed_mb_s":1,"speed_deviation_mb_s":0,"hits":[[1,2]]}"#
            )
            .is_err()
        );
    }

    #[test]
    fn the_tells_of_29_busy_rules_take_little_of_a_journal() {
        let busy = Hits { count: 54_321, means: [45_678_901, 45_678_901, 3_250] };
        let outcome = Outcome {
            score: 123.456_789_012_345_6,
            speed_mb_s: 123.456_789_012_345_6,
            speed_deviation_mb_s: 3.456_789_012_345_6,
            hits: vec![busy; 29],
            fair_gap_ns: Some(45_678_901),
        };
        let line = serde_json::to_string(&Told::Outcome(outcome)).unwrap();
        assert!(line.len() < 1_100, "{}", line.len());
    }

    proptest::proptest! {
        #[test]
        fn scores_read_back_to_the_last_digit(score in proptest::num::f64::NORMAL) {
            let told = Told::Outcome(Outcome { score, ..Outcome::default() });
            let line = serde_json::to_string(&told).unwrap();
            proptest::prop_assert_eq!(serde_json::from_str::<Told>(&line).unwrap(), told);
        }
    }
}
