//! Device models: how long a storage device takes, as a state machine that is told the time.
//!
//! The lab server drives a model with the real clock and the simulator with its own; both hand
//! requests over with [`Device::submit`] and collect them with [`Device::poll`]. A model keeps a
//! virtual clock of its own: a driver that polls late delays the answer, but not the device.
//!
//! [`DEVICES`] is the registry: to add a model, write one file beside this one and add its line. A
//! [`DeviceSpec`] is what users write (`hdd`, `hdd:elevator=fifo,depth=1`, `ssd`, `mem`).
//!
//! ```
//! use afflux_core::device::{DeviceRequest, DeviceSpec};
//! use afflux_core::units::Time;
//!
//! let spec: DeviceSpec = "hdd:depth=1".parse().unwrap();
//! let mut disk = spec.build(7);
//! let request = DeviceRequest { id: 1, write: false, offset_bytes: 0, length_bytes: 1 << 20 };
//! disk.submit(Time::ZERO, request);
//! let finished = disk.next_done().unwrap();
//! assert_eq!(disk.poll(Time::ZERO), None);
//! assert_eq!(disk.poll(finished).unwrap().id, 1);
//! ```

pub mod disk;
pub mod elevator;
pub mod memory;
pub mod placement;
pub mod spec;
pub mod ssd;

pub use spec::{DEVICES, DeviceEntry, DeviceModel, DeviceSpec, DeviceSpecError};

use crate::units::{Span, Time};

/// One transfer, by position on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// Chosen by the driver, handed back on completion.
    pub id: u64,
    /// Write or read.
    pub write: bool,
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

/// A finished transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceDone {
    /// The driver's id.
    pub id: u64,
    /// When the device finished it, on the device's clock; not after the `now` of the poll.
    pub at: Time,
    /// How long the device itself worked on it (seek, rotation, transfer), queueing left out.
    pub access: Span,
}

/// A storage device.
///
/// Calls must not go back in time. `submit` first lets the device act up to `now`, so that a
/// request is never considered before it arrived, however late the driver polls.
pub trait Device: Send {
    /// Takes one more request; the device queues without bound, the server bounds what it submits.
    fn submit(&mut self, now: Time, request: DeviceRequest);

    /// The next request that was finished at or before `now`, in order of completion.
    fn poll(&mut self, now: Time) -> Option<DeviceDone>;

    /// When [`Device::poll`] will next have something; `None` when the device is idle.
    fn next_done(&mut self) -> Option<Time>;

    /// Requests submitted and not yet handed back.
    fn pending(&self) -> usize;
}
