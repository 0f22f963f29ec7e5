//! EWMA of the gaps between replies.

use super::{Indicator, Unit, ewma};

pub(super) const INDICATOR: Indicator = Indicator {
    name: "ack_ewma",
    unit: Unit::Nanos,
    about: "moving average (weight 1/8) of the time between replies",
    floor: 0,
    observe: |memory, sample| match sample.ack_gap {
        Some(gap) => ewma(memory, gap, sample.truncate),
        None => memory,
    },
    value: |memory| memory / 8,
};
