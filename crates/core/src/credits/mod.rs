//! Credits: a server says how many requests each client may have in flight, so that the time in its
//! queue stays under a bound.
//!
//! Source: Qian et al., Dynamic I/O Congestion Control in Scalable Lustre File System ("the credits
//! paper"), section III. What is not from there is an option that is off unless asked for.
//!
//! | module | subject |
//! |---|---|
//! | [`ledger`] | the server's side: depth, active clients, rate, and what each reply grants |
//! | [`rate`] | completions by busy time |
//! | [`import`] | the client's side: used, granted, asked for, stale |
//! | [`shares`] | weights and caps of tenants |
//! | [`queue`] | a queue that contains clients: lines of their own, served in turns |
//! | [`timeout`] | after how long a client may give up |
//!
//! ```
//! use afflux_core::credits::{Options, ledger::{Ledger, Seat}};
//! use afflux_core::units::{Span, Time};
//!
//! let options: Options = "L_max=200ms,D_low=4".parse().unwrap();
//! let mut ledger = Ledger::new(&options, 128);
//! let at = |millis| Time::ZERO + Span::from_millis(millis);
//! let seat = ledger.arrival(Seat::NONE, 0, at(0));
//! assert_eq!(ledger.reply(seat, 20, at(0), at(10)), 20);
//! assert!("L_max=200ms,RCC_min=9,RCC_max=8".parse::<Options>().is_err());
//! ```

pub mod import;
pub mod ledger;
pub mod queue;
pub mod rate;
pub mod shares;
pub mod timeout;

use std::str::FromStr;

use crate::parameters::{Named, Parameter, ParameterError, Parameters};
use crate::units::Span;

use shares::Shares;

/// What a server's credits are set to. Written as `L_max=200ms,RCC_max=32,...`; the names are the
/// paper's, the defaults those of its section IV where it gives any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `L_max`: the bound on the time from arrival to reply.
    pub latency_max: Span,
    /// `D_low`: below so many requests at the server a client gets what it asks for; `None` takes
    /// the number of service threads, or half of `D_max` where that is less.
    pub low_depth: Option<u32>,
    /// `RCC_min`: what a client may always have in flight; at least 1.
    pub credits_min: u32,
    /// `RCC_max`: what it never has more than.
    pub credits_max: u32,
    /// `STL`: silence after which a client is no longer counted.
    pub silence: Span,
    /// How often the ledger looks whether a client is silent: the paper's ping.
    pub ping: Span,
    /// Busy time over which the rate is averaged.
    pub window: Span,
    /// What of the latencies is to stay under the bound.
    pub bound: BoundOn,
    /// Whether parts of a credit are granted in turns instead of rounded down. Not from the paper.
    pub fractions: bool,
    /// Weights of tenants. Not from the paper.
    pub shares: Shares,
    /// Requests of one client that a server queues, served in turns with other clients; the rest
    /// waits outside. `None` queues all in order of arrival, as the paper does.
    pub contain: Option<u32>,
}

/// What of the latencies is to stay under the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundOn {
    /// Their mean, as in the paper.
    Mean,
    /// A percentile, in thousandths: 990 is the 99th. Not from the paper.
    Percentile(u16),
}

/// What may be set, for help and errors.
pub static PARAMETERS: &[Parameter] = &[
    Parameter { name: "L_max", default: "0s", about: "bound on the time from arrival to reply" },
    Parameter {
        name: "D_low",
        default: "threads",
        about: "requests at the server below which clients get what they ask for; threads count \
                up to half of D_max",
    },
    Parameter { name: "RCC_min", default: "1", about: "least credits of a client" },
    Parameter { name: "RCC_max", default: "32", about: "most credits of a client" },
    Parameter { name: "STL", default: "60s", about: "silence after which a client is not counted" },
    Parameter { name: "ping", default: "25s", about: "how often silence is looked for" },
    Parameter { name: "window", default: "5s", about: "busy time over which the rate is averaged" },
    Parameter { name: "bound", default: "mean", about: "what is bounded: mean, or p50 to p99.9" },
    Parameter { name: "fractions", default: "off", about: "grant parts of a credit in turns" },
    Parameter { name: "shares", default: "none", about: "weights of tenants 1, 2, ..., as in 3:1" },
    Parameter {
        name: "caps",
        default: "none",
        about: "most bytes a second of tenants 1, 2, ..., as in 50MB/s:none",
    },
    Parameter {
        name: "contain",
        default: "off",
        about: "requests of one client in the queue, served in turns",
    },
];

const NAMED: Named = Named { kind: "option", name: "credits", parameters: PARAMETERS };

