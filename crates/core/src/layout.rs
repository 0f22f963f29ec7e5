//! Striping: which bytes of a file lie in which object of which server.

use serde::{Deserialize, Serialize};

/// The striping triple of a file.
///
/// Unit `u` of the file lies in stripe `u % count`, whose object is kept by server
/// `(first_server + stripe) % servers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes in a row on one server; not zero.
    pub unit_bytes: u32,
    /// The server of stripe 0.
    pub first_server: u32,
    /// Number of stripes; not zero, at most the number of servers.
    pub count: u32,
}

/// A run of bytes inside one stripe's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Stripe of the file, below [`Layout::count`].
    pub stripe: u32,
    /// First byte within the stripe's object.
    pub object_offset_bytes: u64,
    /// First byte within the file.
    pub file_offset_bytes: u64,
    /// Length; at most the stripe unit and the `max_request` asked for.
    pub length_bytes: u32,
}

impl Layout {
    /// The server that keeps `stripe`, of `servers` in all.
    pub const fn server(&self, stripe: u32, servers: u32) -> u32 {
        ((self.first_server as u64 + stripe as u64) % servers as u64) as u32
    }

    /// Cuts `[offset, offset + length)` of the file into requests of at most `max_request_bytes`.
    ///
    /// ```
    /// use afflux_core::layout::Layout;
    /// let layout = Layout { unit_bytes: 1 << 20, first_server: 2, count: 4 };
    /// let pieces: Vec<_> = layout.pieces(3 << 19, 1 << 20, 1 << 20).collect();
    /// assert_eq!(pieces.len(), 2);
    /// assert_eq!((pieces[0].stripe, pieces[0].object_offset_bytes), (1, 1 << 19));
    /// assert_eq!((pieces[1].stripe, pieces[1].object_offset_bytes), (2, 0));
    /// assert_eq!(layout.server(pieces[1].stripe, 4), 0);
    /// ```
    pub fn pieces(
        &self,
        offset_bytes: u64,
        length_bytes: u64,
        max_request_bytes: u32,
    ) -> impl Iterator<Item = Piece> + use<> {
        let layout = *self;
        let unit_bytes = u64::from(layout.unit_bytes.max(1));
        let end = offset_bytes.saturating_add(length_bytes);
        let mut at = offset_bytes;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (unit, within) = (at / unit_bytes, at % unit_bytes);
            let count = u64::from(layout.count.max(1));
            let length =
                (unit_bytes - within).min(end - at).min(u64::from(max_request_bytes.max(1)));
            let piece = Piece {
                stripe: (unit % count) as u32,
                object_offset_bytes: unit / count * unit_bytes + within,
                file_offset_bytes: at,
                length_bytes: length as u32,
            };
            at += length;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_cover_the_range_once(
            unit_kib in 1_u32..64, count in 1_u32..6, offset in 0_u64..1 << 20,
            length in 0_u64..1 << 18, max_request in 1_u32..1 << 17,
        ) {
            let layout = Layout { unit_bytes: unit_kib << 10, first_server: 0, count };
            let mut at = offset;
            for piece in layout.pieces(offset, length, max_request) {
                prop_assert_eq!(piece.file_offset_bytes, at);
                prop_assert!(piece.length_bytes > 0 && piece.length_bytes <= max_request);
                prop_assert!(piece.stripe < count);
                // The inverse of the mapping leads back to the byte of the file.
                let unit_bytes = u64::from(layout.unit_bytes);
                let row = piece.object_offset_bytes / unit_bytes;
                let unit = row * u64::from(count) + u64::from(piece.stripe);
                prop_assert_eq!(unit * unit_bytes + piece.object_offset_bytes % unit_bytes, at);
                at += u64::from(piece.length_bytes);
            }
            prop_assert_eq!(at, offset + length);
        }
    }
}
