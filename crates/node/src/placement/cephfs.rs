//! CephFS: the attribute `ceph.file.layout`, as in
//! `stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=data`.
//!
//! Which server keeps which object is the work of Ceph's placement function and stands nowhere in
//! the layout. What is told apart is therefore the pool, which a site may bind to some servers.

use super::{FUSE, Placement, PlacementError, Reader, Server};

pub(super) const READER: Reader = Reader {
    name: "cephfs",
    file_systems: &[0x00C3_6400, FUSE],
    attribute: c"ceph.file.layout",
    read,
};

/// How a file is cut into objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping<'a> {
    /// Bytes in a row in one object; not zero.
    pub unit_bytes: u64,
    /// Objects that are written in turn; not zero.
    pub count: u64,
    /// Bytes of an object, some units; not zero.
    pub object_bytes: u64,
    /// The pool that the objects are in.
    pub pool: &'a str,
    /// The name space within the pool; empty for the common one.
    pub name_space: &'a str,
}

impl<'a> Striping<'a> {
    /// Takes the attribute apart.
    ///
    /// # Errors
    /// It is no layout.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PlacementError> {
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| PlacementError::Wrong("it is no text"))?;
        let field = |name: &str| {
            let mut fields = text.trim_end_matches('\0').split_whitespace();
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let number = |name: &str, why: &'static str| {
            let value = field(name).and_then(|value| value.parse().ok());
            value.filter(|value| *value > 0).ok_or(PlacementError::Wrong(why))
        };
        let striping = Self {
            unit_bytes: number("stripe_unit", "there is no stripe_unit")?,
            count: number("stripe_count", "there is no stripe_count")?,
            object_bytes: number("object_size", "there is no object_size")?,
            pool: field("pool").ok_or(PlacementError::Wrong("there is no pool"))?,
            name_space: field("pool_namespace").unwrap_or_default(),
        };
        match striping.object_bytes.is_multiple_of(striping.unit_bytes) {
            true => Ok(striping),
            false => Err(PlacementError::Wrong("an object is not a number of units")),
        }
    }

    /// Which of a file's objects has the byte at `offset`, and where in it.
    pub const fn object(&self, offset: u64) -> (u64, u64) {
        let (unit, within) = (offset / self.unit_bytes, offset % self.unit_bytes);
        let (row, column) = (unit / self.count, unit % self.count);
        let rows = self.object_bytes / self.unit_bytes;
        (row / rows * self.count + column, row % rows * self.unit_bytes + within)
    }
}

fn read(bytes: &[u8]) -> Result<Placement<'_>, PlacementError> {
    let striping = Striping::read(bytes)?;
    let mut placement = Placement::empty();
    placement.push_part(0, u64::MAX, striping.unit_bytes)?;
    placement.push_server(Server::Pool(striping.pool))?;
    Ok(placement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_the_server() {
        let layout = b"stripe_unit=1048576 stripe_count=8 object_size=4194304 pool=dgb";
        let placement = read(layout).unwrap();
        assert_eq!(placement.server_at(9 << 20), Some(Server::Pool("dgb")));
        assert_eq!(placement.parts()[0].unit_bytes, 1 << 20);
    }

    #[test]
    fn half_a_layout_is_refused() {
        for layout in [
            "stripe_unit=0 stripe_count=1 object_size=1 pool=a",
            "stripe_unit=65536 stripe_count=1 object_size=65536",
            "stripe_unit=65536 stripe_count=1 object_size=65537 pool=a",
            "stripe_unit=65536 stripe_count=0 object_size=65536 pool=a",
            "pool=a",
            "",
            "stripe_unit=x",
        ] {
            assert!(matches!(read(layout.as_bytes()), Err(PlacementError::Wrong(_))), "{layout}");
        }
        assert!(matches!(read(&[0xff]), Err(PlacementError::Wrong(_))));
    }
    #[test]
    fn units_go_round_the_objects_of_a_set() {
        let layout = b"stripe_unit=10 stripe_count=3 object_size=20 pool=a pool_namespace=n";
        let striping = Striping::read(layout).unwrap();
        assert_eq!((striping.pool, striping.name_space), ("a", "n"));
        let at = |offset| striping.object(offset);
        assert_eq!([at(0), at(9), at(10), at(29)], [(0, 0), (0, 9), (1, 0), (2, 9)]);
        // The second row of the first set, and the first of the second.
        assert_eq!([at(30), at(59), at(60), at(95)], [(0, 10), (2, 19), (3, 0), (3, 15)]);
    }
}
