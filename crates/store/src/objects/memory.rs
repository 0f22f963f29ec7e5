//! Objects in memory, kept as the buffers they were written with.
//!
//! An object is a map of extents that do not overlap. A write puts its buffer in as it is and cuts
//! the ones it covers, so that neither a write nor a read copies anything.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;

use super::{ObjectError, end_of};
use crate::engine::ObjectId;
use crate::sync::lock;

/// A run of an answer: bytes, with their CRC32C when it is known, or zeros.
#[derive(Clone, Debug)]
pub enum Run {
    /// Bytes that were written, with the checksum if they are just as they came.
    Data(Bytes, Option<u32>),
    /// A hole of so many bytes.
    Zeros(usize),
}

/// Objects in memory.
#[derive(Debug)]
pub struct ObjectMemory {
    capacity_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<ObjectId, Object>,
    stored_bytes: u64,
}

#[derive(Debug, Default)]
struct Object {
    length_bytes: u64,
    extents: BTreeMap<u64, Extent>,
}

#[derive(Clone, Debug)]
struct Extent {
    data: Bytes,
    // The memory that this extent keeps from being freed, at least.
    held_bytes: usize,
    crc: Option<u32>,
}

impl ObjectMemory {
    /// Room for `capacity_bytes`, counted by the lengths of the objects.
    pub fn new(capacity_bytes: u64) -> Self {
        Self { capacity_bytes, state: Mutex::default() }
    }

    /// Writes; keeps `data` as it is. `crc` is its CRC32C, if known.
    pub fn write(
        &self,
        object: ObjectId,
        offset_bytes: u64,
        data: Bytes,
        crc: Option<u32>,
    ) -> Result<(), ObjectError> {
        let end = end_of(offset_bytes, data.len() as u64)?;
        // What the new extent covers is freed after the lock is released.
        let mut covered = Vec::new();
        let mut state = lock(&self.state);
        let length = state.objects.get(&object).map_or(0, |object| object.length_bytes);
        let growth = end.saturating_sub(length);
        let stored = state.stored_bytes.saturating_add(growth);
        if growth > 0 && stored > self.capacity_bytes {
            return Err(ObjectError::NoSpace);
        }
        state.stored_bytes = stored;
        let kept = state.objects.entry(object).or_default();
        kept.length_bytes = length.max(end);
        if !data.is_empty() {
            kept.cut(offset_bytes, end, &mut covered);
            let held_bytes = data.len();
            kept.extents.insert(offset_bytes, Extent { data, held_bytes, crc });
        }
        drop(state);
        drop(covered);
        Ok(())
    }

