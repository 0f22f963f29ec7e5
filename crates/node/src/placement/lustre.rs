//! Lustre: the attribute `lustre.lov`, in the three structures that clients meet.
//!
//! Numbers are little-endian as on disk; a client of the other order swaps them, which the magic
//! tells. The field that holds the stripe offset is overwritten on reading and means nothing.

use super::{Placement, PlacementError, Reader, Server};

pub(super) const READER: Reader =
    Reader { name: "lustre", file_systems: &[0x0BD0_0BD0], attribute: c"lustre.lov", read };

const V1: u32 = 0x0BD1_0BD0;
const V3: u32 = 0x0BD3_0BD0;
const COMPOSITE: u32 = 0x0BD6_0BD0;
const SELF_EXTENDING: u32 = 0x0BD8_0BD0;

/// Size of an object in the list of a plain layout.
const OBJECT: usize = 24;
/// Sizes of the heads of version 1, of version 3, and of a composite and its entries.
const HEAD_V1: usize = 32;
const HEAD_V3: usize = 48;
const HEAD_COMPOSITE: usize = 32;
const ENTRY: usize = 48;

/// A component is out of date: a mirror that must not be used.
const STALE: u32 = 1;
/// A component has its objects.
const INITIALISED: u32 = 0x10;
/// A component that only stands for space to grow into.
const EXTENSION: u32 = 0x40;
/// Patterns without objects on storage targets: data kept with the names, and released files.
const ON_METADATA: u32 = 0x100;
const RELEASED: u32 = 0x8000_0000;

/// Bytes with the order that their magic showed.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    bytes: &'a [u8],
    swapped: bool,
}

impl<'a> Bytes<'a> {
    fn take<const N: usize>(self, at: usize) -> Result<[u8; N], PlacementError> {
        let found = self.bytes.get(at..at.saturating_add(N)).and_then(|part| part.try_into().ok());
        found.ok_or(PlacementError::Short(self.bytes.len()))
    }

    fn u16(self, at: usize) -> Result<u16, PlacementError> {
        let value = u16::from_le_bytes(self.take(at)?);
        Ok(if self.swapped { value.swap_bytes() } else { value })
    }

    fn u32(self, at: usize) -> Result<u32, PlacementError> {
        let value = u32::from_le_bytes(self.take(at)?);
        Ok(if self.swapped { value.swap_bytes() } else { value })
    }

    fn u64(self, at: usize) -> Result<u64, PlacementError> {
        let value = u64::from_le_bytes(self.take(at)?);
        Ok(if self.swapped { value.swap_bytes() } else { value })
    }

    fn part(self, at: usize, length: usize) -> Result<Self, PlacementError> {
        let bytes = self.bytes.get(at..at.saturating_add(length));
        let bytes = bytes.ok_or(PlacementError::Short(self.bytes.len()))?;
        Ok(Self { bytes, ..self })
    }
}

fn read(bytes: &[u8]) -> Result<Placement<'_>, PlacementError> {
    let mut bytes = Bytes { bytes, swapped: false };
    let magic = bytes.u32(0)?;
    let known = [V1, V3, COMPOSITE, SELF_EXTENDING];
    bytes.swapped = known.contains(&magic.swap_bytes());
    let mut placement = Placement::empty();
    match bytes.u32(0)? {
        V1 | V3 => plain(&mut placement, bytes, 0, u64::MAX, true)?,
        COMPOSITE | SELF_EXTENDING => composite(&mut placement, bytes)?,
        other => return Err(PlacementError::Kind(other)),
    }
    Ok(placement)
}

/// A layout of version 1 or 3 that holds for the bytes from `start` to `end`.
fn plain<'a>(
    placement: &mut Placement<'a>,
    bytes: Bytes<'a>,
    start: u64,
    end: u64,
    has_objects: bool,
) -> Result<(), PlacementError> {
    let head = match bytes.u32(0)? {
        V1 => HEAD_V1,
        V3 => HEAD_V3,
        other => return Err(PlacementError::Kind(other)),
    };
    let pattern = bytes.u32(4)?;
    let (unit, count) = (bytes.u32(24)?, usize::from(bytes.u16(28)?));
    placement.push_part(start, end, u64::from(unit.max(1)))?;
    if !has_objects || pattern & (ON_METADATA | RELEASED) != 0 {
        return Ok(());
    }
    if bytes.bytes.len() < head + count * OBJECT {
        return Err(PlacementError::Short(bytes.bytes.len()));
    }
    for object in 0..count {
        let target = bytes.u32(head + object * OBJECT + 20)?;
        placement.push_server(Server::Ost(target))?;
    }
    Ok(())
}

