//! Devices of a storage server, as users name them, and where objects lie on those that are models.

use std::fmt;
use std::str::FromStr;

use afflux_core::device::placement::{Piece, Placement, PlacementPolicy};
use afflux_core::device::{Device, DeviceSpec, DeviceSpecError};

use crate::engine::ObjectId;

/// What a storage server keeps its objects on.
///
/// ```
/// use afflux_store::lab::device::LabDevice;
/// assert_eq!("mem".parse(), Ok(LabDevice::Memory));
/// assert_eq!("hdd".parse::<LabDevice>().unwrap().name(), "hdd");
/// assert!("tape".parse::<LabDevice>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum LabDevice {
    /// Memory; nothing outlives the server.
    Memory,
    /// Files, past the page cache where the file system lets them; as fast as the disk below.
    File,
    /// Files in the page cache, with answers held until the model of a device would have finished.
    Model(DeviceSpec),
}

/// A word that names no device of the lab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabDeviceError {
    /// A model that cannot be read.
    #[error("{0}; `file` keeps the objects in files without a model")]
    Model(#[from] DeviceSpecError),
}

impl LabDevice {
    /// The name without options.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Memory => "mem",
            Self::File => "file",
            Self::Model(spec) => spec.name(),
        }
    }

    /// Whether objects survive the server's process.
    pub const fn keeps(&self) -> bool {
        !matches!(self, Self::Memory)
    }

    /// The model with its layout, both fresh; `None` for the devices that are what they are.
    pub(crate) fn build(&self, seed: u64) -> Option<(Box<dyn Device>, ObjectPlaces)> {
        let Self::Model(spec) = self else { return None };
        let policy = PlacementPolicy::default();
        let places = Placement::new(policy, spec.capacity_bytes(), seed);
        Some((spec.build(seed), ObjectPlaces { places }))
    }
}

impl FromStr for LabDevice {
    type Err = LabDeviceError;

    fn from_str(text: &str) -> Result<Self, LabDeviceError> {
        match text.trim() {
            "mem" => Ok(Self::Memory),
            "file" => Ok(Self::File),
            model => Ok(Self::Model(model.parse()?)),
        }
    }
}

impl fmt::Display for LabDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(spec) => spec.fmt(f),
            _ => f.pad(self.name()),
        }
    }
}

/// Where objects lie on a modelled device.
#[derive(Debug)]
pub(crate) struct ObjectPlaces {
    places: Placement,
}

impl ObjectPlaces {
    /// The device's stretches of a range of an object, or why there is no room for it.
    pub(crate) fn locate(
        &mut self,
        object: ObjectId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<Vec<Piece>, String> {
        let mut pieces = Vec::new();
        self.places
            .place(key(object), offset_bytes, length_bytes, &mut pieces)
            .map_err(|error| error.to_string())?;
        Ok(pieces)
    }

    /// Gives the object's places back.
    pub(crate) fn forget(&mut self, object: ObjectId) {
        self.places.delete(key(object));
    }
}

/// Stripes number at most as many as there are servers, which leaves the file the upper bits.
const fn key(object: ObjectId) -> u64 {
    object.file.rotate_left(20) ^ object.stripe as u64
}
