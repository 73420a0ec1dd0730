//! Random bits for ids. The only place of the product that asks the system for them.

/// Gives random bits.
pub trait Entropy: Send + Sync + 'static {
    /// 128 bits that nobody can guess, or nothing if the system has none to give.
    fn bits(&self) -> Option<[u8; 16]>;
}

/// The system's entropy.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is the module that owns randomness")]
    fn bits(&self) -> Option<[u8; 16]> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).ok().map(|()| bits)
    }
}
