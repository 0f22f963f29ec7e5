//! Process time over the least process time known for requests of the same size.

use super::{Indicator, Unit};

pub(super) const INDICATOR: Indicator = Indicator {
    name: "pt_ratio",
    unit: Unit::Milli,
    about: "process time of the request / least process time of its size class",
    floor: 1_000,
    observe: |_, sample| {
        // Process times of over half a year saturate, which spares every reply a wide division.
        let pt = sample.process_time.as_nanos().saturating_mul(1_000);
        (pt / sample.least_process_time.as_nanos().max(1)).min(u64::MAX - 1)
    },
    value: |memory| memory,
};
