//! A small seeded generator, so that the same seed gives the same run on every machine.
//!
//! xoshiro256** by Blackman and Vigna, seeded by splitmix64; streams are forked by label so that
//! adding a consumer does not shift what the others draw.

/// A deterministic source of choices.
///
/// ```
/// use afflux_core::rng::Rng;
/// let mut a = Rng::new(7).fork("client 3");
/// let mut b = Rng::new(7).fork("client 3");
/// assert_eq!(a.below(1000), b.below(1000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    /// An independent generator that depends on this one's seed and on `label` alone.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        // FNV-1a keeps the label's influence independent of its length and of the platform.
        let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut mixer = self.state[0] ^ hash.rotate_left(17) ^ self.state[3].rotate_left(41);
        Self { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A number in `[0, bound)`, all equally likely; zero when the bound is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Lemire's multiply-shift, with rejection of the few values that would favour some.
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// Shuffles in place, all orders equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_sequence() {
        // First outputs of xoshiro256** from the state 1, 2, 3, 4, from its reference program.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!([rng.bits(), rng.bits(), rng.bits()], [11520, 0, 1_509_978_240]);
    }

    #[test]
    fn forks_differ_by_label_and_not_by_order() {
        let root = Rng::new(1);
        assert_ne!(root.fork("a").bits(), root.fork("b").bits());
        assert_eq!(root.fork("a"), root.fork("a"));
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut rng = Rng::new(3);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[rng.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (9_600..10_400).contains(&n)), "{counts:?}");
        assert_eq!(rng.below(0), 0);
    }
}
