//! The reasons of a verdict: every rule in order, and which one decided.

use std::fmt;

use countersign_sdk::ToolPath;

use super::pattern::PathPattern;
use super::rule::{Effect, Rule};
use super::verdict::Verdict;

/// The whole way to a verdict. `Display` is for a person at a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The tool that was asked about.
    pub path: ToolPath,
    /// Every rule, in the order of the file.
    pub rules: Vec<RuleReport>,
    /// The verdict, the same as that of `decide`.
    pub verdict: Verdict,
}

/// A rule and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RuleReport {
    /// Which of the file, from 1.
    pub number: usize,
    /// The line of its `[[rule]]`.
    pub line: usize,
    pub pattern: PathPattern,
    /// The predicate.
    pub when: Option<String>,
    pub effect: Effect,
    /// What became of it.
    pub outcome: RuleOutcome,
}

/// The outcome of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleOutcome {
    /// It matches, and decides.
    Matches,
    /// Its pattern does not fit the path.
    PatternMisses,
    /// Its pattern fits; its predicate is false.
    WhenIsFalse,
    /// Its pattern fits; its predicate could not be evaluated, for this reason.
    WhenFailed(String),
    /// An earlier rule decided.
    NotReached,
}

impl RuleReport {
    pub(super) fn of(rule: &Rule, outcome: RuleOutcome) -> Self {
        Self {
            number: rule.number,
            line: rule.line,
            pattern: rule.pattern.clone(),
            when: rule.when.as_ref().map(|when| when.source().to_owned()),
            effect: rule.effect,
            outcome,
        }
    }

    fn has_decided(&self) -> bool {
        matches!(self.outcome, RuleOutcome::Matches | RuleOutcome::WhenFailed(_))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.path)?;
        let width = self.rules.iter().map(|rule| rule.pattern.as_str().len()).max().unwrap_or(0);
        for rule in &self.rules {
            let mark = if rule.has_decided() { '>' } else { ' ' };
            let RuleReport { number, line, effect, pattern, .. } = rule;
            let place = format!("rule {number} (line {line})");
            writeln!(f, "{mark} {place:<20} {effect:<5} {pattern:<width$}  {}", Because(rule))?;
        }
        write!(f, "{}", self.verdict)?;
        match &self.verdict.reason {
            Some(reason) => write!(f, "\nreason: {reason}"),
            None => Ok(()),
        }
    }
}

/// A rule's outcome, as one line.
struct Because<'r>(&'r RuleReport);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.outcome {
            RuleOutcome::Matches => f.write_str("matches")?,
            RuleOutcome::PatternMisses => return f.write_str("the pattern does not match"),
            RuleOutcome::WhenIsFalse => f.write_str("the predicate is false")?,
            RuleOutcome::WhenFailed(problem) => write!(f, "the predicate failed: {problem}")?,
            RuleOutcome::NotReached => return f.write_str("not reached"),
        }
        match &self.0.when {
            // A predicate may be written over several lines; here it is one.
            Some(when) => write!(f, "   when {}", when.split_whitespace().collect::<Vec<_>>().join(" ")),
            None => Ok(()),
        }
    }
}
