//! The effects of a tool on the world, as its author declares them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The declared effects of a tool. A tool that says nothing writes: it may change something, and destroys nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effects {
    /// It creates, deletes, sends or overwrites: a person decides before it runs.
    pub destructive: bool,
    /// Running it twice with the same arguments and idempotency key is the same as running it once.
    pub idempotent: bool,
    /// It reaches systems outside the gateway's own.
    pub open_world: bool,
    /// It changes nothing. Never together with `destructive`. Left out where it is not said, so that fingerprints and
    /// journals from before it existed stay as they are.
    #[serde(default, skip_serializing_if = "is_unsaid")]
    pub read_only: bool,
    /// Whether its handler may be dropped while it waits for an answer.
    #[serde(default, skip_serializing_if = "Resumable::is_unsaid")]
    pub resumable: Resumable,
}

/// Whether a handler that waits for an answer to a question of its own may be dropped, and entered again from the top when
/// the answer comes. Its recorded answers and steps are then given to it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resumable {
    /// The tool does not say: it may be dropped unless the tool is destructive.
    #[default]
    Unsaid,
    /// It may: it changes nothing before its last question that it has not recorded with `ctx.step`.
    Yes,
    /// It may not: entering it twice would act twice. After a crash the call is in doubt.
    No,
}

impl Resumable {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_unsaid(&self) -> bool {
        *self == Self::Unsaid
    }
}

/// The three classes of tools, as people, clients and rules read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectClass {
    /// It only looks.
    Reads,
    /// It changes something; also everything that does not say what it does.
    Writes,
    /// It destroys, sends or overwrites: a person decides before it runs.
    Destroys,
}

impl Effects {
    /// The class. Where a declaration contradicts itself, the worse one.
    pub fn class(self) -> EffectClass {
        match (self.destructive, self.read_only) {
            (true, _) => EffectClass::Destroys,
            (false, true) => EffectClass::Reads,
            (false, false) => EffectClass::Writes,
        }
    }

    /// Whether a handler may be dropped at a question of its own and entered again.
    pub fn is_resumable(self) -> bool {
        match self.resumable {
            Resumable::Unsaid => !self.destructive,
            Resumable::Yes => true,
            Resumable::No => false,
        }
    }

    /// Whether a call that started and has no outcome must not be made again without a person.
    pub fn is_at_most_once(self) -> bool {
        (self.destructive || self.resumable == Resumable::No) && !self.idempotent
    }
}

impl EffectClass {
    /// The word for it: `reads`, `writes` or `destroys`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Destroys => "destroys",
        }
    }
}

impl fmt::Display for EffectClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_unsaid(said: &bool) -> bool {
    !said
}

/// How long an approval of a tool counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Remember {
    /// For the one call that was shown.
    Call,
    /// For every later call of the same tool in the same session.
    Session,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_says_nothing_writes_and_the_worse_class_wins() {
        let effects = |destructive, read_only| Effects { destructive, read_only, ..Effects::default() };
        assert_eq!(Effects::default().class(), EffectClass::Writes);
        assert_eq!(effects(false, true).class(), EffectClass::Reads);
        assert_eq!(effects(true, false).class(), EffectClass::Destroys);
        assert_eq!(effects(true, true).class(), EffectClass::Destroys);
    }

    #[test]
    fn effects_from_before_there_was_read_only_are_read_and_written_as_they_were() {
        let old = r#"{"destructive":true,"idempotent":false,"openWorld":false}"#;
        let effects: Effects = serde_json::from_str(old).unwrap();
        assert_eq!(effects.class(), EffectClass::Destroys);
        assert_eq!(serde_json::to_string(&effects).unwrap(), old);
        let reads = Effects { read_only: true, ..Effects::default() };
        let written = serde_json::to_string(&reads).unwrap();
        assert!(written.contains("\"readOnly\":true"), "{written}");
        assert_eq!(serde_json::from_str::<Effects>(&written).unwrap(), reads);
    }
}
