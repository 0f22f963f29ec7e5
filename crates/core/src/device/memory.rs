//! A device that takes no time: what is left then is the network's and the server's.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::spec::{DeviceModel, DeviceSpecError, pairs};
use super::{Device, DeviceDone, DeviceEntry, DeviceRequest};
use crate::units::{Span, Time};

/// The registry's line for this model.
pub(crate) const ENTRY: DeviceEntry = DeviceEntry {
    name: "mem",
    about: "takes no time at all",
    options: &[],
    read: |text| Ok(Arc::new(text.parse::<MemoryOptions>()?)),
};

/// Options of the memory device: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryOptions;

impl FromStr for MemoryOptions {
    type Err = DeviceSpecError;

    fn from_str(text: &str) -> Result<Self, DeviceSpecError> {
        pairs(ENTRY.name, ENTRY.options, text).map(|_| Self)
    }
}

impl fmt::Display for MemoryOptions {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl DeviceModel for MemoryOptions {
    fn build(&self, _seed: u64) -> Box<dyn Device> {
        Box::new(Memory::default())
    }

    fn capacity_bytes(&self) -> u64 {
        // Enough never to be the reason why something fails.
        1 << 60
    }
}

/// Finishes everything in the moment it comes.
#[derive(Debug, Default)]
pub struct Memory {
    done: VecDeque<DeviceDone>,
}

impl Device for Memory {
    fn submit(&mut self, now: Time, request: DeviceRequest) {
        self.done.push_back(DeviceDone { id: request.id, at: now, access: Span::ZERO });
    }

    fn poll(&mut self, now: Time) -> Option<DeviceDone> {
        self.done.pop_front_if(|done| done.at <= now)
    }

    fn next_done(&mut self) -> Option<Time> {
        self.done.front().map(|done| done.at)
    }

    fn pending(&self) -> usize {
        self.done.len()
    }
}