    /// The runs of a range, up to the object's end.
    pub fn read(
        &self,
        object: ObjectId,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Result<Vec<Run>, ObjectError> {
        let end = end_of(offset_bytes, length_bytes.into())?;
        let state = lock(&self.state);
        let Some(object) = state.objects.get(&object) else { return Ok(Vec::new()) };
        let end = end.min(object.length_bytes);
        let mut runs = Vec::new();
        let mut at = offset_bytes;
        while at < end {
            let before = object.extents.range(..=at).next_back();
            let here = before.filter(|(start, extent)| at < **start + extent.data.len() as u64);
            if let Some((&start, extent)) = here {
                let from = (at - start) as usize;
                let to = extent.data.len().min((end - start) as usize);
                let whole = from == 0 && to == extent.data.len();
                let crc = extent.crc.filter(|_| whole);
                runs.push(Run::Data(extent.data.slice(from..to), crc));
                at = start + to as u64;
            } else {
                let next = object.extents.range(at..).next().map_or(end, |(&start, _)| start);
                let next = next.min(end);
                runs.push(Run::Zeros((next - at) as usize));
                at = next;
            }
        }
        Ok(runs)
    }

    /// Removes an object, if it is there.
    pub fn remove(&self, object: ObjectId) {
        let mut state = lock(&self.state);
        let removed = state.objects.remove(&object);
        if let Some(removed) = &removed {
            state.stored_bytes -= removed.length_bytes;
        }
        drop(state);
        drop(removed);
    }

    /// The lengths of all objects together.
    pub fn stored_bytes(&self) -> u64 {
        lock(&self.state).stored_bytes
    }
}

impl Object {
    /// Takes `[from, to)` out of the extents.
    fn cut(&mut self, from: u64, to: u64, covered: &mut Vec<Extent>) {
        let before = self.extents.range(..from).next_back();
        let reaching = before.filter(|(start, extent)| *start + extent.data.len() as u64 > from);
        if let Some((&start, extent)) = reaching {
            let extent = extent.clone();
            let end = start + extent.data.len() as u64;
            self.extents.insert(start, extent.part(0, (from - start) as usize));
            if end > to {
                self.extents.insert(to, extent.part((to - start) as usize, extent.data.len()));
            }
            covered.push(extent);
        }
        while let Some((&start, _)) = self.extents.range(from..to).next() {
            let Some(extent) = self.extents.remove(&start) else { break };
            let end = start + extent.data.len() as u64;
            if end > to {
                self.extents.insert(to, extent.part((to - start) as usize, extent.data.len()));
            }
            covered.push(extent);
        }
    }
}

impl Extent {
    /// A piece of this extent. A small piece is copied: it must not keep a large buffer alive.
    fn part(&self, from: usize, to: usize) -> Self {
        let data = self.data.slice(from..to);
        if data.len() * 2 >= self.held_bytes {
            return Self { data, held_bytes: self.held_bytes, crc: None };
        }
        let held_bytes = data.len();
        Self { data: Bytes::copy_from_slice(&data), held_bytes, crc: None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OBJECT: ObjectId = ObjectId { file: 1, stripe: 0 };

    fn contents(memory: &ObjectMemory, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for run in memory.read(OBJECT, offset, length).unwrap() {
            match run {
                Run::Data(data, crc) => {
                    assert!(crc.is_none_or(|crc| crc == crate::crc::crc32c(&data)));
                    bytes.extend_from_slice(&data);
                }
                Run::Zeros(count) => bytes.resize(bytes.len() + count, 0),
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn it_keeps_what_a_plain_array_keeps(
            writes in proptest::collection::vec((0_usize..300, 0_usize..120, any::<u8>()), 1..40),
            read in (0_u64..500, 0_u32..500),
        ) {
            let memory = ObjectMemory::new(1 << 20);
            let mut model: Vec<u8> = Vec::new();
            for (offset, length, value) in writes {
                let data = Bytes::from(vec![value; length]);
                let crc = crate::crc::crc32c(&data);
                memory.write(OBJECT, offset as u64, data, Some(crc)).unwrap();
                model.resize(model.len().max(offset + length), 0);
                model[offset..offset + length].fill(value);
            }
            prop_assert_eq!(memory.stored_bytes(), model.len() as u64);
            let from = model.len().min(read.0 as usize);
            let to = model.len().min((read.0 + u64::from(read.1)) as usize);
            prop_assert_eq!(contents(&memory, read.0, read.1), &model[from..to]);
            memory.remove(OBJECT);
            prop_assert_eq!(memory.stored_bytes(), 0);
        }
    }

    #[test]
    fn capacity_counts_growth_and_overwriting_is_free() {
        let memory = ObjectMemory::new(100);
        let data = |length| Bytes::from(vec![1; length]);
        memory.write(OBJECT, 0, data(100), None).unwrap();
        memory.write(OBJECT, 50, data(50), None).unwrap();
        let full = memory.write(OBJECT, 99, data(2), None);
        assert!(matches!(full, Err(ObjectError::NoSpace)));
        assert!(matches!(
            memory.write(OBJECT, u64::MAX, data(2), None),
            Err(ObjectError::Range { .. })
        ));
    }

    #[test]
    fn many_small_overwrites_do_not_hold_many_large_buffers() {
        let memory = ObjectMemory::new(u64::MAX);
        for start in 0..100 {
            memory.write(OBJECT, start * 10, Bytes::from(vec![1; 1000]), None).unwrap();
        }
        let state = lock(&memory.state);
        let held: usize = state.objects[&OBJECT].extents.values().map(|e| e.held_bytes).sum();
        assert!(held <= 4000, "{held}");
    }
}
