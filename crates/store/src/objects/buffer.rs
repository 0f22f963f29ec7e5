//! Buffers for data on its way: aligned for direct I/O, and used again.
//!
//! Fresh memory of 1 MiB costs the kernel 256 page faults and the zeroing of every page, which is
//! more than the copy from the socket. A buffer goes back to its pool when the last view of it is
//! dropped, wherever that happens: its pages stay mapped and its bytes initialized.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::sync::lock;

/// Alignment of every buffer; what direct I/O asks for on any common device.
pub const ALIGNMENT: usize = 4096;
// Small ones are left to the allocator, which is good at them.
const SMALLEST_POOLED: usize = 32 << 10;
const CLASSES: usize = 12;

/// A pool of buffers in sizes of powers of two; clones share it.
#[derive(Clone, Debug)]
pub struct BufferPool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    idle: Mutex<Idle>,
    keep_bytes: usize,
}

#[derive(Debug, Default)]
struct Idle {
    classes: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
}

/// Bytes of a chosen length, initialized with anything; starts at a multiple of [`ALIGNMENT`] when
/// it is longer than 32 KiB.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
    home: Option<Arc<Shared>>,
}

impl BufferPool {
    /// A pool that keeps at most `keep_bytes` of idle buffers.
    pub fn new(keep_bytes: usize) -> Self {
        Self(Arc::new(Shared { idle: Mutex::default(), keep_bytes }))
    }

    /// A buffer of `length` bytes with arbitrary content.
    ///
    /// ```
    /// let pool = afflux_store::objects::buffer::BufferPool::new(1 << 20);
    /// let mut buffer = pool.take(100_000);
    /// buffer.fill(7);
    /// assert_eq!(buffer.freeze().len(), 100_000);
    /// ```
    pub fn take(&self, length: usize) -> Buffer {
        let Some(class) = class_of(length) else {
            return Buffer { memory: vec![0; length], start: 0, length, home: None };
        };
        let used = lock(&self.0.idle).take(class);
        let memory = used.unwrap_or_else(|| vec![0; class_bytes(class) + ALIGNMENT]);
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Buffer { memory, start, length, home: Some(Arc::clone(&self.0)) }
    }

    /// Bytes of idle buffers.
    pub fn idle_bytes(&self) -> usize {
        lock(&self.0.idle).bytes
    }
}

impl Idle {
    fn take(&mut self, class: usize) -> Option<Vec<u8>> {
        let memory = self.classes[class].pop()?;
        self.bytes -= memory.len();
        Some(memory)
    }
}

/// The smallest class that holds `length` bytes; `None` for those that are not pooled.
fn class_of(length: usize) -> Option<usize> {
    if length < SMALLEST_POOLED {
        return None;
    }
    let class = length.div_ceil(SMALLEST_POOLED).next_power_of_two().trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

const fn class_bytes(class: usize) -> usize {
    SMALLEST_POOLED << class
}

impl Buffer {
    /// Shortens the buffer.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The bytes, to be shared and cut; the memory goes home with the last of them.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// How much memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.memory.len()
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(home) = self.home.take() else { return };
        let memory = std::mem::take(&mut self.memory);
        let mut idle = lock(&home.idle);
        let Some(class) = class_of(memory.len() - ALIGNMENT) else { return };
        if idle.bytes + memory.len() <= home.keep_bytes {
            idle.bytes += memory.len();
            idle.classes[class].push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_used_again() {
        let pool = BufferPool::new(4 << 20);
        let mut first = pool.take(1 << 20);
        assert_eq!(first.as_ptr().align_offset(ALIGNMENT), 0);
        first.fill(3);
        let address = first.as_ptr();
        let bytes = first.freeze();
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!((pool.idle_bytes(), part[0]), (0, 3), "a view keeps the memory");
        drop(part);
        assert_eq!(pool.idle_bytes(), (1 << 20) + ALIGNMENT);
        assert_eq!(pool.take((1 << 20) - 5).as_ptr(), address);
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_may() {
        let pool = BufferPool::new(3 << 20);
        drop((0..10).map(|_| pool.take(1 << 20)).collect::<Vec<_>>());
        assert!(pool.idle_bytes() <= 3 << 20, "{}", pool.idle_bytes());
        for length in [0, 1, 32 << 10, (32 << 10) + 1, 16 << 20, 100 << 20] {
            assert_eq!(pool.take(length).len(), length);
        }
    }
}
