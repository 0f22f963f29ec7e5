//! Where the objects of files lie on the servers.

use afflux_core::device::placement::{Piece, Placement, PlacementError, PlacementPolicy};
use afflux_core::rng::Rng;

use crate::scenario::{Placing, Servers as ServerOptions};

/// A stripe of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// The application.
    pub(crate) application: u32,
    /// The file, numbered within the application.
    pub(crate) file: u32,
    pub(crate) stripe: u32,
}

/// The files of one application, as far as their places depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileShape {
    /// How many in all.
    pub(crate) files: u64,
    /// Bytes of each.
    pub(crate) file_bytes: u64,
    /// Servers over which they go round.
    pub(crate) servers: u32,
    /// Stripes of each.
    pub(crate) stripes: u32,
    /// Bytes in a row on one server.
    pub(crate) unit_bytes: u32,
}

impl FileShape {
    /// Objects of the files on one server, at most.
    fn objects(&self) -> u64 {
        if self.is_everywhere() {
            return self.files;
        }
        self.files.div_ceil(u64::from(self.servers)) * u64::from(self.stripes)
    }

    /// Which of the objects on its server a stripe is: of each row of as many files as there are
    /// servers, every server keeps each stripe once.
    fn rank(&self, object: Object) -> u64 {
        if self.is_everywhere() {
            return u64::from(object.file);
        }
        let row = u64::from(object.file / self.servers);
        row * u64::from(self.stripes) + u64::from(object.stripe)
    }

    const fn is_everywhere(&self) -> bool {
        self.stripes == self.servers
    }

    /// Bytes of one object, at most.
    fn object_bytes(&self) -> u64 {
        let units = self.file_bytes.div_ceil(u64::from(self.unit_bytes));
        units.div_ceil(u64::from(self.stripes)) * u64::from(self.unit_bytes)
    }
}

/// Where objects lie, on every server.
pub(crate) enum Places {
    /// By core's placement, one for each server: what was never touched gets its place then.
    Kept(Vec<Placement>),
    /// By formula.
    Even(EvenPlaces),
}

/// Each application has a part of the device by the bytes that it needs; there its objects have
/// slots of one size, taken by multiples of the golden ratio, or lie in turns.
pub(crate) struct EvenPlaces {
    parts: Vec<EvenPart>,
    interleaved: bool,
    /// What an object has in a row when objects take turns.
    turn_bytes: u64,
    /// For each server, what its slots are shifted by.
    shifts: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct EvenPart {
    shape: FileShape,
    first_byte: u64,
    slot_bytes: u64,
    slots: u64,
    stride: u64,
    /// Turns in a group without a hole, and bytes from one group to the next.
    group_turns: u64,
    group_stride: u64,
}

/// What an object has in a row when objects take turns and nothing else is said.
const USUAL_TURN_BYTES: u64 = 4 << 20;

/// Where objects take turns, about what lies there without a hole: a block group of ext4.
const GROUP_BYTES: u64 = 128 << 20;

impl Places {
    /// Places on `options.count` servers, or the bytes that are needed and there on each.
    pub(crate) fn new(
        options: &ServerOptions,
        shapes: &[FileShape],
        seed: u64,
    ) -> Result<Self, PlacementError> {
        let whole = options.device.capacity_bytes();
        let each = options.region.map_or(whole, |region| region.min(whole));
        let capacity_bytes = each.saturating_mul(u64::from(options.spindles));
        let needed = shapes.iter().fold(0_u64, |sum, shape| {
            sum.saturating_add(shape.objects().saturating_mul(shape.object_bytes()))
        });
        if needed > capacity_bytes {
            return Err(PlacementError::Full { needed_bytes: needed, free_bytes: capacity_bytes });
        }
        let mut rng = Rng::new(seed).fork("places");
        let fresh: &dyn Fn(u64) -> Placement = match options.placement {
            Placing::Apart => &|seed| Placement::new(PlacementPolicy::Apart, capacity_bytes, seed),
            Placing::Arrival => &|seed| match options.turn {
                Some(turn) => Placement::by_arrival(turn, capacity_bytes, seed),
                None => Placement::new(PlacementPolicy::Arrival, capacity_bytes, seed),
            },
            Placing::Even | Placing::Interleaved => {
                let interleaved = options.placement == Placing::Interleaved;
                // Files written at the same time fill a disk without holes, unless a region says
                // over how much of it the groups with room for them are spread.
                let dense = interleaved && options.region.is_none();
                let room = if dense { needed } else { capacity_bytes };
                let turn_bytes = options.turn.unwrap_or(USUAL_TURN_BYTES);
                let parts = EvenPlaces::parts(shapes, needed, room, turn_bytes);
                let shifts = (0..options.count).map(|_| rng.bits() >> 32).collect();
                return Ok(Self::Even(EvenPlaces { parts, interleaved, turn_bytes, shifts }));
            }
        };
        Ok(Self::Kept((0..options.count).map(|_| fresh(rng.bits())).collect()))
    }

