//! What policy says of a call, and why.

use countersign_core::policy::RuleOutcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A call to ask about. Nothing runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExplainRequest {
    /// The tool's path.
    pub tool: String,
    /// Its arguments; `{}` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// The session it would run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// The whole way to a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The tool.
    pub path: String,
    /// `allow`, `ask` or `deny`.
    pub effect: String,
    /// Which rule decided, or that none did.
    pub source: String,
    /// What the rule's author wrote.
    pub reason: Option<String>,
    /// Every rule, in the order of the file.
    pub rules: Vec<RuleReport>,
    /// Why the call would be refused before any rule: what does not fit of its arguments.
    pub violations: Vec<String>,
    /// All of it as text, for a person.
    pub text: String,
}

/// What became of one rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleReport {
    /// Which of the file, from 1.
    pub number: usize,
    /// The line of its `[[rule]]`.
    pub line: usize,
    /// The tools it speaks of.
    #[serde(rename = "match")]
    pub pattern: String,
    /// What must also be true.
    pub when: Option<String>,
    /// What it says.
    pub effect: String,
    /// `matches`, `pattern_misses`, `when_is_false`, `when_failed` or `not_reached`.
    pub outcome: String,
    /// Why its predicate could not be evaluated.
    pub problem: Option<String>,
}

impl Explanation {
    /// An explanation, with what does not fit of the arguments.
    pub fn of(explanation: &countersign_core::policy::Explanation, violations: Vec<String>) -> Self {
        let verdict = &explanation.verdict;
        Self {
            path: explanation.path.to_string(),
            effect: verdict.effect.to_string(),
            source: verdict.source.to_string(),
            reason: verdict.reason.clone(),
            rules: explanation.rules.iter().map(RuleReport::from).collect(),
            violations,
            text: explanation.to_string(),
        }
    }
}

impl From<&countersign_core::policy::RuleReport> for RuleReport {
    fn from(rule: &countersign_core::policy::RuleReport) -> Self {
        let (outcome, problem) = match &rule.outcome {
            RuleOutcome::Matches => ("matches", None),
            RuleOutcome::PatternMisses => ("pattern_misses", None),
            RuleOutcome::WhenIsFalse => ("when_is_false", None),
            RuleOutcome::WhenFailed(problem) => ("when_failed", Some(problem.clone())),
            RuleOutcome::NotReached => ("not_reached", None),
        };
        Self {
            number: rule.number,
            line: rule.line,
            pattern: rule.pattern.as_str().to_owned(),
            when: rule.when.clone(),
            effect: rule.effect.to_string(),
            outcome: outcome.to_owned(),
            problem,
        }
    }
}
