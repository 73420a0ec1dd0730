//! The policy's verdict on one call, and its source.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use countersign_sdk::Remember;

use super::Writes;
use super::rule::{Effect, Rule};

/// The policy's verdict on one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Allow, ask or deny.
    pub effect: Effect,
    /// On what ground.
    pub source: VerdictSource,
    /// The rule's reason, for the person.
    pub reason: Option<String>,
    /// How long the question is open; the configured default if none.
    pub expires: Option<Duration>,
    /// How long the answer counts; the tool's or the configured default if none.
    pub remember: Option<Remember>,
}

/// The source of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum VerdictSource {
    /// This rule is the first that matches.
    Rule {
        /// Which of the file, from 1.
        number: usize,
        match_: Arc<str>,
    },
    /// No rule matches, and the tool only reads.
    DefaultReads,
    /// No rule matches, and the tool writes.
    DefaultWrites {
        /// The setting for tools that write.
        writes: Writes,
    },
    /// No rule matches, and the tool is destructive.
    DefaultDestructive,
    /// Whether this rule matches could not be found out, so the call is denied (R2).
    EvaluatorFailed {
        /// Which of the file, from 1.
        number: usize,
        problem: String,
    },
}

impl Verdict {
    /// The verdict of a rule that matches.
    pub(super) fn of_rule(rule: &Rule) -> Self {
        Self {
            effect: rule.effect,
            source: VerdictSource::Rule { number: rule.number, match_: rule.pattern.shared_text() },
            reason: rule.reason.clone(),
            expires: rule.expires,
            remember: rule.remember,
        }
    }

    /// The verdict where a rule could not be evaluated: the rule's own effect and reason do not count.
    pub(super) fn of_failure(rule: &Rule, problem: String) -> Self {
        Self::plain(Effect::Deny, VerdictSource::EvaluatorFailed { number: rule.number, problem })
    }

    pub(super) fn plain(effect: Effect, source: VerdictSource) -> Self {
        Self { effect, source, reason: None, expires: None, remember: None }
    }
}

impl Verdict {
    /// Why a person is asked, as the question says it.
    pub fn because(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{}: {reason}", self.source),
            None => self.source.to_string(),
        }
    }

    /// Whether a question that said `because` still says what this verdict would say. The number of a rule does not
    /// count: it changes with every rule that is put before it.
    pub fn still_because(&self, because: &str) -> bool {
        unnumbered(because) == unnumbered(&self.because())
    }
}

/// A ground without the number of its rule.
fn unnumbered(because: &str) -> &str {
    let rest =
        because.strip_prefix("rule ").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.unwrap_or(because)
}

impl VerdictSource {
    /// The rule that decided, from 1, if one did.
    pub fn rule_number(&self) -> Option<usize> {
        match self {
            Self::Rule { number, .. } | Self::EvaluatorFailed { number, .. } => Some(*number),
            Self::DefaultReads | Self::DefaultWrites { .. } | Self::DefaultDestructive => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.effect, self.source)
    }
}

impl fmt::Display for VerdictSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { number, match_ } => write!(f, "rule {number} ({match_})"),
            Self::DefaultReads => f.write_str("no rule matches: tools that only read are allowed"),
            Self::DefaultWrites { writes: Writes::Allow } => {
                f.write_str("no rule matches: tools that write are allowed")
            }
            Self::DefaultWrites { writes: Writes::Ask } => {
                f.write_str("no rule matches: tools that write ask (approvals.writes)")
            }
            Self::DefaultDestructive => f.write_str("no rule matches: destructive tools ask"),
            Self::EvaluatorFailed { number, problem } => {
                write!(f, "rule {number} cannot be evaluated, so the call is denied: {problem}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(number: usize, pattern: &str, reason: Option<&str>) -> Verdict {
        let source = VerdictSource::Rule { number, match_: pattern.into() };
        Verdict { reason: reason.map(ToOwned::to_owned), ..Verdict::plain(Effect::Ask, source) }
    }

    #[test]
    fn the_ground_of_a_question_is_the_same_wherever_its_rule_stands_in_the_file() {
        let asked = asks(2, "bank.*", Some("Money.")).because();
        assert_eq!(asked, "rule 2 (bank.*): Money.");
        assert!(asks(2, "bank.*", Some("Money.")).still_because(&asked));
        assert!(asks(13, "bank.*", Some("Money.")).still_because(&asked));
        for other in [
            asks(2, "bank.pay", Some("Money.")),
            asks(2, "bank.*", Some("Money!")),
            asks(2, "bank.*", None),
            Verdict::plain(Effect::Ask, VerdictSource::DefaultDestructive),
        ] {
            assert!(!other.still_because(&asked), "{other:?}");
        }
        let default = Verdict::plain(Effect::Ask, VerdictSource::DefaultDestructive);
        assert!(default.still_because(&default.because()));
    }
}
