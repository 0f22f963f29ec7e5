//! The storage server's service: objects on a device.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use afflux_core::units::{Span, Time};
use afflux_node::clock;
use bytes::Bytes;

use super::{Reply, ServerError, Service};
use crate::engine::ObjectId;
use crate::held::{HeldDevice, Submitted};
use crate::lab::device::{LabDevice, ObjectPlaces};
use crate::lab::stream::Payload;
use crate::lab::wire::{Header, Kind, MAX_DATA_BYTES, Status};
use crate::objects::ObjectError;
use crate::objects::buffer::BufferPool;
use crate::objects::files::{FileOptions, ObjectFiles};
use crate::objects::memory::ObjectMemory;
use crate::sync::lock;

/// What a server in memory takes when nothing is said.
pub const MEMORY_CAPACITY_BYTES: u64 = 1 << 30;

/// Objects behind the wire.
#[derive(Debug)]
pub(super) struct Storage {
    device: LabDevice,
    capacity_bytes: Option<u64>,
    keeper: Keeper,
    model: Option<Model>,
    buffers: BufferPool,
}

#[derive(Debug)]
enum Keeper {
    Memory(ObjectMemory),
    Files(ObjectFiles),
}

#[derive(Debug)]
struct Model {
    held: HeldDevice,
    places: Mutex<ObjectPlaces>,
}

impl Storage {
    pub(super) fn open(
        dir: &Path,
        device: &LabDevice,
        capacity_bytes: Option<u64>,
        seed: u64,
        buffers: BufferPool,
    ) -> Result<Self, ServerError> {
        let wrong = |source| ServerError::Objects { dir: PathBuf::from(dir), source };
        let (keeper, capacity_bytes) = if device.keeps() {
            let options = FileOptions {
                capacity_bytes: capacity_bytes.unwrap_or(u64::MAX),
                direct: *device == LabDevice::File,
                shared: false,
            };
            let files = ObjectFiles::open(dir, options).map_err(wrong)?;
            (Keeper::Files(files), capacity_bytes)
        } else {
            let capacity_bytes = capacity_bytes.unwrap_or(MEMORY_CAPACITY_BYTES);
            (Keeper::Memory(ObjectMemory::new(capacity_bytes)), Some(capacity_bytes))
        };
        let model = match device.build(seed) {
            None => None,
            Some((model, mut places)) => {
                // What was kept from an earlier run lies where a fresh layout of it puts it.
                for (object, length_bytes) in keeper.lengths() {
                    // A device that is too small for what is there says so when it is written to.
                    let _ = places.locate(object, 0, length_bytes);
                }
                let held = HeldDevice::start(model)
                    .map_err(|source| ServerError::Start { what: "device thread", source })?;
                Some(Model { held, places: Mutex::new(places) })
            }
        };
        Ok(Self { device: device.clone(), capacity_bytes, keeper, model, buffers })
    }

    fn read(&self, object: ObjectId, offset_bytes: u64, length_bytes: u32) -> Reply {
        if length_bytes > MAX_DATA_BYTES {
            let why = format!("a read of {length_bytes} bytes, at most {MAX_DATA_BYTES} are sent");
            return Reply::error(Status::Invalid, &why);
        }
        match &self.keeper {
            Keeper::Memory(memory) => match memory.read(object, offset_bytes, length_bytes) {
                Ok(runs) => Reply::done(Payload::Runs(runs), Span::ZERO),
                Err(error) => failed(&error),
            },
            Keeper::Files(files) => {
                // The device works on what is there, not on what was asked for beyond the end.
                let there = files.length(object).saturating_sub(offset_bytes);
                let length = u64::from(length_bytes).min(there);
                let submitted = self.submit(false, object, offset_bytes, length);
                let submitted = match submitted {
                    Ok(submitted) => submitted,
                    Err(why) => return Reply::error(Status::Io, &why),
                };
                let mut buffer = self.buffers.take(length as usize);
                let before = clock::now();
                let read = files.read(object, offset_bytes, &mut buffer);
                let access = finish(submitted, before);
                match read {
                    Ok(0) => Reply::done(Payload::Empty, access),
                    Ok(read) => {
                        buffer.truncate(read);
                        Reply::done(Payload::One(buffer.freeze(), None), access)
                    }
                    Err(error) => failed(&error),
                }
            }
        }
    }

