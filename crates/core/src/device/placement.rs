//! Where on a device an object lies.
//!
//! Bytes are handed out in units: 1 MiB `apart`, 4 MB in order of `arrival`. A unit belongs to one
//! object until the object is deleted; placing fails only when no unit is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::rng::Rng;
use crate::units::display_bytes;

/// How objects are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementPolicy {
    /// Objects lie apart, each contiguous in extents of up to 1 GiB. Starts of extents follow a
    /// golden-ratio sequence over the device, so that any few of them are spread evenly. Once every
    /// GiB is some extent's, more extents start in the middle of the largest gap.
    #[default]
    Apart,
    /// Chunks of 4 MB, each the next free one when an object first touches it: objects written at
    /// the same time are interleaved.
    Arrival,
}

/// The policies and their names.
pub const PLACEMENTS: &[(&str, PlacementPolicy)] =
    &[("apart", PlacementPolicy::Apart), ("arrival", PlacementPolicy::Arrival)];

impl FromStr for PlacementPolicy {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Self, PlacementError> {
        let found = PLACEMENTS.iter().find(|(name, _)| *name == text.trim());
        found.map(|(_, policy)| *policy).ok_or_else(|| PlacementError::Policy(text.to_owned()))
    }
}

impl fmt::Display for PlacementPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Apart => "apart",
            Self::Arrival => "arrival",
        })
    }
}

/// Why bytes have no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No policy has this name.
    #[error("there is no placement `{0}`: use apart or arrival")]
    Policy(String),
    /// The device has too little room.
    #[error(
        "the device is full: {} more are needed and {} are free; delete objects, or write less per \
         server",
        display_bytes(*.needed_bytes), display_bytes(*.free_bytes)
    )]
    Full {
        /// Bytes that were asked for and have no unit yet.
        needed_bytes: u64,
        /// Bytes in free units.
        free_bytes: u64,
    },
}

/// A stretch of device bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

/// The layout of one device.
#[derive(Clone, Debug)]
pub struct Placement {
    policy: PlacementPolicy,
    unit_bytes: u64,
    units: u64,
    free: Gaps,
    /// Unit of the device for (object, unit of the object).
    places: BTreeMap<(u64, u64), u64>,
    /// First unit of the device for (object, extent of the object), and the slot it has taken.
    extents: BTreeMap<(u64, u64), Extent>,
    slots: Slots,
    /// Where `arrival` looks for the next free unit.
    cursor: u64,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    base: u64,
    slot: Option<u64>,
}

/// Bytes of an extent under `apart`.
const EXTENT_BYTES: u64 = 1 << 30;

impl Placement {
    /// An empty device of `capacity_bytes`. The seed shifts where the first object starts.
    pub fn new(policy: PlacementPolicy, capacity_bytes: u64, seed: u64) -> Self {
        let unit_bytes = match policy {
            PlacementPolicy::Apart => 1 << 20,
            PlacementPolicy::Arrival => 4_000_000,
        };
        Self::in_units(policy, unit_bytes, capacity_bytes, seed)
    }

    /// An empty device in the order of arrival, with units of `unit_bytes`, at least one byte: what
    /// a file system sets apart for a file that grows.
    pub fn by_arrival(unit_bytes: u64, capacity_bytes: u64, seed: u64) -> Self {
        Self::in_units(PlacementPolicy::Arrival, unit_bytes.max(1), capacity_bytes, seed)
    }

    fn in_units(policy: PlacementPolicy, unit_bytes: u64, capacity_bytes: u64, seed: u64) -> Self {
        let units = capacity_bytes / unit_bytes;
        let mut rng = Rng::new(seed).fork("placement");
        let slots = match policy {
            PlacementPolicy::Apart => units / (EXTENT_BYTES / unit_bytes),
            PlacementPolicy::Arrival => 0,
        };
        Self {
            policy,
            unit_bytes,
            units,
            free: Gaps::new(units),
            places: BTreeMap::new(),
            extents: BTreeMap::new(),
            slots: Slots::new(slots, rng.below(slots)),
            cursor: rng.below(units),
        }
    }

    /// Bytes in units that no object has.
    pub fn free_bytes(&self) -> u64 {
        (self.units - self.places.len() as u64) * self.unit_bytes
    }

