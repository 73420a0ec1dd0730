//! SHA-256 digests: of a tool's definition (its fingerprint), and of what an approval is good for.

use std::fmt;
use std::str::FromStr;

use countersign_sdk::{Definition, PrincipalId, SessionId, ToolPath};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::canonical::Canonical;

/// A SHA-256 digest; 64 hexadecimal digits as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest([u8; 32]);

/// Why a string is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits in lower case")]
pub struct DigestError;

impl Digest {
    /// All zeros: what comes before the first link of a chain.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of parts, each preceded by its length, so that no two lists of parts share their bytes.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The digest of a tool's definition: any change to it voids approvals and grants (R14).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct Fingerprint(pub Digest);

impl Fingerprint {
    /// Over the canonical definition: path, description, schemas, effects, source and version.
    pub fn of(definition: &Definition, input: &Value, output: &Value, source: &str, version: &str) -> Self {
        let facts = serde_json::json!({
            "v": 1,
            "path": definition.path,
            "name": definition.name,
            "description": definition.description,
            "effects": definition.effects,
            "authProvider": definition.auth_provider,
            "serviceAccountAllowed": definition.service_account_allowed,
            "remember": definition.remember,
            "input": input,
            "output": output,
            "source": source,
            "version": version,
        });
        // Definitions come from code, so a schema beyond the canonical form's reach (an integer bound past 2^53, say)
        // is digested in serde_json's own stable order rather than refused.
        let text = serde_json_canonicalizer::to_string(&facts).unwrap_or_else(|_| facts.to_string());
        Self(Digest::of(text.as_bytes()))
    }
}

/// Everything an approval is bound to. Change one field and the digest, and so the approval, is another.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Binding<'a> {
    pub tool: &'a ToolPath,
    pub fingerprint: Fingerprint,
    pub args: &'a Canonical,
    pub requester: &'a PrincipalId,
    pub session: &'a SessionId,
    pub policy_version: Digest,
}

impl Binding<'_> {
    /// The approval digest.
    pub fn digest(&self) -> Digest {
        Digest::of_parts(&[
            b"countersign/approval/1",
            self.tool.as_str().as_bytes(),
            self.fingerprint.0.as_bytes(),
            self.args.as_str().as_bytes(),
            self.requester.as_str().as_bytes(),
            self.session.as_str().as_bytes(),
            self.policy_version.as_bytes(),
        ])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(hex_text(&self.0, &mut [0; 64]))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(hex_text(&self.0, &mut [0; 64]))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;
    fn from_str(text: &str) -> Result<Self, DigestError> {
        // One digest has one spelling.
        if text.len() != 64 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(DigestError);
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| DigestError)?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;
    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

/// Bytes as hexadecimal digits in lower case, in a place of twice their size.
pub(crate) fn hex_text<'t>(bytes: &[u8], place: &'t mut [u8]) -> &'t str {
    // The place fits, and digits are ASCII.
    hex::encode_to_slice(bytes, place).ok().and_then(|()| std::str::from_utf8(place).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_field_of_the_binding_changes_the_digest() {
        let (tool, other_tool) = (ToolPath::parse("a.b").unwrap(), ToolPath::parse("a.c").unwrap());
        let (args, other_args) =
            (Canonical::of(&json!({ "x": 1 })).unwrap(), Canonical::of(&json!({ "x": 2 })).unwrap());
        let (ann, bob) = (PrincipalId::parse("ann").unwrap(), PrincipalId::parse("bob").unwrap());
        let (s1, s2) = (SessionId::parse("ses_1").unwrap(), SessionId::parse("ses_2").unwrap());
        let base = Binding {
            tool: &tool,
            fingerprint: Fingerprint(Digest::ZERO),
            args: &args,
            requester: &ann,
            session: &s1,
            policy_version: Digest::ZERO,
        };
        let changed = [
            Binding { tool: &other_tool, ..base },
            Binding { fingerprint: Fingerprint(Digest::of(b"x")), ..base },
            Binding { args: &other_args, ..base },
            Binding { requester: &bob, ..base },
            Binding { session: &s2, ..base },
            Binding { policy_version: Digest::of(b"x"), ..base },
        ];
        for binding in changed {
            assert_ne!(binding.digest(), base.digest(), "{binding:?}");
        }
        assert_eq!(base.digest(), base.digest());
    }

    #[test]
    fn a_digest_survives_its_text_form() {
        let digest = Digest::of(b"x");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(serde_json::to_value(digest).unwrap(), digest.to_string());
        assert!("é".repeat(32).parse::<Digest>().is_err());
    }
}
