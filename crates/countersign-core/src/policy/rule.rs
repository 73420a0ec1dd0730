//! One rule of policy, and what it can say.

use std::fmt;
use std::time::Duration;

use countersign_sdk::{Remember, ToolPath};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::explain::RuleOutcome;
use super::pattern::PathPattern;
use super::predicate::{Facts, Predicate};

/// The effect of a rule on the calls it matches. Ordered: the strictest is the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

impl Effect {
    /// As it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One `[[rule]]`.
#[derive(Debug)]
pub struct Rule {
    pub(super) number: usize,
    pub(super) line: usize,
    pub(super) pattern: PathPattern,
    pub(super) when: Option<Predicate>,
    pub(super) effect: Effect,
    pub(super) expires: Option<Duration>,
    pub(super) remember: Option<Remember>,
    pub(super) reason: Option<String>,
}

impl Rule {
    /// Which rule of the file it is, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The line of its `[[rule]]`.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The pattern of the tools it applies to.
    pub fn pattern(&self) -> &PathPattern {
        &self.pattern
    }

    /// The predicate that must also be true of the call.
    pub fn when(&self) -> Option<&Predicate> {
        self.when.as_ref()
    }

    /// Its effect on matching calls.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// How long the question is open, if its effect is `ask`.
    pub fn expires(&self) -> Option<Duration> {
        self.expires
    }

    /// How long the answer counts, if its effect is `ask`.
    pub fn remember(&self) -> Option<Remember> {
        self.remember
    }

    /// The reason that the person reads.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Whether it matches this call.
    pub(super) fn consider(&self, path: &ToolPath, facts: &Facts<'_>) -> RuleOutcome {
        outcome(&self.pattern, self.when.as_ref(), path, facts)
    }

    /// Everything that can change a verdict, and nothing else.
    pub(super) fn meaning(&self) -> Value {
        json!({
            "match": self.pattern.as_str(),
            "when": self.when.as_ref().map(Predicate::source),
            "effect": self.effect,
            "expires": self.expires.map(|expires| expires.as_secs()),
            "remember": self.remember,
            "reason": self.reason,
        })
    }
}

/// The outcome of a pattern and a predicate for a call.
pub(super) fn outcome(
    pattern: &PathPattern,
    when: Option<&Predicate>,
    path: &ToolPath,
    facts: &Facts<'_>,
) -> RuleOutcome {
    if !pattern.matches(path) {
        return RuleOutcome::PatternMisses;
    }
    match when.map(|when| when.evaluate(facts)) {
        None | Some(Ok(true)) => RuleOutcome::Matches,
        Some(Ok(false)) => RuleOutcome::WhenIsFalse,
        Some(Err(problem)) => RuleOutcome::WhenFailed(problem),
    }
}
