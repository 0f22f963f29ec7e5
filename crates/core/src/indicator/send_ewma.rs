//! EWMA of the gaps between the send times of the requests that were answered.

use super::{Indicator, Unit, ewma};

pub(super) const INDICATOR: Indicator = Indicator {
    name: "send_ewma",
    unit: Unit::Nanos,
    about: "moving average (weight 1/8) of the time between the sends of answered requests",
    floor: 0,
    observe: |memory, sample| match sample.send_gap {
        Some(gap) => ewma(memory, gap, sample.truncate),
        None => memory,
    },
    value: |memory| memory / 8,
};
