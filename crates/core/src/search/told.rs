//! What a strategy is told about a trial.

use serde::{Deserialize, Serialize};

use super::Trial;
use crate::indicator::{COUNT, Signals};
use crate::measure::{HitCounters, Measurement};
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
    /// The median of each indicator for each rule, in the indicators' units; none for a rule that
    /// was never used. Empty unless the trial wants them, see [`Trial::medians`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub medians: Vec<Option<Signals>>,
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
            hits: counted(measurement).hits(),
            medians: Vec::new(),
            fair_gap_ns: measurement.fair_gap().map(Span::as_nanos),
        }
    }
}

impl Trial {
    /// What it showed, with the medians of its hits if they are wanted.
    pub fn outcome(&self, score: f64, measurement: &Measurement) -> Outcome {
        let outcome = Outcome::of(score, measurement);
        match self.medians {
            true => Outcome { medians: counted(measurement).medians(), ..outcome },
            false => outcome,
        }
    }
}

/// What each rule saw over all clients and classes.
fn counted(measurement: &Measurement) -> HitCounters {
    let mut all = HitCounters::default();
    measurement.rule_hits().iter().for_each(|counters| all.merge(counters));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ClientMeasurement;
    use crate::search::desk::Desk;
    use crate::search::{Candidate, Setup};

    /// A client on whose two paths so many replies came, some of which met rules.
    fn client(met: &[(u32, u64)], replies: u64) -> ClientMeasurement {
        let mut client = ClientMeasurement { data_paths: 2, ..Default::default() };
        for &(rule, ack) in met {
            client.rule_hits[1].count(rule, &[ack, 2 * ack, 1_000]);
        }
        (0..replies).for_each(|_| client.process_time[1].record(Span::from_millis(3)));
        client
    }

    #[test]
    fn hits_of_all_clients_are_weighted_by_their_counts() {
        let met = [(0, 10), (0, 10), (0, 10)];
        let clients = vec![client(&met, 300), client(&[(0, 15), (1, 7), (1, 7)], 100)];
        let measurement = Measurement { counted_secs: 4.0, clients };
        let outcome = Outcome::of(5.0, &measurement);
        // (3 * 10 + 15) / 4 = 11.25 and twice that 22.5, both rounded down.
        assert_eq!(outcome.hits[0], Hits { count: 4, means: [11, 22, 1_000] });
        assert_eq!(outcome.hits[1], Hits { count: 2, means: [7, 14, 1_000] });
        // Four paths share 400 replies in 4 s: one reply in 40 ms on each.
        assert_eq!(outcome.fair_gap_ns, Some(40_000_000));
        let nothing = Outcome::of(0.0, &Measurement::default());
        assert_eq!((nothing.hits.len(), nothing.fair_gap_ns), (0, None));
    }

    #[test]
    fn medians_are_told_where_they_are_wanted() {
        let clients = [10, 12, 40].map(|ack| client(&[(2, ack)], 3)).to_vec();
        let measurement = Measurement { counted_secs: 4.0, clients };
        let mut desk = Desk::new(&Setup::new(1), 0);
        for medians in [false, true] {
            let mut trial = desk.post(&Candidate::setting("none"), 0, 1.0, ()).clone();
            trial.medians = medians;
            let told = trial.outcome(7.0, &measurement);
            let expected =
                if medians { vec![None, None, Some([12, 24, 1_000])] } else { Vec::new() };
            assert_eq!(told.medians, expected);
            assert_eq!(Outcome { medians: Vec::new(), ..told }, Outcome::of(7.0, &measurement));
        }
    }

    #[test]
    fn a_tell_reads_back_from_a_journal() {
        let hits = vec![Hits { count: 3, means: [1, 2, 3] }, Hits::default()];
        let outcome = Outcome { score: 0.1, hits, fair_gap_ns: Some(7), ..Outcome::default() };
        let medians = vec![Some([4, 5, 6]), None];
        let with_medians = Told::Outcome(Outcome { medians, ..outcome.clone() });
        let line = serde_json::to_string(&with_medians).unwrap();
        assert!(line.contains(r#""hits":[[3,1,2,3],[0]],"medians":[[4,5,6],null]"#), "{line}");
        assert_eq!(serde_json::from_str::<Told>(&line).unwrap(), with_medians);
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
            medians: Vec::new(),
            fair_gap_ns: Some(45_678_901),
        };
        let bytes =
            |outcome: Outcome| serde_json::to_string(&Told::Outcome(outcome)).unwrap().len();
        let medians = vec![Some(busy.means); 29];
        let with_medians = bytes(Outcome { medians, ..outcome.clone() });
        let without = bytes(outcome);
        assert!(without < 1_100 && with_medians < 2_000, "{without} {with_medians}");
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
