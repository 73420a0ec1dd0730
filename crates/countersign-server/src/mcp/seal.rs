//! `requestState`: what a client of the 2026-07-28 era brings back, sealed so that only this gateway can have written it.
//!
//! Promise: a state opens only for the principal it was given to, for the same method, tool and arguments, unaltered, and
//! before its time is up. It carries ids, no secrets. That it counts once is `rounds.rs`'s to see to.

use std::time::Duration;

use countersign_core::canonical::Canonical;
use countersign_core::digest::Digest;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_sdk::PrincipalId;
use rmcp::model::{JsonObject, RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A state outlives its questions by this, so that an answer a moment late is told that it is late.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// Seals and opens states.
pub(super) struct Seal {
    codec: RequestStateCodec,
}

/// What a state says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The execution that waits.
    pub(super) execution: ExecutionId,
    /// The questions that were put, and what each is bound to.
    pub(super) questions: Vec<(ElicitationId, Digest)>,
    /// How many answers could not be read so far.
    pub(super) unread: u8,
}

/// What a state is bound to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound<'a> {
    pub(super) principal: &'a PrincipalId,
    pub(super) tool: &'a str,
    pub(super) arguments: Option<&'a JsonObject>,
}

impl Seal {
    pub(super) fn new(key: [u8; 32]) -> Self {
        // The key has the length that the codec wants, by its type.
        Self { codec: RequestStateCodec::new_unchecked(key) }
    }

    pub(super) fn close(&self, state: &State, bound: Bound<'_>, lives: Duration) -> Option<String> {
        let bytes = serde_json::to_vec(state).ok()?;
        let context = bound.bytes()?;
        let options = SealOptions::new().associated_data(&context).ttl(lives + GRACE);
        Some(self.codec.seal_with(&bytes, &options))
    }

    /// What a state says; nothing where it is not what this gateway gave for this request.
    pub(super) fn open(&self, sealed: &str, bound: Bound<'_>) -> Option<State> {
        let opened = self.codec.open_with(sealed, &bound.bytes()?);
        let bytes = opened.map_err(|error| tracing::debug!(%error, "a requestState was refused")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

impl Bound<'_> {
    /// Every part is preceded by its length, so that no two share their bytes.
    fn bytes(&self) -> Option<Vec<u8>> {
        let arguments = Value::Object(self.arguments.cloned().unwrap_or_default());
        let arguments = Digest::of(Canonical::of(&arguments).ok()?.as_str().as_bytes());
        let mut bytes = Vec::new();
        for part in
            [self.principal.as_str().as_bytes(), b"tools/call", self.tool.as_bytes(), arguments.as_bytes()]
        {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state() -> State {
        State {
            execution: ExecutionId::from_random([1; 16]),
            questions: vec![(ElicitationId::from_random([2; 16]), Digest::of(b"q"))],
            unread: 1,
        }
    }

    #[test]
    fn a_state_opens_for_the_request_it_was_given_for_and_for_no_other() {
        let (ann, bob) = (PrincipalId::parse("ann").unwrap(), PrincipalId::parse("bob").unwrap());
        let args = json!({ "a": 1, "b": 2 }).as_object().cloned().unwrap();
        let other = json!({ "a": 1, "b": 3 }).as_object().cloned().unwrap();
        let bound = Bound { principal: &ann, tool: "t", arguments: Some(&args) };
        let seal = Seal::new([1; 32]);
        let sealed = seal.close(&state(), bound, Duration::ZERO).unwrap();
        assert_eq!(seal.open(&sealed, bound), Some(state()));
        for wrong in [
            Bound { principal: &bob, ..bound },
            Bound { tool: "u", ..bound },
            Bound { arguments: Some(&other), ..bound },
            Bound { arguments: None, ..bound },
        ] {
            assert_eq!(seal.open(&sealed, wrong), None, "{wrong:?}");
        }
        assert_eq!(Seal::new([2; 32]).open(&sealed, bound), None, "another gateway's");
        for at in 0..sealed.len() {
            let mut altered = sealed.clone().into_bytes();
            altered[at] ^= 1;
            if let Ok(altered) = String::from_utf8(altered) {
                assert_eq!(seal.open(&altered, bound), None, "altered at {at}");
            }
        }
    }

    #[test]
    fn a_state_whose_time_is_up_does_not_open() {
        let ann = PrincipalId::parse("ann").unwrap();
        let bound = Bound { principal: &ann, tool: "t", arguments: None };
        let seal = Seal::new([1; 32]);
        let context = bound.bytes().unwrap();
        let bytes = serde_json::to_vec(&state()).unwrap();
        let spent = SealOptions::new().associated_data(&context).ttl(Duration::ZERO);
        let sealed = seal.codec.seal_with(&bytes, &spent);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(seal.open(&sealed, bound), None);
    }
}
