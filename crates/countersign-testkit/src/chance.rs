//! Chance that can be repeated: one seed, one schedule.

use std::sync::Mutex;
use std::sync::PoisonError;

use countersign_kernel::ports::Entropy;

/// A small deterministic generator (splitmix64). Not for secrets.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(usize::try_from(self.below(from.len() as u64)).unwrap_or(0))
    }
}

/// Entropy that repeats with its seed.
pub struct SeededEntropy(Mutex<Chance>);

impl SeededEntropy {
    /// The entropy of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Chance::new(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn bits(&self) -> Option<[u8; 16]> {
        let mut chance = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bits = (u128::from(chance.draw()) << 64) | u128::from(chance.draw());
        Some(bits.to_be_bytes())
    }
}