    /// Appends to `pieces` where `length_bytes` of an object from `offset_bytes` on lie, in the
    /// object's order, contiguous ones as one piece.
    ///
    /// What was never touched gets its place now, for reads too: the driver's files count as
    /// prepared.
    ///
    /// # Errors
    ///
    /// [`PlacementError::Full`] when the units that are free do not suffice; nothing is placed
    /// then.
    pub fn place(
        &mut self,
        object: u64,
        offset_bytes: u64,
        length_bytes: u64,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), PlacementError> {
        if length_bytes == 0 {
            return Ok(());
        }
        let end = offset_bytes.saturating_add(length_bytes);
        let (first, last) = (offset_bytes / self.unit_bytes, (end - 1) / self.unit_bytes);
        self.reserve(object, first, last)?;
        for unit in first..=last {
            let place = match self.places.get(&(object, unit)) {
                Some(place) => *place,
                None => self.allocate(object, unit),
            };
            let start = unit * self.unit_bytes;
            let (from, to) =
                (start.max(offset_bytes), end.min(start.saturating_add(self.unit_bytes)));
            append(pieces, place * self.unit_bytes + (from - start), to - from);
        }
        Ok(())
    }

    /// Gives the places of an object back.
    pub fn delete(&mut self, object: u64) {
        let whole = (object, 0)..=(object, u64::MAX);
        let units: Vec<_> =
            self.places.range(whole.clone()).map(|(key, unit)| (*key, *unit)).collect();
        for (key, unit) in units {
            self.places.remove(&key);
            self.free.give(unit);
        }
        let extents: Vec<_> =
            self.extents.range(whole).map(|(key, extent)| (*key, *extent)).collect();
        for (key, extent) in extents {
            self.extents.remove(&key);
            if let Some(slot) = extent.slot {
                self.slots.taken[slot as usize] = false;
            }
        }
    }

    /// Checks that there is room for what has no place yet, before anything is placed.
    fn reserve(&self, object: u64, first: u64, last: u64) -> Result<(), PlacementError> {
        let asked = (last - first).saturating_add(1);
        let free = self.units - self.places.len() as u64;
        // The common case needs no count: what is asked fits even if all of it is new.
        if asked <= free {
            return Ok(());
        }
        let known = self.places.range((object, first)..=(object, last)).count() as u64;
        if asked - known <= free {
            return Ok(());
        }
        Err(PlacementError::Full {
            needed_bytes: (asked - known).saturating_mul(self.unit_bytes),
            free_bytes: free * self.unit_bytes,
        })
    }

    /// A free unit for `unit` of an object; there is one.
    fn allocate(&mut self, object: u64, unit: u64) -> u64 {
        let wanted = match self.policy {
            PlacementPolicy::Apart => self.apart(object, unit),
            PlacementPolicy::Arrival => self.cursor,
        };
        let place = self.free.take(wanted);
        self.cursor = place + 1;
        self.places.insert((object, unit), place);
        place
    }

    /// The unit of the device at which `unit` of an object would lie within its extent. When it is
    /// taken (the extent began in a gap too small), what remains of the extent moves to a new
    /// place.
    fn apart(&mut self, object: u64, unit: u64) -> u64 {
        let extent_units = EXTENT_BYTES / self.unit_bytes;
        let (key, inside) = ((object, unit / extent_units), unit % extent_units);
        if let Some(extent) = self.extents.get_mut(&key) {
            let wanted = extent.base.wrapping_add(inside);
            if self.free.contains(wanted) {
                return wanted;
            }
            let moved = self.free.middle();
            extent.base = moved.wrapping_sub(inside);
            return moved;
        }
        let slot = self.slots.next();
        let base = match slot {
            Some(slot) => slot * extent_units,
            None => self.free.middle().wrapping_sub(inside),
        };
        self.extents.insert(key, Extent { base, slot });
        base.wrapping_add(inside)
    }
}

fn append(pieces: &mut Vec<Piece>, offset_bytes: u64, length_bytes: u64) {
    match pieces.last_mut() {
        Some(last) if last.offset_bytes + last.length_bytes == offset_bytes => {
            last.length_bytes += length_bytes;
        }
        _ => pieces.push(Piece { offset_bytes, length_bytes }),
    }
}

/// Slots of one extent each, given out in the order of multiples of the golden ratio.
#[derive(Clone, Debug)]
struct Slots {
    taken: Vec<bool>,
    stride: u64,
    next: u64,
}

impl Slots {
    fn new(count: u64, first: u64) -> Self {
        // The nearest stride to count / golden ratio that shares no factor with the count visits
        // every slot once.
        let golden = (count as f64 * 0.618_033_988_749_894_8) as u64;
        let coprime = |stride: &u64| greatest_common_divisor(*stride, count) == 1;
        let stride = (golden.max(1)..=count.max(1)).find(coprime).unwrap_or(1);
        Self { taken: vec![false; count as usize], stride, next: first }
    }

