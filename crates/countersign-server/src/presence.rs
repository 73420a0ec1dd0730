//! Proof that a server is the one of a data folder, before anybody shows it a token.
//!
//! A server that was killed leaves its address behind, and whoever listens there next must not be told this machine's tokens.
//! So a client sends random text first, and only who has the folder's key can answer it. An answer is good for one port: nobody
//! can have it given by the server at another.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The request header with random text.
pub const CHALLENGE: &str = "countersign-challenge";
/// The response header that answers it.
pub const PROOF: &str = "countersign-proof";
/// The longest text that is answered.
pub const MAX_CHALLENGE_BYTES: usize = 128;

/// What a server on this port answers; nothing to a text that is too long.
pub fn proof(key: &[u8; 32], port: u16, challenge: &str) -> Option<String> {
    let bytes = mac(key, port, challenge)?.finalize().into_bytes();
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether this is what the server of this key answers on this port.
pub fn is_proven(key: &[u8; 32], port: u16, challenge: &str, shown: &str) -> bool {
    let bytes: Option<Vec<u8>> = (0..shown.len().div_ceil(2))
        .map(|i| shown.get(2 * i..2 * i + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect();
    match (mac(key, port, challenge), bytes) {
        (Some(mac), Some(bytes)) => mac.verify_slice(&bytes).is_ok(),
        _ => false,
    }
}

/// The key also seals cookies and request states; the first word keeps them apart.
fn mac(key: &[u8; 32], port: u16, challenge: &str) -> Option<Hmac<Sha256>> {
    if challenge.len() > MAX_CHALLENGE_BYTES {
        return None;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in ["presence", &port.to_string(), challenge] {
        mac.update(part.as_bytes());
        mac.update(&[0]);
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    #[test]
    fn only_the_same_key_on_the_same_port_answers_the_same_text() {
        let shown = proof(&KEY, 7420, "random").unwrap();
        assert!(is_proven(&KEY, 7420, "random", &shown));
        assert!(!is_proven(&[8; 32], 7420, "random", &shown));
        assert!(!is_proven(&KEY, 7421, "random", &shown));
        assert!(!is_proven(&KEY, 7420, "other", &shown));
        for forged in ["", "zz", "é", &shown[..62], &format!("{shown}00")] {
            assert!(!is_proven(&KEY, 7420, "random", forged), "{forged:?}");
        }
    }

    #[test]
    fn a_text_at_its_bound_is_answered_and_a_longer_one_is_not() {
        assert!(proof(&KEY, 1, &"x".repeat(MAX_CHALLENGE_BYTES)).is_some());
        assert!(proof(&KEY, 1, &"x".repeat(MAX_CHALLENGE_BYTES + 1)).is_none());
    }
}
