//! Examples in a rule, checked when the rule is loaded.
//!
//! An example is a path, and after a space the arguments if there are any. It is tried on its own rule alone, as a call
//! by an agent of a tool of which nothing is known: destructive, not idempotent, open to the world, from a source named
//! like the first segment of the path.

use countersign_sdk::{Effects, Principal, PrincipalId, PrincipalKind, Role, SessionId, ToolPath};
use serde_json::{Map, Value};

use super::Subject;
use super::explain::RuleOutcome;
use super::pattern::PathPattern;
use super::predicate::{Facts, Predicate};

/// The outcome that an example expects of its rule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expectation {
    Matches,
    Misses,
}

impl Expectation {
    /// The key of its list.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Matches => "matches",
            Self::Misses => "misses",
        }
    }
}

/// An example that could be read.
pub(super) struct Example<'t> {
    text: &'t str,
    path: ToolPath,
    args: Value,
}

impl<'t> Example<'t> {
    /// Reads `PATH` or `PATH {…}`.
    pub(super) fn parse(text: &'t str) -> Result<Self, String> {
        let shown = shortened(text);
        let trimmed = text.trim();
        let (path, args) = match trimmed.split_once(char::is_whitespace) {
            Some((path, args)) => (path, Some(args)),
            None => (trimmed, None),
        };
        let path =
            ToolPath::parse(path).map_err(|error| format!("example '{shown}' has no path: {error}"))?;
        let args = match args.map(serde_json::from_str::<Map<String, Value>>) {
            None => Map::new(),
            Some(Ok(args)) => args,
            Some(Err(error)) => {
                return Err(format!("example '{shown}' has no JSON object after its path: {error}"));
            }
        };
        Ok(Self { text, path, args: Value::Object(args) })
    }

    /// Tries it on a rule; the error names the actual outcome.
    pub(super) fn check(
        &self,
        expected: Expectation,
        pattern: &PathPattern,
        when: Option<&Predicate>,
    ) -> Result<(), String> {
        let text = shortened(self.text);
        match (expected, self.outcome(pattern, when)?) {
            (_, RuleOutcome::WhenFailed(problem)) => Err(format!("example '{text}' fails: {problem}")),
            (Expectation::Matches, RuleOutcome::PatternMisses) => Err(format!(
                "example '{text}' should match, but {:?} does not match its path",
                pattern.as_str()
            )),
            (Expectation::Matches, RuleOutcome::WhenIsFalse) => {
                Err(format!("example '{text}' should match, but its when is false"))
            }
            (Expectation::Misses, RuleOutcome::Matches) => {
                Err(format!("example '{text}' should not match, but it does"))
            }
            _ => Ok(()),
        }
    }

    fn outcome(&self, pattern: &PathPattern, when: Option<&Predicate>) -> Result<RuleOutcome, String> {
        let id = |_| "the stand-in caller of examples has a bad id".to_owned();
        let principal = Principal {
            id: PrincipalId::parse("example").map_err(id)?,
            kind: PrincipalKind::Agent,
            roles: vec![Role::Agent],
            owner: None,
        };
        let session = SessionId::parse("example").map_err(id)?;
        let subject = Subject {
            path: &self.path,
            effects: Effects {
                destructive: true,
                idempotent: false,
                open_world: true,
                read_only: false,
                ..Effects::default()
            },
            source: self.path.segments().next().unwrap_or_default(),
            args: &self.args,
            principal: &principal,
            session: &session,
        };
        Ok(super::rule::outcome(pattern, when, &self.path, &Facts::new(subject)))
    }
}

/// Enough of it to find it by.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    let mut chars = text.chars();
    let shown: String = chars.by_ref().take(MAX_CHARS).collect();
    if chars.next().is_some() { format!("{shown}…") } else { shown }
}
