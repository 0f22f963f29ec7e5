//! Short texts on the stack, for where nothing may be allocated.

use std::ffi::CStr;

/// A text of at most 255 bytes; what does not fit in is dropped.
pub(super) struct Text {
    bytes: [u8; 255],
    length: usize,
}

impl Text {
    pub(super) fn new(start: &str) -> Self {
        let mut text = Self { bytes: [0; 255], length: 0 };
        text.push(start);
        text
    }

    pub(super) fn push(&mut self, more: &str) {
        if let Some(room) = self.bytes.get_mut(self.length..self.length + more.len()) {
            room.copy_from_slice(more.as_bytes());
            self.length += more.len();
        }
    }

    pub(super) fn number(&mut self, number: u64) {
        let mut divisor = 1;
        while number / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            let digit = b'0' + (number / divisor % 10) as u8;
            self.push(std::str::from_utf8(&[digit]).unwrap_or_default());
            divisor /= 10;
        }
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    /// The directory in which `path` stands; none when it is too long or not UTF-8.
    pub(super) fn directory_of(path: &CStr) -> Option<Self> {
        let path = path.to_str().ok().filter(|path| path.len() < 255)?;
        Some(Self::new(match path.rsplit_once('/') {
            None => ".",
            Some(("", _)) => "/",
            Some((directory, _)) => directory,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_directories_are_written_as_usual() {
        let mut text = Text::new("/proc/");
        text.number(0);
        text.push("-");
        text.number(18_446_744_073_709_551_615);
        assert_eq!(text.as_str(), "/proc/0-18446744073709551615");
        for (path, directory) in [(c"/dev/shm/x", "/dev/shm"), (c"x", "."), (c"/x", "/")] {
            assert_eq!(Text::directory_of(path).unwrap().as_str(), directory);
        }
        let long = Text::new(&"a".repeat(256));
        assert_eq!(long.as_str(), "");
    }
}
