//! `fault:OPTIONS@ENGINE`: with seeded probability, requests are delayed, their answers are lost,
//! or they fail before they are done.
//!
//! Each server has dice of its own, so that what befalls a request depends on the seed, on the
//! client, and on how many this client submitted to the server before it, and on nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use afflux_core::parameters::{Named, Parameter, ParameterError, Parameters};
use afflux_core::rng::Rng;
use afflux_core::units::{Span, Time};

use super::relay::{Manner, Next, Relay};
use super::{WrapError, Wrapper, WrapperEntry};
use crate::engine::{Engine, Place, Request};

pub(super) const ENTRY: WrapperEntry = WrapperEntry {
    name: "fault",
    about: "some requests are late, lose their answer, or fail",
    grammar: "fault:OPTIONS@ENGINE, as in fault:seed=7,delay=50ms,delays=0.1,lose=0.01,fail=0.02,\
        server=1@lab",
    read: |options| Ok(Arc::new(Fault::parse(options)?)),
};

const NAMED: Named = Named {
    kind: "wrapper",
    name: "fault",
    parameters: &[
        Parameter { name: "seed", default: "1", about: "seed of its choices" },
        Parameter { name: "delay", default: "0ms", about: "how long a late request is held" },
        Parameter { name: "delays", default: "0", about: "which part of the requests is late" },
        Parameter { name: "lose", default: "0", about: "which part is done without an answer" },
        Parameter { name: "fail", default: "0", about: "which part fails before it is done" },
        Parameter {
            name: "patience",
            default: "30s",
            about: "after how long a request without a deadline is given up",
        },
        Parameter {
            name: "server",
            default: "all",
            about: "the one storage server that it befalls, counted from zero",
        },
    ],
};

const MOST_TIME: Span = Span::from_secs(3_600);

/// What may befall requests.
#[derive(Debug)]
struct Fault {
    odds: Odds,
    seed: u64,
    clients: AtomicU32,
}

/// How likely is what. Probabilities are in 2^-53.
#[derive(Clone, Copy, Debug)]
struct Odds {
    delay: Span,
    delays: u64,
    lose: u64,
    fail: u64,
    patience: Span,
    server: Option<u32>,
}

/// One in the unit of [`Odds`].
const CERTAIN: f64 = (1_u64 << 53) as f64;

impl Fault {
    fn parse(options: &str) -> Result<Self, ParameterError> {
        let parameters = Parameters::parse(NAMED, options)?;
        let part = |name| Ok((parameters.number(name, 0.0, 1.0)? * CERTAIN) as u64);
        let server = match parameters.text("server") {
            "all" => None,
            _ => Some(parameters.count("server", 0, u64::from(u32::MAX))? as u32),
        };
        let odds = Odds {
            delay: parameters.span("delay", Span::ZERO, MOST_TIME)?,
            delays: part("delays")?,
            lose: part("lose")?,
            fail: part("fail")?,
            patience: parameters.span("patience", Span::from_millis(1), MOST_TIME)?,
            server,
        };
        let seed = parameters.count("seed", 0, u64::MAX)?;
        Ok(Self { odds, seed, clients: AtomicU32::new(0) })
    }
}

impl Wrapper for Fault {
    fn around(&self, inner: Arc<dyn Engine>) -> Result<Arc<dyn Engine>, WrapError> {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        let seeded = Rng::new(self.seed).fork(&format!("client {client}"));
        Ok(Arc::new(Relay::start(NAMED.name, inner, Box::new(Fates::new(self.odds, seeded)))?))
    }
}

/// What befalls the requests that are held.
#[derive(Debug)]
struct Fates {
    odds: Odds,
    seeded: Rng,
    dice: BTreeMap<Place, Rng>,
    due: BTreeMap<(Time, u64), Next>,
    times: BTreeMap<u64, Time>,
}

impl Fates {
    fn new(odds: Odds, seeded: Rng) -> Self {
        let (dice, due, times) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { odds, seeded, dice, due, times }
    }

    fn fate(&mut self, number: u64, place: Place) -> (Span, Next) {
        let is_hit = self.odds.server.is_none_or(|server| place == Place::Storage(server));
        if !is_hit {
            return (Span::ZERO, Next::Pass(number));
        }
        let fresh = || self.seeded.fork(&place.to_string());
        let dice = self.dice.entry(place).or_insert_with(fresh);
        // Three throws for each request, so that one probability does not shift what another hits.
        let [late, lost, failed] = [self.odds.delays, self.odds.lose, self.odds.fail]
            .map(|part| dice.below(CERTAIN as u64) < part);
        let delay = if late { self.odds.delay } else { Span::ZERO };
        let end = match (failed, lost) {
            (true, _) => Next::Refuse(number),
            (false, true) => Next::Lose(number),
            (false, false) => Next::Pass(number),
        };
        (delay, end)
    }
}

impl Manner for Fates {
    fn came(&mut self, now: Time, number: u64, request: &Request) {
        let (delay, end) = self.fate(number, request.place);
        self.due.insert((now + delay, number), end);
        self.times.insert(number, now + delay);
    }

    fn next(&mut self, now: Time) -> Next {
        match self.due.first_entry() {
            None => Next::At(Time::NEVER),
            Some(first) if first.key().0 > now => Next::At(first.key().0),
            Some(first) => {
                self.times.remove(&first.key().1);
                first.remove()
            }
        }
    }

    fn left(&mut self, number: u64, _place: Place) {
        if let Some(time) = self.times.remove(&number) {
            self.due.remove(&(time, number));
        }
    }

    fn patience(&self) -> Span {
        self.odds.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_says_what_befalls_whom() {
        let fates = |options: &str| {
            let fault = Fault::parse(options).unwrap();
            let mut fates = Fates::new(fault.odds, Rng::new(fault.seed));
            (0..1_000).map(|n| fates.fate(n, Place::Storage(0))).collect::<Vec<_>>()
        };
        let options = "seed=7,delay=50ms,delays=0.1,lose=0.01,fail=0.02,server=0";
        let first = fates(options);
        assert_eq!(first, fates(options));
        assert_ne!(first, fates("seed=8,delay=50ms,delays=0.1,lose=0.01,fail=0.02,server=0"));
        let count = |of: fn(&(Span, Next)) -> bool| first.iter().filter(|fate| of(fate)).count();
        // Within four deviations of what is to be expected.
        assert!((62..=138).contains(&count(|(delay, _)| *delay > Span::ZERO)));
        assert!((1..=23).contains(&count(|(_, end)| matches!(end, Next::Lose(_)))));
        assert!((3..=38).contains(&count(|(_, end)| matches!(end, Next::Refuse(_)))));
        let spared = fates("fail=1,lose=1,server=1");
        assert!(spared.iter().all(|(_, end)| matches!(end, Next::Pass(_))));
        assert!(fates("fail=1").iter().all(|(_, end)| matches!(end, Next::Refuse(_))));
        assert!(fates("").iter().all(|(_, end)| matches!(end, Next::Pass(_))));
    }
}
