//! CRC32C, the checksum of frames and journal records: in one go, or piece by piece.

use crc_fast::{CrcAlgorithm, Digest};

const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

/// The checksum of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(ALGORITHM, bytes) as u32
}

/// The checksum of bytes that come in pieces.
pub(crate) struct Running(Digest);

impl Running {
    pub(crate) fn new() -> Self {
        Self(Digest::new(ALGORITHM))
    }

    /// Takes the next piece.
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The checksum of all pieces so far.
    pub(crate) fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_crc32c_however_the_bytes_come() {
        // The check value of the algorithm's catalogue entry.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at * 31 % 251) as u8).collect();
        for size in [1, 7, 64, 4_096, 65_537] {
            let mut running = Running::new();
            bytes.chunks(size).for_each(|piece| running.update(piece));
            assert_eq!(running.finish(), crc32c(&bytes), "in pieces of {size}");
        }
    }
}
