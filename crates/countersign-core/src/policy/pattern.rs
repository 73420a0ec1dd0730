//! Path patterns: which tools a rule or a grant speaks of.
//!
//! Promise: `*` stands for exactly one segment, `**` for one or more, anything else for itself; there is no third kind
//! of wildcard. Matching allocates nothing and takes at most segments-of-pattern times segments-of-path steps,
//! whatever the pattern: there is nothing to blow up.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use countersign_sdk::{MAX_PATH_BYTES, ToolPath};
use serde::{Deserialize, Serialize};

/// The most segments a pattern may have. Paths of tools have three or four.
pub const MAX_PATTERN_SEGMENTS: usize = 32;

/// A pattern over tool paths, such as `github.issues.*`. Cheap to clone.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathPattern {
    text: Arc<str>,
    steps: Arc<[Step]>,
    /// Up to here, in bytes, the text has no wildcard; a path must begin with it.
    head: usize,
    /// From here on, in bytes, it has none again; a path must end with it.
    tail: usize,
}

impl PathPattern {
    /// Parses a pattern; the error teaches the rule.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > MAX_PATH_BYTES {
            return Err(PatternError::TooLong(text.len()));
        }
        let segments = text.split('.').count();
        if segments > MAX_PATTERN_SEGMENTS {
            return Err(PatternError::TooManySegments(segments));
        }
        text.split('.').try_for_each(|segment| check_segment(text, segment))?;
        match text {
            "*" => Err(PatternError::BareStar),
            _ if segments == 1 && text != "**" => Err(PatternError::OneSegment(text.to_owned())),
            _ => Ok(Self {
                text: text.into(),
                steps: steps_of(text),
                head: text.find('*').unwrap_or(text.len()),
                tail: text.rfind('*').map_or(0, |star| star + 1),
            }),
        }
    }

    /// Whether the pattern fits this path, whole.
    pub fn matches(&self, path: &ToolPath) -> bool {
        // Most patterns miss most paths, and the end of a path mostly shows it.
        let (head, tail) = (&self.text[..self.head], &self.text[self.tail..]);
        path.as_str().starts_with(head) && path.as_str().ends_with(tail) && self.fits(path)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pattern as it was written, shared.
    pub(super) fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    fn fits(&self, path: &ToolPath) -> bool {
        // Each gap takes as few segments as it can. When a later step fails, only the latest gap takes one more:
        // going back to an earlier gap could find nothing that this one does not.
        let (mut step, mut rest) = (0, Some(path.as_str()));
        let mut latest_gap: Option<(usize, Option<&str>)> = None;
        loop {
            let fits = match (self.steps.get(step), rest) {
                (None, None) => return true,
                (Some(Step::Gap), _) => {
                    step += 1;
                    latest_gap = Some((step, rest));
                    continue;
                }
                (Some(wanted), Some(text)) => {
                    let (segment, tail) = first_segment(text);
                    rest = tail;
                    wanted.fits(segment)
                }
                (None, Some(_)) | (Some(_), None) => false,
            };
            if fits {
                step += 1;
                continue;
            }
            let Some((after_gap, Some(text))) = latest_gap else { return false };
            let (_, tail) = first_segment(text);
            (step, rest) = (after_gap, tail);
            latest_gap = Some((after_gap, tail));
        }
    }
}

