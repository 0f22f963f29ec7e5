//! Requests and operations that are under way, in tables whose places are used again.

use afflux_core::class::Class;
use afflux_core::units::{Span, Time};
use afflux_core::workload::Kind;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// One request: a piece of an operation on its way through a path. While it waits at its path it
/// stands for all pieces of the operation on that path that were not sent yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The operation that it belongs to; counts only while it is awaited.
    pub(crate) operation: u32,
    pub(crate) client: u32,
    /// The file, numbered within the client's application.
    pub(crate) file: u32,
    pub(crate) path: u32,
    /// The server; none for the catalog.
    pub(crate) server: u32,
    /// The next in whatever queue it waits.
    pub(crate) next: u32,
    /// First byte: within the object once it is cut, within the file before.
    pub(crate) offset_bytes: u64,
    /// Length, once it is cut.
    pub(crate) length_bytes: u32,
    pub(crate) built: Time,
    pub(crate) sent: Time,
    /// How long it waited at the server for a thread; before that, when it arrived there, counted
    /// from the beginning.
    pub(crate) queued: Span,
    /// How long devices worked on it.
    pub(crate) access: Span,
    /// Pieces of it that are with devices.
    pub(crate) parts: u16,
    pub(crate) class: Class,
    /// How often it was sent before.
    pub(crate) attempt: u8,
    /// Whether it is one piece, not all that are left.
    pub(crate) cut: bool,
    /// Whether the client still waits for it.
    pub(crate) awaited: bool,
    /// Whether it is on a wire, at a server or at a device.
    pub(crate) under_way: bool,
    /// Whether a service thread is busy with it.
    pub(crate) in_service: bool,
    /// Whether the server that had it died, or the client from which it was to fetch the data.
    pub(crate) lost: bool,
    /// Whether a device works on it that was answered already.
    pub(crate) behind: bool,
}

/// One operation of an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Its client; none once it has ended.
    pub(crate) client: u32,
    pub(crate) thread: u32,
    pub(crate) stream: u32,
    pub(crate) file: u32,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u64,
    pub(crate) started: Time,
    /// Bytes (or requests without data) of this phase that were not answered yet.
    pub(crate) left: u64,
    pub(crate) kind: Kind,
    /// Position among the phases of its kind.
    pub(crate) phase: u8,
    /// Whether the application went on without waiting for its end.
    pub(crate) released: bool,
    pub(crate) failed: bool,
    /// The lock that it holds or waits for.
    pub(crate) lock: u32,
}

/// A table whose free places are used again, the latest first.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = item;
            return index;
        }
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    pub(crate) fn remove(&mut self, index: u32) {
        self.free.push(index);
    }

    /// All indices, free ones too.
    pub(crate) fn indices(&self) -> std::ops::Range<u32> {
        0..self.items.len() as u32
    }

    /// Items that are there.
    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }
}

/// A queue through the `next` of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fifo {
    pub(crate) first: u32,
    last: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    pub(crate) const fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(crate) fn push(&mut self, requests: &mut Slab<Request>, index: u32) {
        requests[index].next = NONE;
        if self.first == NONE {
            self.first = index;
        } else {
            requests[self.last].next = index;
        }
        self.last = index;
    }

    /// Puts `index` before all others.
    pub(crate) fn push_front(&mut self, requests: &mut Slab<Request>, index: u32) {
        requests[index].next = self.first;
        if self.first == NONE {
            self.last = index;
        }
        self.first = index;
    }

    pub(crate) fn pop(&mut self, requests: &Slab<Request>) -> Option<u32> {
        if self.first == NONE {
            return None;
        }
        let index = self.first;
        self.first = requests[index].next;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million clients have at least as many of each.
    #[test]
    fn what_is_under_way_stays_small() {
        assert!(size_of::<Request>() <= 80, "{}", size_of::<Request>());
        assert!(size_of::<Operation>() <= 56, "{}", size_of::<Operation>());
    }
}
