//! All problems of a file's rules at once, so that one edit can fix them.

/// Why a file's rules cannot be used. Never empty. `Display` prints one line for each error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listing(.errors))]
pub struct PolicyErrors {
    errors: Vec<PolicyError>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {reason}", rule.map(|number| format!(", rule {number}")).unwrap_or_default())]
pub struct PolicyError {
    /// The line of the file, from 1.
    pub line: usize,
    /// The rule, from 1, if it is about one.
    pub rule: Option<usize>,
    /// The problem, and what to write instead.
    pub reason: String,
}

impl PolicyErrors {
    /// `Ok` if there are none.
    pub(super) fn none_or(mut errors: Vec<PolicyError>) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by_key(|error| error.line);
        Err(Self { errors })
    }

    /// Line and reason of each, in the order of the file. The reason names the rule, if it is about one.
    pub fn iter(&self) -> impl Iterator<Item = (usize, String)> {
        self.errors.iter().map(|error| {
            let reason = match error.rule {
                Some(number) => format!("rule {number}: {}", error.reason),
                None => error.reason.clone(),
            };
            (error.line, reason)
        })
    }

    /// Each error in its parts.
    pub fn errors(&self) -> &[PolicyError] {
        &self.errors
    }
}

fn listing(errors: &[PolicyError]) -> String {
    errors.iter().map(PolicyError::to_string).collect::<Vec<_>>().join("\n")
}
