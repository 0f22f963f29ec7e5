//! `throttle:RATE@ENGINE`: each server takes so many bytes a second, like a slow port or disk.
//!
//! A token bucket for each server and client, for reads and writes together, that holds one request
//! of the largest size (1 MiB). A request goes when its bytes are there, one that is larger than
//! the bucket when that is full; so the rate holds over any stretch of time but for one request.

use std::sync::Arc;

use afflux_core::parameters::{Named, Parameter, ParameterError, Parameters};
use afflux_core::path::Options;
use afflux_core::units::{Span, Time};

use super::lines::{Gate, Lines};
use super::relay::Relay;
use super::{WrapError, Wrapper, WrapperEntry};
use crate::engine::Engine;

pub(super) const ENTRY: WrapperEntry = WrapperEntry {
    name: "throttle",
    about: "each server takes so many bytes a second from each client, as a slow port or disk does",
    grammar: "throttle:RATE@ENGINE, as in throttle:20MB/s@lab",
    read: |options| Ok(Arc::new(Throttle::parse(options)?)),
};

const NAMED: Named = Named {
    kind: "wrapper",
    name: "throttle",
    parameters: &[Parameter {
        name: "rate",
        default: "",
        about: "bytes a second at each server, as in 20MB/s",
    }],
};

/// A bound on the bytes at each server.
#[derive(Clone, Copy, Debug)]
struct Throttle {
    rate: u64,
}

impl Throttle {
    fn parse(options: &str) -> Result<Self, ParameterError> {
        Ok(Self { rate: Parameters::parse(NAMED, options)?.rate("rate")? })
    }
}

impl Wrapper for Throttle {
    fn around(&self, inner: Arc<dyn Engine>) -> Result<Arc<dyn Engine>, WrapError> {
        let burst_bytes = u64::from(Options::default().max_request_bytes);
        let bucket = Bucket { rate: self.rate, burst_bytes, full: Time::ZERO };
        Ok(Arc::new(Relay::start(NAMED.name, inner, Box::new(Lines::new(bucket)))?))
    }
}

/// The tokens of one server, kept as the time at which there will be as many as there can be.
#[derive(Clone, Debug)]
struct Bucket {
    rate: u64,
    burst_bytes: u64,
    full: Time,
}

impl Bucket {
    /// How long so many bytes take to come in.
    fn takes(&self, bytes: u64) -> Span {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Gate for Bucket {
    fn opens(&self, _now: Time, bytes: u64) -> Time {
        self.full - self.takes(self.burst_bytes.saturating_sub(bytes))
    }

    fn passed(&mut self, now: Time, bytes: u64) {
        self.full = self.full.max(now) + self.takes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_its_burst_go_and_then_its_rate() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut bucket = Bucket { rate: 1_000_000, burst_bytes: 1_000, full: Time::ZERO };
        // Ten of 500 bytes: two from the burst, then one each half millisecond.
        let mut now = at(100);
        let times: Vec<_> = (0..10)
            .map(|_| {
                now = now.max(bucket.opens(now, 500));
                bucket.passed(now, 500);
                now.since(at(100)).as_nanos() / 1_000
            })
            .collect();
        assert_eq!(times, [0, 0, 500, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000]);
        // What is larger than the bucket waits until that is full, and leaves a debt.
        bucket.passed(at(200), 5_000);
        assert_eq!(bucket.opens(at(200), 1_000), at(205));
        assert_eq!(bucket.opens(at(200), 0), at(204), "what has no bytes waits for the debt only");
    }
}
