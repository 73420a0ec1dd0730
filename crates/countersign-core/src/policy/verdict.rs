//! What policy says of one call, and on what ground.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use countersign_sdk::Remember;

use super::rule::{Effect, Rule};

/// What policy says of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Allow, ask or deny.
    pub effect: Effect,
    /// On what ground.
    pub source: VerdictSource,
    /// The rule's reason, for the person.
    pub reason: Option<String>,
    /// How long the question stands; the configured default where nothing is said.
    pub expires: Option<Duration>,
    /// How long the answer counts; the tool's or the configured default where nothing is said.
    pub remember: Option<Remember>,
}

/// On what ground policy says what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictSource {
    /// This rule is the first that matches.
    Rule {
        /// Which of the file, from 1.
        number: usize,
        /// Its pattern.
        match_: Arc<str>,
    },
    /// No rule matches, and the tool is not destructive.
    DefaultSafe,
    /// No rule matches, and the tool is destructive.
    DefaultDestructive,
    /// Whether this rule matches could not be found out, so the call is denied (R2).
    EvaluatorFailed {
        /// Which of the file, from 1.
        number: usize,
        /// Why not.
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

    /// The verdict where a rule could not be evaluated. What the rule would have said, and why, does not matter.
    pub(super) fn of_failure(rule: &Rule, problem: String) -> Self {
        Self::plain(Effect::Deny, VerdictSource::EvaluatorFailed { number: rule.number, problem })
    }

    pub(super) fn plain(effect: Effect, source: VerdictSource) -> Self {
        Self { effect, source, reason: None, expires: None, remember: None }
    }
}

impl VerdictSource {
    /// The rule that decided, from 1, if one did.
    pub fn rule_number(&self) -> Option<usize> {
        match self {
            Self::Rule { number, .. } | Self::EvaluatorFailed { number, .. } => Some(*number),
            Self::DefaultSafe | Self::DefaultDestructive => None,
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
            Self::DefaultSafe => f.write_str("no rule matches: read-only tools are allowed"),
            Self::DefaultDestructive => f.write_str("no rule matches: destructive tools ask"),
            Self::EvaluatorFailed { number, problem } => {
                write!(f, "rule {number} cannot be evaluated, so the call is denied: {problem}")
            }
        }
    }
}
