//! Work conservation: whether those who stay take up what those who left no longer use.
//!
//! Twelve people share a well, each with a bucket cut to a twelfth of what it gives. When five go
//! home the well gives as much as before, but seven small buckets leave most of it in the ground.
//! Rules can be such buckets: a gap in absolute time, or turns of clients that are gone. The check
//! compares what the system gives to those who stayed with what as many clients can get from it.
//!
//! ```
//! use afflux_core::conserve::{Departure, Finding};
//!
//! // Twelve clients had 240 MB/s; the seven who stayed get 140, and seven alone could have 235.
//! let run = Departure { clients: 12, stay: 7, before: 240.0, after: 140.0, possible: 235.0 };
//! let finding = Finding::of(&[run]);
//! assert!(finding.holds_back(0.1));
//! assert_eq!(finding.to_string(), "holds back 40.4 %, took up 0 % of what was left");
//! ```

use std::fmt;

use crate::summary::{deviation, mean};

/// What was measured around a departure, in one run. Throughputs are of all clients together, in
/// any unit, the same for all three.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Departure {
    /// Clients at first.
    pub clients: u32,
    /// Clients that stay.
    pub stay: u32,
    /// Throughput while all were there.
    pub before: f64,
    /// Throughput of those who stay, after the others left and the controllers had time to notice.
    pub after: f64,
    /// What as many clients as stay can get: the most that was seen of them under any setting.
    pub possible: f64,
}

impl Departure {
    /// The part of what is possible that those who stay do not get; negative when they get more.
    pub fn held_back(&self) -> f64 {
        if self.possible > 0.0 { 1.0 - self.after / self.possible } else { 0.0 }
    }

    /// Of what was left to take up, the part that was: 0 when each who stays has no more than
    /// before, 1 when together they get all that is possible. `None` when nothing was left.
    pub fn taken_up(&self) -> Option<f64> {
        let kept = self.before * f64::from(self.stay) / f64::from(self.clients.max(1));
        let left = self.possible - kept;
        // A twentieth is within what two runs differ by, and a ratio to it would be noise.
        (left > self.possible / 20.0).then(|| ((self.after - kept) / left).clamp(0.0, 1.0))
    }
}

/// What several runs say about one setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Finding {
    /// Mean part that is held back.
    pub held_back: f64,
    /// Standard error of that mean; zero with a single run, which cannot tell.
    pub standard_error: f64,
    /// Mean part that was taken up, over the runs in which there was something to take.
    pub taken_up: Option<f64>,
}

impl Finding {
    /// Sums up runs with different seeds. Without runs, nothing is held back.
    pub fn of(runs: &[Departure]) -> Self {
        let held_back: Vec<f64> = runs.iter().map(Departure::held_back).collect();
        let taken_up: Vec<f64> = runs.iter().filter_map(Departure::taken_up).collect();
        let standard_error = match runs.len() {
            0 | 1 => 0.0,
            // `deviation` is that of a population; n - 1 makes it an estimate from a sample.
            n => deviation(&held_back) / ((n - 1) as f64).sqrt(),
        };
        let taken_up = (!taken_up.is_empty()).then(|| mean(&taken_up));
        Self { held_back: mean(&held_back), standard_error, taken_up }
    }

    /// Whether the setting holds the system back by more than `tolerance` (0.1 is a tenth), by more
    /// than the runs leave in doubt.
    pub fn holds_back(&self, tolerance: f64) -> bool {
        self.held_back - 2.0 * self.standard_error > tolerance
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "holds back {:.1} %", self.held_back * 100.0)?;
        if self.standard_error > 0.0 {
            write!(f, " (± {:.1})", self.standard_error * 200.0)?;
        }
        match self.taken_up {
            Some(part) => write!(f, ", took up {:.0} % of what was left", part * 100.0),
            None => f.write_str(", nothing was left to take up"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(before: f64, after: f64, possible: f64) -> Departure {
        Departure { clients: 12, stay: 7, before, after, possible }
    }

    #[test]
    fn who_takes_up_everything_holds_nothing_back() {
        let finding = Finding::of(&[run(120.0, 118.0, 118.0), run(120.0, 121.0, 119.0)]);
        assert!(!finding.holds_back(0.0), "{finding}");
        assert_eq!(finding.taken_up, Some(1.0));
    }

    #[test]
    fn a_share_cut_for_twelve_takes_up_nothing() {
        let finding = Finding::of(&[run(120.0, 70.0, 120.0)]);
        assert!((finding.held_back - 5.0 / 12.0).abs() < 1e-12);
        assert_eq!(finding.taken_up, Some(0.0));
        assert!(finding.holds_back(0.4) && !finding.holds_back(0.42));
    }

    #[test]
    fn runs_that_disagree_prove_nothing() {
        let doubtful = [run(120.0, 120.0, 120.0), run(120.0, 60.0, 120.0)];
        let finding = Finding::of(&doubtful);
        assert_eq!((finding.held_back, finding.standard_error), (0.25, 0.25));
        assert!(!finding.holds_back(0.1));
        let sure: Vec<_> = doubtful.iter().cycle().take(40).copied().collect();
        assert!(Finding::of(&sure).holds_back(0.1));
    }

    #[test]
    fn when_seven_cannot_use_more_nothing_is_left() {
        // Each client is at its own limit, so that fewer of them move less and none is to blame.
        let finding = Finding::of(&[run(120.0, 70.0, 70.0)]);
        assert_eq!((finding.held_back, finding.taken_up), (0.0, None));
        assert!(finding.to_string().ends_with("nothing was left to take up"));
        assert_eq!(Finding::of(&[]), Finding::default());
        assert_eq!(run(0.0, 0.0, 0.0).held_back(), 0.0);
    }
}