    fn next(&mut self) -> Option<u64> {
        let count = self.taken.len() as u64;
        for _ in 0..count {
            let slot = self.next;
            self.next = (self.next + self.stride) % count;
            if !std::mem::replace(&mut self.taken[slot as usize], true) {
                return Some(slot);
            }
        }
        None
    }
}

const fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Free units, as gaps by start and by length.
#[derive(Clone, Debug)]
struct Gaps {
    by_start: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
}

impl Gaps {
    fn new(units: u64) -> Self {
        let mut gaps = Self { by_start: BTreeMap::new(), by_length: BTreeSet::new() };
        gaps.add(0, units);
        gaps
    }

    fn add(&mut self, start: u64, length: u64) {
        if length > 0 {
            self.by_start.insert(start, length);
            self.by_length.insert((length, start));
        }
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
    }

    fn around(&self, unit: u64) -> Option<(u64, u64)> {
        let (start, length) = self.by_start.range(..=unit).next_back()?;
        (unit - start < *length).then_some((*start, *length))
    }

    fn contains(&self, unit: u64) -> bool {
        self.around(unit).is_some()
    }

    /// The middle of the largest gap; 0 when there is none.
    fn middle(&self) -> u64 {
        self.by_length.last().map_or(0, |(length, start)| start + length / 2)
    }

    /// Takes `wanted`, or else the next free unit above it, or else the lowest.
    fn take(&mut self, wanted: u64) -> u64 {
        let above =
            || self.by_start.range(wanted..).next().map(|(start, length)| (*start, *length));
        let lowest = || self.by_start.first_key_value().map(|(start, length)| (*start, *length));
        let found = self.around(wanted).or_else(above).or_else(lowest);
        let (start, length) = found.expect("reserve() found a free unit");
        let inside = (start..start + length).contains(&wanted);
        let unit = if inside { wanted } else { start };
        self.remove(start, length);
        self.add(start, unit - start);
        self.add(unit + 1, start + length - unit - 1);
        unit
    }

