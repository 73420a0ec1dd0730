//! Reproducible random numbers: SHA-256 over seed and counter.
//!
//! Promise: the same seed gives the same numbers on every machine, and the next number cannot be predicted from others.

use sha2::{Digest, Sha256};

const BLOCK: usize = 32;

pub(super) struct Randomness {
    seed: [u8; 32],
    counter: u64,
    block: [u8; BLOCK],
    taken: usize,
}

impl Randomness {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self { seed, counter: 0, block: [0; BLOCK], taken: BLOCK }
    }

    pub(super) fn bits(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    /// A number from 0 to 1, without 1, in steps of 2^-53.
    pub(super) fn fraction(&mut self) -> f64 {
        const STEPS: f64 = (1_u64 << 53) as f64;
        (u64::from_le_bytes(self.bytes()) >> 11) as f64 / STEPS
    }

    /// A version 4 UUID.
    pub(super) fn uuid(&mut self) -> String {
        let bits = u128::from_be_bytes(self.bytes());
        let versioned = bits & !(0xf << 76) & !(0b11 << 62) | (0x4 << 76) | (0b10 << 62);
        let hex = format!("{versioned:032x}");
        [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| &hex[from..to]).join("-")
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            if self.taken == BLOCK {
                let digest = Sha256::new().chain_update(self.seed).chain_update(self.counter.to_le_bytes());
                self.block = digest.finalize().into();
                self.counter += 1;
                self.taken = 0;
            }
            *byte = self.block[self.taken];
            self.taken += 1;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| {
            let mut stream = Randomness::new([seed; 32]);
            (0..100).map(|_| stream.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(7)[0], 0xb8c3_877c, "journaled scripts depend on the stream: it may not change");
    }

    #[test]
    fn fractions_lie_from_0_to_below_1_and_uuids_are_of_version_4() {
        let mut stream = Randomness::new([3; 32]);
        let all: Vec<f64> = (0..10_000).map(|_| stream.fraction()).collect();
        assert!(all.iter().all(|f| (0.0..1.0).contains(f)));
        let mean = all.iter().sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
        for _ in 0..100 {
            let uuid = stream.uuid();
            assert_eq!(uuid.len(), 36);
            assert_eq!(&uuid[14..15], "4");
            assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        }
    }
}