    /// Appends where a range of an object lies.
    pub(super) fn locate(
        &mut self,
        server: u32,
        object: Object,
        offset_bytes: u64,
        length_bytes: u64,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), PlacementError> {
        match self {
            Self::Kept(servers) => {
                let place = &mut servers[server as usize];
                place.place(object.key(), offset_bytes, length_bytes, pieces)
            }
            Self::Even(even) if even.interleaved => {
                even.turns(server, object, Piece { offset_bytes, length_bytes }, pieces);
                Ok(())
            }
            Self::Even(even) => {
                let offset_bytes = even.base(server, object) + offset_bytes;
                pieces.push(Piece { offset_bytes, length_bytes });
                Ok(())
            }
        }
    }

    /// Gives the places of an object back.
    pub(super) fn remove(&mut self, server: u32, object: Object) {
        if let Self::Kept(servers) = self {
            servers[server as usize].delete(object.key());
        }
    }
}

impl EvenPlaces {
    fn parts(
        shapes: &[FileShape],
        needed_bytes: u64,
        capacity_bytes: u64,
        turn_bytes: u64,
    ) -> Vec<EvenPart> {
        let spare = capacity_bytes as f64 / needed_bytes.max(1) as f64;
        let mut first_byte = 0;
        let part = |shape: &FileShape| {
            let slots = shape.objects();
            // Whole blocks of 4 KiB, as disks have them, where there is room for them.
            let roomy = ((shape.object_bytes() as f64 * spare) as u64) & !0xfff;
            let slot_bytes = roomy.max(shape.object_bytes());
            let turns = shape.object_bytes().div_ceil(turn_bytes) * slots;
            let group_turns = (GROUP_BYTES / turn_bytes).max(1);
            let groups = turns.div_ceil(group_turns).max(1);
            let part = EvenPart {
                shape: *shape,
                first_byte,
                slot_bytes,
                slots,
                stride: golden_stride(slots),
                group_turns,
                group_stride: ((slots * slot_bytes / groups) & !0xfff)
                    .max(group_turns * turn_bytes),
            };
            first_byte += slots * slot_bytes;
            part
        };
        shapes.iter().map(part).collect()
    }

    /// Where an object begins.
    fn base(&self, server: u32, object: Object) -> u64 {
        let part = &self.parts[object.application as usize];
        let shift = self.shifts[server as usize];
        let slot = (part.shape.rank(object) * part.stride + shift) % part.slots;
        part.first_byte + slot * part.slot_bytes
    }