/// A composite: of stretches that overlap (mirrors) the first that is not out of date counts.
fn composite<'a>(placement: &mut Placement<'a>, bytes: Bytes<'a>) -> Result<(), PlacementError> {
    let entries = usize::from(bytes.u16(14)?);
    for entry in 0..entries {
        let at = HEAD_COMPOSITE + entry * ENTRY;
        let flags = bytes.u32(at + 4)?;
        let (start, end) = (bytes.u64(at + 8)?, bytes.u64(at + 16)?);
        let (offset, length) = (bytes.u32(at + 24)? as usize, bytes.u32(at + 28)? as usize);
        let covered = placement.parts().iter().any(|part| part.start < end && start < part.end);
        if flags & (STALE | EXTENSION) != 0 || start >= end || covered {
            continue;
        }
        let part = bytes.part(offset, length)?;
        plain(placement, part, start, end, flags & INITIALISED != 0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The head of a real file (two bytes of its end were not shown), and one object for its
    /// stripe.
    const CAPTURED: &str = "d00bd10b 01000000 0600000000000000 0004000002000000 00001000 0100 0000";

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn object(target: u32) -> Vec<u8> {
        [[0; 20].as_slice(), &target.to_le_bytes()].concat()
    }

    fn plain_of(magic: u32, unit: u32, targets: &[u32]) -> Vec<u8> {
        let mut bytes = [magic.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        bytes.extend([0; 16]);
        bytes.extend(unit.to_le_bytes());
        bytes.extend((targets.len() as u16).to_le_bytes());
        bytes.extend([0xff, 0xff]);
        if magic == V3 {
            bytes.extend(*b"pool\0\0\0\0\0\0\0\0\0\0\0\0");
        }
        targets.iter().for_each(|target| bytes.extend(object(*target)));
        bytes
    }

    fn composite_of(entries: &[(u32, u64, u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = COMPOSITE.to_le_bytes().to_vec();
        bytes.extend([0; 10]);
        bytes.extend((entries.len() as u16).to_le_bytes());
        bytes.resize(HEAD_COMPOSITE, 0);
        let mut blobs: Vec<u8> = Vec::new();
        for (flags, start, end, blob) in entries {
            let offset = HEAD_COMPOSITE + entries.len() * ENTRY + blobs.len();
            let mut entry = [[0; 4], flags.to_le_bytes()].concat();
            entry.extend(start.to_le_bytes());
            entry.extend(end.to_le_bytes());
            entry.extend((offset as u32).to_le_bytes());
            entry.extend((blob.len() as u32).to_le_bytes());
            entry.resize(ENTRY, 0);
            bytes.extend(entry);
            blobs.extend(blob);
        }
        bytes.extend(blobs);
        bytes
    }

    #[test]
    fn a_captured_head_with_its_object_is_read() {
        let bytes = [hex(CAPTURED), object(7)].concat();
        let placement = read(&bytes).unwrap();
        assert_eq!(placement.parts()[0].unit_bytes, 1 << 20);
        assert_eq!(placement.server_at(123 << 20), Some(Server::Ost(7)));
    }

    #[test]
    fn stripes_go_round_the_targets() {
        for magic in [V1, V3] {
            let bytes = plain_of(magic, 1 << 16, &[4, 0, 9]);
            let placement = read(&bytes).unwrap();
            let at = |unit: u64| placement.server_at(unit << 16).unwrap().to_string();
            assert_eq!([at(0), at(1), at(2), at(3)], ["OST0004", "OST0000", "OST0009", "OST0004"]);
        }
    }

    #[test]
    fn a_composite_has_its_own_targets_for_each_stretch() {
        let (small, large) = (plain_of(V1, 1 << 20, &[3]), plain_of(V3, 1 << 22, &[5, 6]));
        let bytes = composite_of(&[
            (INITIALISED, 0, 1 << 20, small.clone()),
            (INITIALISED | STALE, 0, 1 << 20, large.clone()),
            (INITIALISED, 1 << 20, 1 << 30, large),
            (0, 1 << 30, u64::MAX, plain_of(V1, 1 << 22, &[])),
        ]);
        let placement = read(&bytes).unwrap();
        assert_eq!(placement.server_at(0), Some(Server::Ost(3)));
        assert_eq!(placement.server_at(4 << 20), Some(Server::Ost(6)));
        assert_eq!(placement.server_at(1 << 30), None, "it has no objects before the first write");
        let mirrored = composite_of(&[(STALE, 0, 9, small.clone()), (INITIALISED, 0, 9, small)]);
        assert_eq!(read(&mirrored).unwrap().server_at(0), Some(Server::Ost(3)));
    }

    #[test]
    fn the_other_byte_order_is_swapped() {
        let mut bytes = plain_of(V1, 1 << 16, &[4]);
        for (at, size) in [(0, 4), (4, 4), (24, 4), (28, 2), (52, 4)] {
            bytes[at..at + size].reverse();
        }
        assert_eq!(read(&bytes).unwrap().server_at(0), Some(Server::Ost(4)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let cut = plain_of(V1, 1 << 16, &[4, 5]);
        assert_eq!(read(&cut[..60]).unwrap_err(), PlacementError::Short(60));
        assert_eq!(read(&[1, 2]).unwrap_err(), PlacementError::Short(2));
        assert_eq!(read(&[0xd0, 0x0b, 0xd7, 0x0b]).unwrap_err(), PlacementError::Kind(0x0BD7_0BD0));
        let lost = composite_of(&[(INITIALISED, 0, 9, plain_of(V1, 1, &[1]))]);
        assert!(matches!(read(&lost[..90]), Err(PlacementError::Short(_))));
        let many = plain_of(V1, 1 << 16, &[1; 300]);
        assert_eq!(read(&many).unwrap_err(), PlacementError::Large("256 servers"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail_otherwise(mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            magic in prop::sample::select(vec![V1, V3, COMPOSITE, SELF_EXTENDING]),
        ) {
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&magic.to_le_bytes());
            }
            if let Ok(placement) = read(&bytes) {
                placement.server_at(u64::MAX - 1);
                placement.server_at(0);
            }
        }
    }
}