    /// Takes a unit back and joins it with its neighbours.
    fn give(&mut self, unit: u64) {
        let (mut start, mut length) = (unit, 1);
        if let Some((before, its_length)) = unit.checked_sub(1).and_then(|left| self.around(left)) {
            self.remove(before, its_length);
            (start, length) = (before, its_length + 1);
        }
        if let Some(after) = self.by_start.get(&(unit + 1)).copied() {
            self.remove(unit + 1, after);
            length += after;
        }
        self.add(start, length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;
    const DISK: u64 = 500_107_862_016;

    fn place(placement: &mut Placement, object: u64, offset: u64, length: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        placement.place(object, offset, length, &mut pieces).unwrap();
        pieces
    }

    #[test]
    fn objects_lie_apart_and_each_in_one_piece() {
        let mut layout = Placement::new(PlacementPolicy::Apart, DISK, 5);
        let mut starts = Vec::new();
        for object in 0..16 {
            let pieces = place(&mut layout, object, 0, 512 << 20);
            assert_eq!(pieces.len(), 1);
            starts.push(pieces[0].offset_bytes);
        }
        starts.sort_unstable();
        let nearest = starts.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
        assert!(nearest > DISK / 16 / 3, "{nearest}");
    }

    #[test]
    fn an_object_touched_anywhere_is_linear_in_its_extents() {
        let mut layout = Placement::new(PlacementPolicy::Apart, DISK, 5);
        let late = place(&mut layout, 1, 700 << 20, 1 << 20)[0].offset_bytes;
        place(&mut layout, 2, 0, GIB);
        let early = place(&mut layout, 1, 3 << 20, 4096)[0].offset_bytes;
        assert_eq!(late - early, (700 << 20) - (3 << 20));
    }

    #[test]
    fn extents_never_overlap_until_the_device_is_full() {
        let mut layout = Placement::new(PlacementPolicy::Apart, DISK, 1);
        let slots = DISK / GIB;
        for object in 0..slots {
            assert_eq!(place(&mut layout, object, 0, GIB).len(), 1, "{object}");
        }
        // What no slot covers is found all the same, to the last unit.
        let rest = layout.free_bytes();
        assert!(rest < GIB);
        place(&mut layout, slots, 0, rest);
        let full = layout.place(slots + 1, 0, 1, &mut Vec::new()).unwrap_err();
        assert_eq!(full, PlacementError::Full { needed_bytes: 1 << 20, free_bytes: 0 });
        assert!(full.to_string().contains("delete objects"));
        layout.delete(7);
        assert_eq!(place(&mut layout, slots + 1, 0, GIB).len(), 1);
    }

    #[test]
    fn many_small_objects_fill_the_device() {
        let mut layout = Placement::new(PlacementPolicy::Apart, DISK, 1);
        for object in 0..DISK / (1 << 20) {
            assert_eq!(place(&mut layout, object, 0, 1 << 20).len(), 1);
        }
        assert_eq!(layout.free_bytes(), 0);
    }

    #[test]
    fn arrival_interleaves_in_chunks() {
        let mut layout = Placement::new(PlacementPolicy::Arrival, DISK, 2);
        let first = place(&mut layout, 1, 0, 1_000_000)[0].offset_bytes;
        assert_eq!(place(&mut layout, 2, 0, 1_000_000)[0].offset_bytes, first + 4_000_000);
        let pieces = place(&mut layout, 1, 0, 6_000_000);
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces[1].offset_bytes, first + 8_000_000);
    }

    #[test]
    fn what_asks_for_too_much_places_nothing() {
        let mut layout = Placement::new(PlacementPolicy::Arrival, 40_000_000, 0);
        assert!(layout.place(1, 0, u64::MAX, &mut Vec::new()).is_err());
        assert!(layout.place(1, u64::MAX - 1, u64::MAX, &mut Vec::new()).is_ok());
        assert!(layout.place(2, 0, 40_000_000, &mut Vec::new()).is_err());
        assert_eq!(layout.free_bytes(), 36_000_000);
        assert!(
            Placement::new(PlacementPolicy::Apart, 0, 0).place(1, 0, 1, &mut Vec::new()).is_err()
        );
    }

    #[test]
    fn names_read_back() {
        for (name, policy) in PLACEMENTS {
            assert_eq!(name.parse(), Ok(*policy));
            assert_eq!(policy.to_string(), *name);
        }
        let error = "random".parse::<PlacementPolicy>().unwrap_err().to_string();
        assert!(error.contains("apart or arrival"));
    }

    proptest! {
        /// Whatever is written and deleted, no two objects share a byte, what was placed stays
        /// where it is, and an error comes only when the units do not suffice.
        #[test]
        fn no_byte_has_two_owners(
            apart in any::<bool>(),
            capacity in 0_u64..3_000,
            seed in any::<u64>(),
            steps in prop::collection::vec((0_u64..12, 0_u64..1_500, 0_u64..400, 0_u8..8), 1..60),
        ) {
            let policy = if apart { PlacementPolicy::Apart } else { PlacementPolicy::Arrival };
            let mut layout = Placement::new(policy, capacity << 20, seed);
            for (object, offset, length, kind) in steps {
                if kind == 0 {
                    layout.delete(object);
                    continue;
                }
                let mut pieces = Vec::new();
                let free = layout.free_bytes();
                match layout.place(object, offset << 20, length << 20, &mut pieces) {
                    Ok(()) => {
                        let total: u64 = pieces.iter().map(|piece| piece.length_bytes).sum();
                        prop_assert_eq!(total, length << 20);
                        let again = place(&mut layout, object, offset << 20, length << 20);
                        prop_assert_eq!(again, pieces);
                    }
                    Err(PlacementError::Full { needed_bytes, free_bytes }) => {
                        prop_assert!(needed_bytes > free_bytes && free_bytes == free);
                        prop_assert_eq!(layout.free_bytes(), free);
                    }
                    Err(other) => prop_assert!(false, "{other}"),
                }
                let used: BTreeSet<_> = layout.places.values().collect();
                prop_assert_eq!(used.len(), layout.places.len());
                let free: u64 = layout.free.by_start.values().sum();
                prop_assert_eq!(free + used.len() as u64, layout.units);
            }
        }
    }

    #[test]
    fn objects_that_arrive_together_take_turns_in_units_of_the_size_that_is_set() {
        for unit in [1 << 20, 4_000_000, 8 << 20] {
            let mut place = Placement::by_arrival(unit, 100 * unit, 3);
            let mut starts = Vec::new();
            for (half, object) in (0..8).flat_map(|half| [(half, 1), (half, 2)]) {
                let mut pieces = Vec::new();
                place.place(object, half * unit / 2, unit / 2, &mut pieces).unwrap();
                starts.push(pieces[0].offset_bytes);
            }
            let behind = |at: usize| (starts[at] + 100 * unit - starts[0]) % (100 * unit);
            // Two halves each, and the second unit of the first object behind the second one's.
            assert_eq!([1, 2, 4].map(behind), [unit, unit / 2, 2 * unit]);
        }
    }
}