/// Why a string is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum PatternError {
    /// Nothing there.
    #[error("the pattern is empty; write a path such as \"github.issues.*\", or \"**\" for every tool")]
    Empty,
    /// Longer than any path.
    #[error("a pattern of {0} bytes is too long; the limit is {MAX_PATH_BYTES}")]
    TooLong(usize),
    /// More segments than any path has.
    #[error("a pattern of {0} segments is too long; the limit is {MAX_PATTERN_SEGMENTS}")]
    TooManySegments(usize),
    /// A bare `*`.
    #[error("\"*\" stands for one segment and every path has at least two; write \"**\" for every tool")]
    BareStar,
    /// A single name.
    #[error(
        "{0:?} has one segment and every path has at least two, so it would never match; write \"{0}.**\" for everything under it"
    )]
    OneSegment(String),
    /// Two dots in a row, or one at an end.
    #[error("pattern {0:?} has an empty segment; put one name, \"*\" or \"**\" between two dots")]
    EmptySegment(String),
    /// `iss*`, `***` and the like.
    #[error(
        "segment {segment:?} of pattern {pattern:?} mixes a wildcard with other text; a segment is a name, \"*\" (one segment) or \"**\" (one or more); to match inside a segment write when = 'tool.path.startsWith(\"…\")'"
    )]
    PartialWildcard { pattern: String, segment: String },
    /// A character that no path has.
    #[error(
        "segment {segment:?} of pattern {pattern:?} can be in no path; segments start with a-z and go on with a-z, 0-9 and _"
    )]
    BadSegment { pattern: String, segment: String },
}

/// `**` is one [`Step::Any`] and one [`Step::Gap`]; two in a row are two segments or more, as reading them says.
enum Step {
    Name(Box<str>),
    Any,
    /// Zero or more segments.
    Gap,
}

impl Step {
    fn fits(&self, segment: &str) -> bool {
        match self {
            Self::Name(name) => **name == *segment,
            Self::Any | Self::Gap => true,
        }
    }
}

/// Turns the text into steps. A gap is moved behind the single wildcards that follow it, which says the same, so that
/// no two gaps stand in a row.
fn steps_of(text: &str) -> Arc<[Step]> {
    let mut steps = Vec::new();
    let mut has_gap = false;
    for segment in text.split('.') {
        match segment {
            "*" => steps.push(Step::Any),
            "**" => {
                steps.push(Step::Any);
                has_gap = true;
            }
            name => {
                if std::mem::take(&mut has_gap) {
                    steps.push(Step::Gap);
                }
                steps.push(Step::Name(name.into()));
            }
        }
    }
    if has_gap {
        steps.push(Step::Gap);
    }
    steps.into()
}

fn first_segment(text: &str) -> (&str, Option<&str>) {
    match text.split_once('.') {
        Some((segment, rest)) => (segment, Some(rest)),
        None => (text, None),
    }
}

fn check_segment(pattern: &str, segment: &str) -> Result<(), PatternError> {
    if matches!(segment, "*" | "**") {
        return Ok(());
    }
    if segment.is_empty() {
        return Err(PatternError::EmptySegment(pattern.to_owned()));
    }
    let (pattern, of_segment) = (pattern.to_owned(), segment.to_owned());
    if segment.contains('*') {
        return Err(PatternError::PartialWildcard { pattern, segment: of_segment });
    }
    let starts_well = segment.starts_with(|c: char| c.is_ascii_lowercase());
    if starts_well && segment.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_')) {
        Ok(())
    } else {
        Err(PatternError::BadSegment { pattern, segment: of_segment })
    }
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PathPattern {}

impl std::hash::Hash for PathPattern {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.text)
    }
}