/// Credits that cannot be granted as they are written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreditsError {
    /// A name or a value is wrong.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// There is no bound.
    #[error("credits keep a bound, and none is given: begin with it, as in L_max=200ms")]
    NoBound,
    /// Two values contradict each other, or one makes no sense.
    #[error("credits: {what}: {remedy}")]
    Contradiction {
        /// What does not go together.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
}

impl CreditsError {
    pub(crate) fn contradiction(what: impl Into<String>, remedy: &'static str) -> Self {
        Self::Contradiction { what: what.into(), remedy }
    }
}

impl Options {
    /// The paper's defaults under the bound `latency_max`.
    pub fn new(latency_max: Span) -> Self {
        Self {
            latency_max,
            low_depth: None,
            credits_min: 1,
            credits_max: 32,
            silence: Span::from_secs(60),
            ping: Span::from_secs(25),
            window: Span::from_secs(5),
            bound: BoundOn::Mean,
            fractions: false,
            shares: Shares::default(),
            contain: None,
        }
    }

    /// Whether a server keeps a line for each client instead of one for all.
    pub fn keeps_lines(&self) -> bool {
        self.contain.is_some() || !self.shares.is_empty()
    }

    fn check(&self) -> Result<(), CreditsError> {
        let Self { credits_min, credits_max, contain, .. } = *self;
        if credits_min > credits_max {
            return Err(CreditsError::contradiction(
                format!("RCC_min={credits_min} is above RCC_max={credits_max}"),
                "lower RCC_min or raise RCC_max",
            ));
        }
        if let Some(queued) = contain.filter(|&queued| queued < credits_max) {
            return Err(CreditsError::contradiction(
                format!("contain={queued} would hold back clients that have RCC_max={credits_max}"),
                "raise contain to RCC_max at least, or lower RCC_max",
            ));
        }
        Ok(())
    }
}

impl FromStr for Options {
    type Err = CreditsError;

    fn from_str(text: &str) -> Result<Self, CreditsError> {
        let given = Parameters::parse(NAMED, text)?;
        let (short, long) = (Span::from_micros(1), Span::from_secs(3_600));
        if given.text("L_max") == "0s" {
            return Err(CreditsError::NoBound);
        }
        let count = |name| given.count(name, 1, 65_535).map(|count| count as u32);
        let options = Self {
            latency_max: given.span("L_max", short, long)?,
            low_depth: match given.text("D_low") {
                "threads" => None,
                _ => Some(given.count("D_low", 0, u64::from(u32::MAX))? as u32),
            },
            credits_min: count("RCC_min")?,
            credits_max: count("RCC_max")?,
            silence: given.span("STL", Span::from_millis(1), Span::from_secs(1 << 30))?,
            ping: given.span("ping", Span::from_millis(1), Span::from_secs(1 << 30))?,
            window: given.span("window", Span::from_millis(1), long)?,
            bound: bound_on(&given)?,
            fractions: given.switch("fractions")?,
            shares: Shares::parse(given.text("shares"), given.text("caps"))?,
            contain: match given.text("contain") {
                "off" => None,
                _ => Some(count("contain")?),
            },
        };
        options.check()?;
        Ok(options)
    }
}

fn bound_on(given: &Parameters) -> Result<BoundOn, CreditsError> {
    let text = given.text("bound");
    let number = text.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(number) if (50.0..=99.9).contains(&number) => {
            Ok(BoundOn::Percentile((number * 10.0 + 0.5) as u16))
        }
        None if text == "mean" => Ok(BoundOn::Mean),
        _ => Err(CreditsError::contradiction(
            format!("bound={text} is no bound"),
            "write bound=mean, or a percentile from p50 to p99.9",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_told_with_a_remedy() {
        let options: Options = "200ms,RCC_max=64,bound=p99,D_low=7,contain=64".parse().unwrap();
        assert_eq!(options.latency_max, Span::from_millis(200));
        assert_eq!((options.credits_max, options.low_depth), (64, Some(7)));
        assert_eq!((options.bound, options.contain), (BoundOn::Percentile(990), Some(64)));
        assert_eq!("L_max=60s".parse(), Ok(Options::new(Span::from_secs(60))));
        for (wrong, said) in [
            ("RCC_max=8", "begin with it, as in L_max=200ms"),
            ("L_max=1s,RCC_min=9,RCC_max=8", "lower RCC_min or raise RCC_max"),
            ("L_max=1s,RCC_min=0", "from 1 to 65535"),
            ("L_max=1s,contain=8", "raise contain to RCC_max"),
            ("L_max=1s,bound=p100", "from p50 to p99.9"),
            ("L_max=1s,shares=3:0", "weight"),
            ("L_max=1s,latency=3", "no parameter `latency`"),
        ] {
            let error = wrong.parse::<Options>().unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
