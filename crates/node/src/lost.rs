//! Programs of a run whose own counters found no room: they are counted in one small file, which
//! the run has made with its memory before any program starts. So a report can say what it lacks.

/// The file's name in the folder of the run.
pub const FILE: &str = "lost";

/// Places of the 64-bit words that the file consists of, in the machine's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Lost {
    /// Programs without counters.
    Programs = 0,
    /// Of these, programs with controllers of their own.
    Private = 1,
}

impl Lost {
    /// Words of the file.
    pub const WORDS: usize = 2;
    /// The file as it is made.
    pub const NONE: [u8; 8 * Self::WORDS] = [0; 8 * Self::WORDS];

    /// What the bytes of the file say of this; none where they are too few.
    pub fn told(self, bytes: &[u8]) -> Option<u64> {
        let word = bytes.get(8 * self as usize..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_and_a_short_file_tells_nothing() {
        let mut bytes = Lost::NONE;
        bytes[8..].copy_from_slice(&7_u64.to_ne_bytes());
        assert_eq!((Lost::Programs.told(&bytes), Lost::Private.told(&bytes)), (Some(0), Some(7)));
        assert_eq!(Lost::Private.told(&bytes[..15]), None);
    }
}
