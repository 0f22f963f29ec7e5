//! `limit:N@ENGINE`: at most N requests at each server at once; the others wait in order.
//!
//! Deadlines count from submission, so a request may time out in the line.

use std::sync::Arc;

use afflux_core::parameters::{Named, Parameter, ParameterError, Parameters};
use afflux_core::units::Time;

use super::lines::{Gate, Lines};
use super::relay::Relay;
use super::{WrapError, Wrapper, WrapperEntry};
use crate::engine::Engine;

pub(super) const ENTRY: WrapperEntry = WrapperEntry {
    name: "limit",
    about: "at most N requests at each server at once, the others wait in order",
    grammar: "limit:N@ENGINE",
    read: |options| Ok(Arc::new(Limit::parse(options)?)),
};

const NAMED: Named = Named {
    kind: "wrapper",
    name: "limit",
    parameters: &[Parameter {
        name: "requests",
        default: "",
        about: "requests at a server at once, from 1 to 65536",
    }],
};

/// A bound on the requests at each server.
#[derive(Clone, Copy, Debug)]
struct Limit {
    requests: u32,
}

impl Limit {
    fn parse(options: &str) -> Result<Self, ParameterError> {
        let parameters = Parameters::parse(NAMED, options)?;
        Ok(Self { requests: parameters.count("requests", 1, 65_536)? as u32 })
    }
}

impl Wrapper for Limit {
    fn around(&self, inner: Arc<dyn Engine>) -> Result<Arc<dyn Engine>, WrapError> {
        let slots = Slots { most: self.requests, taken: 0 };
        Ok(Arc::new(Relay::start(NAMED.name, inner, Box::new(Lines::new(slots)))?))
    }
}

/// The places at one server.
#[derive(Clone, Debug)]
struct Slots {
    most: u32,
    taken: u32,
}

impl Gate for Slots {
    fn opens(&self, now: Time, _bytes: u64) -> Time {
        if self.taken < self.most { now } else { Time::NEVER }
    }

    fn passed(&mut self, _now: Time, _bytes: u64) {
        self.taken += 1;
    }

    fn ended(&mut self) {
        self.taken -= 1;
    }
}
