//! Policy: which calls run, which wait for a person, which are refused.
//!
//! Promises. The first rule that matches decides. Without one, reading tools are allowed, destructive tools ask, and writing
//! tools are allowed unless the operator wants to be asked ([`Writes`]). Where a rule cannot be evaluated the call is denied
//! (R2) and not passed on to the next rule. Rules that do not parse, do not fit together or contradict their own examples do
//! not load at all. Deciding is pure: no clock, no randomness, no I/O; `decide` and `explain` are the same walk.
//!
//! Read [`Policy::decide`] first; `load` is how rules come to be, `predicate` how their `when` is evaluated.

mod duration;
mod errors;
mod example;
mod explain;
mod load;
mod near;
mod pattern;
mod predicate;
mod rule;
mod verdict;

use std::fmt;
use std::sync::Arc;

use countersign_sdk::{EffectClass, Effects, Principal, SessionId, ToolPath};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use duration::{DurationError, MAX_DURATION_DAYS, parse_duration};
pub use errors::{PolicyError, PolicyErrors};
pub use explain::{Explanation, RuleOutcome, RuleReport};
pub use load::{MAX_REASON_BYTES, MAX_RULES};
pub use pattern::{MAX_PATTERN_SEGMENTS, PathPattern, PatternError};
pub use predicate::{MAX_WHEN_BYTES, Predicate};
pub use rule::{Effect, Rule};
pub use verdict::{Verdict, VerdictSource};

use crate::digest::Digest;
use predicate::Facts;

/// The rules of one configuration, ready to decide. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Policy {
    inner: Arc<Inner>,
}

/// The effect on tools that write where no rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// The call runs.
    #[default]
    Allow,
    /// The gate asks a person.
    Ask,
}

/// The call that is decided on.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Subject<'a> {
    pub path: &'a ToolPath,
    /// The tool's effects on the world.
    pub effects: Effects,
    pub source: &'a str,
    /// The arguments, as they would run.
    pub args: &'a Value,
    pub principal: &'a Principal,
    pub session: &'a SessionId,
}

/// A digest of all that the rules say, in their order. Comments, layout and examples do not count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PolicyVersion(Digest);

impl Policy {
    /// Reads the `[[rule]]` tables of a `countersign.toml`. Other top-level keys are checked elsewhere.
    pub fn from_toml(text: &str) -> Result<Self, PolicyErrors> {
        let rules = load::read_rules(text)?;
        Ok(Self::of(rules.into(), Writes::default()))
    }

    /// The same rules, with another word on tools that write. It is part of the version: what was approved under one is asked
    /// about again under the other.
    #[must_use]
    pub fn with_writes(&self, writes: Writes) -> Self {
        Self::of(Arc::clone(&self.inner.rules), writes)
    }

    /// The effect on tools that write where no rule matches.
    pub fn writes(&self) -> Writes {
        self.inner.writes
    }

    /// The digest of the rules' meaning.
    pub fn version(&self) -> &PolicyVersion {
        &self.inner.version
    }

    /// The verdict on this call.
    pub fn decide(&self, subject: &Subject<'_>) -> Verdict {
        self.walk(subject, |_, _| {})
    }

    /// The same, with the outcome of every rule.
    pub fn explain(&self, subject: &Subject<'_>) -> Explanation {
        let mut rules = Vec::with_capacity(self.rules().len());
        let verdict = self.walk(subject, |rule, outcome| rules.push(RuleReport::of(rule, outcome.clone())));
        let reached = rules.len();
        let rest = self.rules().iter().skip(reached);
        rules.extend(rest.map(|rule| RuleReport::of(rule, RuleOutcome::NotReached)));
        Explanation { path: subject.path.clone(), rules, verdict }
    }

    /// The rules, in the order of the file.
    pub fn rules(&self) -> &[Rule] {
        &self.inner.rules
    }

    fn of(rules: Arc<[Rule]>, writes: Writes) -> Self {
        let mut meaning = Value::Array(rules.iter().map(Rule::meaning).collect());
        // Versions from before there was a choice stay as they were.
        if writes == Writes::Ask {
            meaning = serde_json::json!({ "rules": meaning, "writes": "ask" });
        }
        // Rules hold no number that has no canonical form; if one ever did, serde_json's order is as stable.
        let text = serde_json_canonicalizer::to_string(&meaning).unwrap_or_else(|_| meaning.to_string());
        Self { inner: Arc::new(Inner { rules, writes, version: PolicyVersion(Digest::of(text.as_bytes())) }) }
    }

    /// The one way to a verdict.
    fn walk(&self, subject: &Subject<'_>, mut observe: impl FnMut(&Rule, &RuleOutcome)) -> Verdict {
        let facts = Facts::new(*subject);
        for rule in self.rules() {
            let outcome = rule.consider(subject.path, &facts);
            observe(rule, &outcome);
            match outcome {
                RuleOutcome::Matches => return Verdict::of_rule(rule),
                RuleOutcome::WhenFailed(problem) => return Verdict::of_failure(rule, problem),
                RuleOutcome::PatternMisses | RuleOutcome::WhenIsFalse | RuleOutcome::NotReached => {}
            }
        }
        match subject.effects.class() {
            EffectClass::Destroys => Verdict::plain(Effect::Ask, VerdictSource::DefaultDestructive),
            EffectClass::Reads => Verdict::plain(Effect::Allow, VerdictSource::DefaultReads),
            EffectClass::Writes => {
                let writes = self.inner.writes;
                let effect = match writes {
                    Writes::Allow => Effect::Allow,
                    Writes::Ask => Effect::Ask,
                };
                Verdict::plain(effect, VerdictSource::DefaultWrites { writes })
            }
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::of(Arc::new([]), Writes::default())
    }
}

#[derive(Debug)]
struct Inner {
    rules: Arc<[Rule]>,
    writes: Writes,
    version: PolicyVersion,
}

impl PolicyVersion {
    /// The digest.
    pub fn digest(&self) -> Digest {
        self.0
    }
}

impl fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