impl FromStr for PathPattern {
    type Err = PatternError;
    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for PathPattern {
    type Error = PatternError;
    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl From<PathPattern> for String {
    fn from(pattern: PathPattern) -> Self {
        pattern.text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).unwrap().matches(&ToolPath::parse(path).unwrap())
    }

    #[test]
    fn a_star_is_one_segment_and_two_stars_are_one_or_more() {
        for (pattern, path, expected) in [
            ("github.issues.create", "github.issues.create", true),
            ("github.issues.create", "github.issues.create_all", false),
            ("github.issues.*", "github.issues.create", true),
            ("github.issues.*", "github.issues", false),
            ("github.issues.*", "github.issues.labels.add", false),
            ("github.*.create", "github.issues.create", true),
            ("*.*", "a.b", true),
            ("*.*", "a.b.c", false),
            ("**", "a.b", true),
            ("**", "a.b.c.d.e", true),
            ("github.**", "github.issues.create", true),
            ("github.**", "github.x", true),
            ("github.**", "gitlab.x", false),
            ("**.delete", "notes.delete", true),
            ("**.delete", "a.b.c.delete", true),
            ("**.delete", "a.delete.b", false),
            ("a.**.z", "a.z", false),
            ("a.**.z", "a.b.z", true),
            ("a.**.z", "a.z.z.b.z", true),
            ("a.**.z", "a.z.z.b", false),
            ("**.b.**.b.**", "a.b.c.b.d", true),
            ("**.b.**.b.**", "a.b.b.d", false),
            ("**.**", "a.b", true),
            ("**.**.**", "a.b", false),
            ("**.**.**", "a.b.c.d", true),
            ("**.*.x", "a.x", false),
            ("**.*.x", "a.b.x", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn each_refusal_teaches_what_to_write_instead() {
        for (pattern, says) in [
            ("", "the pattern is empty"),
            ("*", "write \"**\" for every tool"),
            ("github", "write \"github.**\" for everything under it"),
            ("github.iss*", "mixes a wildcard with other text"),
            ("github.***", "mixes a wildcard with other text"),
            ("*x.y", "tool.path.startsWith"),
            ("a..b", "empty segment"),
            (".a.b", "empty segment"),
            ("a.b.", "empty segment"),
            ("github.Issues", "segments start with a-z"),
            ("github.1", "segments start with a-z"),
            ("github.is sues", "can be in no path"),
            ("github.\u{202e}", "can be in no path"),
            ("github.[ab]", "can be in no path"),
        ] {
            let error = PathPattern::parse(pattern).unwrap_err().to_string();
            assert!(error.contains(says), "{pattern:?}: {error}");
        }
    }

    #[test]
    fn length_and_number_of_segments_are_bounded_at_their_edges() {
        let longest = format!("a.{}", "b".repeat(MAX_PATH_BYTES - 2));
        assert!(PathPattern::parse(&longest).is_ok());
        assert_eq!(PathPattern::parse(&format!("{longest}b")).unwrap_err(), PatternError::TooLong(201));
        let most = vec!["**"; MAX_PATTERN_SEGMENTS].join(".");
        assert!(PathPattern::parse(&most).is_ok());
        assert_eq!(PathPattern::parse(&format!("{most}.a")).unwrap_err(), PatternError::TooManySegments(33));
    }

    #[test]
    fn many_double_stars_on_a_long_path_take_no_longer_than_their_product() {
        // A matcher that tried every split would need more steps than there are atoms for any of these.
        let path = ToolPath::parse(&vec!["a"; 100].join(".")).unwrap();
        for tail in ["b", "a.b", "*.b"] {
            let pattern = format!("{}.{tail}", vec!["**.a"; 14].join("."));
            assert!(!PathPattern::parse(&pattern).unwrap().matches(&path));
        }
        assert!(PathPattern::parse(&vec!["**"; 32].join(".")).unwrap().matches(&path));
    }

    #[test]
    fn a_pattern_is_stored_as_the_text_it_was_written_as() {
        let pattern = PathPattern::parse("github.**.**").unwrap();
        assert_eq!(serde_json::to_string(&pattern).unwrap(), "\"github.**.**\"");
        assert_eq!(serde_json::from_str::<PathPattern>("\"github.**.**\"").unwrap(), pattern);
        assert_eq!(pattern.to_string(), pattern.as_str());
        assert!(serde_json::from_str::<PathPattern>("\"github.iss*\"").is_err());
    }

    /// The definition, written down without a thought for speed.
    fn fits(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((&"**", after)), Some((_, rest))) => fits(after, rest) || fits(pattern, rest),
            (Some((&"*", after)), Some((_, rest))) => fits(after, rest),
            (Some((name, after)), Some((segment, rest))) => name == segment && fits(after, rest),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(
            pattern in prop::collection::vec(prop_oneof![Just("*"), Just("**"), Just("a"), Just("b")], 2..7),
            path in prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c")], 2..9),
        ) {
            prop_assert_eq!(matches(&pattern.join("."), &path.join(".")), fits(&pattern, &path));
        }
    }
}