    fn write(&self, object: ObjectId, offset_bytes: u64, data: Bytes, crc: u32) -> Reply {
        match &self.keeper {
            Keeper::Memory(memory) => match memory.write(object, offset_bytes, data, Some(crc)) {
                Ok(()) => Reply::done(Payload::Empty, Span::ZERO),
                Err(error) => failed(&error),
            },
            Keeper::Files(files) => {
                // The model must not give a place to what the files will refuse.
                let length_bytes = data.len() as u64;
                if let Err(error) = files.check_room(object, offset_bytes, length_bytes) {
                    return failed(&error);
                }
                let submitted = self.submit(true, object, offset_bytes, length_bytes);
                let Ok(submitted) = submitted else {
                    return Reply::error(Status::NoSpace, "");
                };
                let before = clock::now();
                let written = files.write(object, offset_bytes, &data);
                let access = finish(submitted, before);
                match written {
                    Ok(()) => Reply::done(Payload::Empty, access),
                    Err(error) => failed(&error),
                }
            }
        }
    }

    fn remove(&self, object: ObjectId) -> Reply {
        let removed = match &self.keeper {
            Keeper::Memory(memory) => {
                memory.remove(object);
                Ok(())
            }
            Keeper::Files(files) => files.remove(object),
        };
        if let Some(model) = &self.model {
            lock(&model.places).forget(object);
        }
        match removed {
            Ok(()) => Reply::done(Payload::Empty, Span::ZERO),
            Err(error) => failed(&error),
        }
    }

    /// Hands a transfer to the model, if there is one. The data are moved while the model works.
    fn submit(
        &self,
        write: bool,
        object: ObjectId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<Option<Submitted>, String> {
        let Some(model) = &self.model else { return Ok(None) };
        let pieces = lock(&model.places).locate(object, offset_bytes, length_bytes)?;
        Ok(Some(model.held.submit(write, &pieces)))
    }
}

/// Waits for the model and gives its time, or the time that passed where there is none.
fn finish(submitted: Option<Submitted>, before: Time) -> Span {
    submitted.map_or_else(|| clock::now().since(before), Submitted::wait)
}

impl Keeper {
    fn lengths(&self) -> Vec<(ObjectId, u64)> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Files(files) => files.lengths(),
        }
    }
}

impl Service for Storage {
    fn serve(&self, request: &Header, payload: Bytes, _client: u64) -> Reply {
        let object = ObjectId { file: request.first, stripe: request.third };
        match request.kind {
            Kind::Read => self.read(object, request.second, request.fourth),
            Kind::Write => self.write(object, request.second, payload, request.payload_crc),
            Kind::Remove => self.remove(object),
            _ => Reply::error(Status::Invalid, "a storage server keeps no names"),
        }
    }

    fn stored_bytes(&self) -> u64 {
        match &self.keeper {
            Keeper::Memory(memory) => memory.stored_bytes(),
            Keeper::Files(files) => files.stored_bytes().unwrap_or(0),
        }
    }

    fn device(&self) -> String {
        match &self.keeper {
            Keeper::Files(files) if self.device == LabDevice::File => {
                let how = if files.is_direct() {
                    "direct I/O where aligned"
                } else {
                    "buffered: the file system takes no direct I/O"
                };
                format!("file ({how})")
            }
            _ => self.device.to_string(),
        }
    }

    fn capacity_bytes(&self) -> Option<u64> {
        self.capacity_bytes
    }
}

fn failed(error: &ObjectError) -> Reply {
    match error {
        ObjectError::NoSpace => Reply::error(Status::NoSpace, ""),
        ObjectError::Range { .. } => Reply::error(Status::Invalid, &error.to_string()),
        ObjectError::Io { .. } => Reply::error(Status::Io, &error.to_string()),
    }
}
