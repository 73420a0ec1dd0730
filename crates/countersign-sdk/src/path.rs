//! Tool paths: `namespace.resource.verb`.
//!
//! Promise: a [`ToolPath`] that exists matches `^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`, and a string that does not is
//! refused with a message that says what is wrong and, where it can be guessed, what was meant.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest path accepted, in bytes. Paths appear in prompts, rows and logs, which stay readable with short ones.
pub const MAX_PATH_BYTES: usize = 200;

/// The name of a tool, such as `github.issues.create`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolPath(Arc<str>);

impl ToolPath {
    /// Parses a path; the error teaches the rule.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        check(text).map(|()| Self(text.into()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The segments between the dots, at least two.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

/// Why a string is no tool path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}{}", suggestion.as_ref().map(|s| format!(" Did you mean \"{s}\"?")).unwrap_or_default())]
pub struct PathError {
    problem: String,
    suggestion: Option<String>,
}

impl PathError {
    /// The path that was probably meant, if one could be made from the input.
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }
}

impl fmt::Display for ToolPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl FromStr for ToolPath {
    type Err = PathError;
    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ToolPath {
    type Error = PathError;
    fn try_from(text: String) -> Result<Self, PathError> {
        Self::parse(&text)
    }
}

impl From<ToolPath> for String {
    fn from(path: ToolPath) -> Self {
        path.0.to_string()
    }
}

impl PartialEq<str> for ToolPath {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

fn check(text: &str) -> Result<(), PathError> {
    if text.is_empty() {
        return Err(refuse(
            "A tool path is empty; write namespace.resource.verb, such as \"github.issues.list\".",
            None,
        ));
    }
    if text.len() > MAX_PATH_BYTES {
        return Err(refuse(
            format!("A tool path of {} bytes is too long; the limit is {MAX_PATH_BYTES}.", text.len()),
            None,
        ));
    }
    for segment in text.split('.') {
        if let Some(problem) = segment_problem(text, segment) {
            return Err(refuse(problem, repaired(text)));
        }
    }
    if !text.contains('.') {
        let problem = format!(
            "Tool path {text:?} has no namespace; join at least two segments with dots, as in \"github.issues.list\"."
        );
        return Err(refuse(problem, repaired(text)));
    }
    Ok(())
}

fn segment_problem(text: &str, segment: &str) -> Option<String> {
    let Some(first) = segment.chars().next() else {
        return Some(format!("Tool path {text:?} has an empty segment; put one name between two dots."));
    };
    let stranger = segment.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '_'));
    match stranger {
        Some(c) if c.is_ascii_uppercase() => Some(format!(
            "Segment {segment:?} of tool path {text:?} has uppercase letters; segments are lowercase, with underscores between words."
        )),
        Some(c) => Some(format!(
            "Segment {segment:?} of tool path {text:?} contains {c:?}; only a-z, 0-9 and _ are allowed."
        )),
        None if !first.is_ascii_lowercase() => Some(format!(
            "Segment {segment:?} of tool path {text:?} starts with {first:?}; a segment starts with a letter a-z."
        )),
        None => None,
    }
}

fn refuse(problem: impl Into<String>, suggestion: Option<String>) -> PathError {
    PathError { problem: problem.into(), suggestion }
}

/// The nearest valid path: camelCase to snake_case, and underscores to dots where there is no dot at all.
fn repaired(text: &str) -> Option<String> {
    let mut snake = String::new();
    let mut previous = '.';
    for c in text.chars() {
        if c.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit()) {
            snake.push('_');
        }
        snake.push(if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() });
        previous = c;
    }
    let candidate = if snake.contains('.') { snake } else { snake.replace('_', ".") };
    (candidate != text && check(&candidate).is_ok()).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_examples_are_accepted() {
        for path in ["github.issues.list", "github.issues.create", "github.repos.search", "a.b", "a1_.b_2"] {
            assert_eq!(ToolPath::parse(path).map(|p| p.to_string()), Ok(path.to_owned()));
        }
    }

    #[test]
    fn each_refusal_says_what_is_wrong_and_what_was_meant() {
        let cases = [
            ("createIssue", "uppercase", Some("create.issue")),
            ("github.Issues.List", "uppercase", Some("github.issues.list")),
            ("github_issues_list", "no namespace", Some("github.issues.list")),
            ("github", "no namespace", None),
            ("", "empty", None),
            ("a..b", "empty segment", None),
            (".a.b", "empty segment", None),
            ("a.b.", "empty segment", None),
            ("a.1b", "starts with '1'", None),
            ("a._b", "starts with '_'", None),
            ("a.b-c", "contains '-'", Some("a.b_c")),
            ("a.b\0", "contains '\\0'", None),
            ("a.\u{202e}b", "contains '\\u{202e}'", None),
            ("a.b\n", "contains '\\n'", None),
            ("ä.b", "contains 'ä'", None),
        ];
        for (path, problem, suggestion) in cases {
            let error = ToolPath::parse(path).unwrap_err();
            assert!(error.to_string().contains(problem), "{path:?}: {error}");
            assert_eq!(error.suggestion(), suggestion, "{path:?}");
        }
    }

    #[test]
    fn the_length_bound_holds_at_its_edge() {
        let longest = format!("a.{}", "b".repeat(MAX_PATH_BYTES - 2));
        assert!(ToolPath::parse(&longest).is_ok());
        assert!(ToolPath::parse(&format!("{longest}b")).unwrap_err().to_string().contains("too long"));
    }
}
