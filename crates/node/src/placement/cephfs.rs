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

fn read(bytes: &[u8]) -> Result<Placement<'_>, PlacementError> {
    let text = std::str::from_utf8(bytes).map_err(|_| PlacementError::Wrong("it is no text"))?;
    let field = |name: &str| {
        let mut fields = text.trim_end_matches('\0').split_whitespace();
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    let unit = field("stripe_unit").and_then(|unit| unit.parse().ok());
    let unit = unit.ok_or(PlacementError::Wrong("there is no stripe_unit"))?;
    let pool = field("pool").ok_or(PlacementError::Wrong("there is no pool"))?;
    let mut placement = Placement::empty();
    placement.push_part(0, u64::MAX, unit)?;
    placement.push_server(Server::Pool(pool))?;
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
        for layout in ["stripe_unit=0 pool=a", "stripe_unit=65536", "pool=a", "", "stripe_unit=x"] {
            assert!(matches!(read(layout.as_bytes()), Err(PlacementError::Wrong(_))), "{layout}");
        }
        assert!(matches!(read(&[0xff]), Err(PlacementError::Wrong(_))));
    }
}