    /// Appends where a range of an object lies when objects have taken turns.
    fn turns(&self, server: u32, object: Object, range: Piece, pieces: &mut Vec<Piece>) {
        let part = &self.parts[object.application as usize];
        let shift = self.shifts[server as usize];
        let slot = (part.shape.rank(object) + shift) % part.slots;
        let end = range.offset_bytes + range.length_bytes;
        let turn_bytes = self.turn_bytes;
        let mut at = range.offset_bytes;
        while at < end {
            let (round, within) = (at / turn_bytes, at % turn_bytes);
            let length_bytes = (turn_bytes - within).min(end - at);
            let turn = round * part.slots + slot;
            let group = turn / part.group_turns;
            let within = turn % part.group_turns * turn_bytes + within;
            let offset_bytes = part.first_byte + group * part.group_stride + within;
            pieces.push(Piece { offset_bytes, length_bytes });
            at += length_bytes;
        }
    }
}

impl Object {
    /// As the lab names objects to its placement.
    pub(super) fn key(self) -> u64 {
        let file = u64::from(self.application) << 36 | (u64::from(self.file) + 1);
        file.rotate_left(20) ^ u64::from(self.stripe)
    }
}

/// The number next to `count` by the golden ratio that shares no factor with it.
pub(crate) fn golden_stride(count: u64) -> u64 {
    let golden = ((count as f64 * 0.618_033_988_749_894_8) as u64).max(1);
    let shares = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a > 1
    };
    (golden..=count.max(1)).find(|stride| !shares(*stride, count)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn even_places_never_overlap() {
        let shape = |files, stripes| FileShape {
            files,
            file_bytes: 8 << 20,
            servers: 5,
            stripes,
            unit_bytes: 1 << 20,
        };
        let shapes = [shape(13, 3), shape(7, 5)];
        let options = ServerOptions { count: 5, placement: Placing::Even, ..Default::default() };
        let mut places = Places::new(&options, &shapes, 3).unwrap();
        let mut seen = BTreeSet::new();
        let mut pieces = Vec::new();
        for (application, shape) in shapes.iter().enumerate() {
            for file in 0..shape.files as u32 {
                for stripe in 0..shape.stripes {
                    let object = Object { application: application as u32, file, stripe };
                    let server = (file + stripe) % 5;
                    pieces.clear();
                    places.locate(server, object, 0, shape.object_bytes(), &mut pieces).unwrap();
                    assert!(seen.insert((server, pieces[0].offset_bytes)), "{object:?}");
                }
            }
        }
        let starts: Vec<_> = seen.into_iter().collect();
        for pair in starts.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            assert!(pair[1].1 - pair[0].1 >= 8 << 20, "{pair:?}");
        }
    }

    #[test]
    fn objects_that_took_turns_lie_between_each_other() {
        let shape = FileShape {
            files: 5,
            file_bytes: 64 << 20,
            servers: 4,
            stripes: 4,
            unit_bytes: 1 << 20,
        };
        let placement = Placing::Interleaved;
        let options = ServerOptions { count: 4, placement, ..Default::default() };
        let mut places = Places::new(&options, &[shape], 3).unwrap();
        let mut pieces = Vec::new();
        for file in 0..5 {
            let object = Object { application: 0, file, stripe: 1 };
            places.locate(2, object, 0, 16 << 20, &mut pieces).unwrap();
        }
        let mut starts: Vec<_> = pieces.iter().map(|piece| piece.offset_bytes >> 22).collect();
        assert_eq!(starts[1] - starts[0], 5);
        starts.sort_unstable();
        assert_eq!(starts, (0..20).collect::<Vec<_>>());
    }

    /// Two files of 1 GiB on one server take turns in 16 groups of 128 MiB. Over 10 GiB a group
    /// begins every 640 MiB: the 17th turn of a file is in the second.
    #[test]
    fn groups_of_turns_are_spread_over_a_region() {
        let shape = FileShape {
            files: 2,
            file_bytes: 1 << 30,
            servers: 1,
            stripes: 1,
            unit_bytes: 1 << 20,
        };
        let placement = Placing::Interleaved;
        let region = Some(10 << 30);
        let options = ServerOptions { count: 1, placement, region, ..Default::default() };
        let mut places = Places::new(&options, &[shape], 3).unwrap();
        let mut of = |file, turn: u64| {
            let mut pieces = Vec::new();
            let object = Object { application: 0, file, stripe: 0 };
            places.locate(0, object, turn << 22, 1 << 20, &mut pieces).unwrap();
            pieces[0].offset_bytes
        };
        let first = of(0, 0).min(of(1, 0));
        assert_eq!((first, of(0, 0).abs_diff(of(1, 0))), (0, 4 << 20), "turns of 4 MiB");
        assert_eq!((of(0, 1) - of(0, 0), of(0, 16) - of(0, 0)), (8 << 20, 640 << 20));
        let last = of(0, 255).max(of(1, 255)) + (4 << 20);
        assert_eq!(last, (15 * 640 + 128) << 20);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let shape = FileShape {
            files: 1_000,
            file_bytes: 1 << 30,
            servers: 1,
            stripes: 1,
            unit_bytes: 1 << 20,
        };
        for placement in [Placing::Apart, Placing::Arrival, Placing::Even] {
            let options = ServerOptions { count: 1, placement, ..Default::default() };
            assert!(Places::new(&options, &[shape], 0).is_err());
        }
    }
}
