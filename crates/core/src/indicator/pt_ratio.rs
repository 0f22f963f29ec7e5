//! Process time over the least process time known for requests of the same size.

use super::{Indicator, Unit};

pub(super) const INDICATOR: Indicator = Indicator {
    name: "pt_ratio",
    unit: Unit::Milli,
    about: "process time of the request / least process time of its size class",
    floor: 1_000,
    observe: |_, sample| {
        let pt = u128::from(sample.process_time.as_nanos()) * 1_000;
        let ratio = pt / u128::from(sample.least_process_time.as_nanos().max(1));
        u64::try_from(ratio).unwrap_or(u64::MAX - 1)
    },
    value: |memory| memory,
};
