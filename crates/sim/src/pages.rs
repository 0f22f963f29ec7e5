//! What clients and servers keep in memory of what was read and written there lately.
//!
//! Reads of it need no server, or no device; writes go their way all the same. Lustre's servers do
//! so by default (`read_cache_enable`, `writethrough_cache_enable`), its clients unless a file is
//! open for direct I/O. What was not used for the longest time goes first.

use std::collections::BTreeMap;

/// Bytes that are kept or given up together.
const BLOCK_BYTES: u64 = 64 << 10;

/// The memories of all clients, or of all servers.
#[derive(Debug)]
pub(crate) struct PageCache {
    /// Blocks that fit into one; zero where nothing is kept.
    most: usize,
    each: Vec<Pages>,
}

/// A file or an object, and a block of it.
type Place = (u64, u64);

#[derive(Clone, Debug, Default)]
struct Pages {
    /// How many bytes of each block are there, from its first, and when they were used last.
    held: BTreeMap<Place, (u64, u64)>,
    /// The same by time of use.
    by_use: BTreeMap<u64, Place>,
    uses: u64,
}

impl PageCache {
    /// Empty memories of `capacity_bytes` each.
    pub(crate) fn new(count: u32, capacity_bytes: u64) -> Self {
        let most = (capacity_bytes / BLOCK_BYTES) as usize;
        let count = if most == 0 { 0 } else { count as usize };
        Self { most, each: vec![Pages::default(); count] }
    }

    /// Whether all of a range of an object is there, which then counts as used.
    pub(crate) fn has(&mut self, at: u32, object: u64, offset: u64, length: u64) -> bool {
        let Some(pages) = self.each.get_mut(at as usize) else { return false };
        let there = blocks(offset, length).all(|(block, _, end)| {
            pages.held.get(&(object, block)).is_some_and(|(bytes, _)| *bytes >= end)
        });
        if there {
            blocks(offset, length).for_each(|(block, ..)| pages.touch((object, block), 0));
        }
        there
    }

    /// Keeps a range of an object. Of a block only what reaches back to its first byte is kept.
    pub(crate) fn keep(&mut self, at: u32, object: u64, offset: u64, length: u64) {
        let Some(pages) = self.each.get_mut(at as usize) else { return };
        for (block, start, end) in blocks(offset, length) {
            let place = (object, block);
            let bytes = pages.held.get(&place).map_or(0, |(bytes, _)| *bytes);
            if start <= bytes {
                pages.touch(place, end);
            }
        }
        while pages.held.len() > self.most {
            let Some((_, oldest)) = pages.by_use.pop_first() else { return };
            pages.held.remove(&oldest);
        }
    }

    /// Forgets an object that is no more.
    pub(crate) fn remove(&mut self, at: u32, object: u64) {
        let Some(pages) = self.each.get_mut(at as usize) else { return };
        let all = (object, 0)..=(object, u64::MAX);
        let places: Vec<_> =
            pages.held.range(all).map(|(place, (_, used))| (*place, *used)).collect();
        for (place, used) in places {
            pages.held.remove(&place);
            pages.by_use.remove(&used);
        }
    }

    /// Forgets all that was kept.
    pub(crate) fn clear(&mut self, at: u32) {
        if let Some(pages) = self.each.get_mut(at as usize) {
            *pages = Pages::default();
        }
    }
}

impl Pages {
    /// Counts a block as used now, with at least so many bytes.
    fn touch(&mut self, place: Place, bytes: u64) {
        self.uses += 1;
        let entry = self.held.entry(place).or_default();
        self.by_use.remove(&entry.1);
        *entry = (entry.0.max(bytes), self.uses);
        self.by_use.insert(self.uses, place);
    }
}

/// The blocks of a range, each with where the range begins and ends in it.
fn blocks(offset: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = offset + length;
    (offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(move |block| {
        let first = block * BLOCK_BYTES;
        (block, offset.saturating_sub(first), (end - first).min(BLOCK_BYTES))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u64 = 7;
    const OTHER: u64 = 8;

    #[test]
    fn what_was_kept_is_there_and_nothing_else() {
        let mut cache = PageCache::new(2, 1 << 20);
        cache.keep(1, ONE, 0, 100_000);
        assert!(cache.has(1, ONE, 0, 100_000) && cache.has(1, ONE, 70_000, 30_000));
        assert!(!cache.has(1, ONE, 0, 100_001), "the block is not all there");
        assert!(!cache.has(0, ONE, 0, 1) && !cache.has(1, OTHER, 0, 1));
        // What goes on where it ended is kept, what leaves a hole is not.
        cache.keep(1, ONE, 100_000, 10_000);
        cache.keep(1, ONE, 120_000, 1_000);
        assert!(cache.has(1, ONE, 0, 110_000) && !cache.has(1, ONE, 120_000, 1_000));
        cache.remove(1, ONE);
        assert!(!cache.has(1, ONE, 0, 1));
        cache.keep(1, OTHER, 0, 1);
        cache.clear(1);
        assert!(!cache.has(1, OTHER, 0, 1));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut cache = PageCache::new(1, 3 * BLOCK_BYTES);
        cache.keep(0, ONE, 0, 3 * BLOCK_BYTES);
        assert!(cache.has(0, ONE, 0, 1));
        cache.keep(0, OTHER, 0, BLOCK_BYTES);
        assert!(cache.has(0, ONE, 0, 1) && cache.has(0, OTHER, 0, BLOCK_BYTES));
        assert!(!cache.has(0, ONE, BLOCK_BYTES, 1), "the oldest");
        assert!(cache.has(0, ONE, 2 * BLOCK_BYTES, 1));
    }

    #[test]
    fn without_memory_nothing_is_kept() {
        let mut cache = PageCache::new(1, 0);
        cache.keep(0, ONE, 0, 1);
        assert!(!cache.has(0, ONE, 0, 1));
    }
}
