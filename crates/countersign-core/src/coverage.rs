//! The coverage of an approval, and the words that say it.
//!
//! Promise: an answer without a further word covers what the question says, on every surface; and every surface shows these
//! words before the answer is given.

use std::time::Duration;

use countersign_sdk::Remember;

use crate::time::span;

/// The calls that an approval covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// This call.
    Call,
    /// Calls of this tool in the session, until the remembered approval ends.
    Session {
        /// With which arguments.
        args: CoveredArgs,
        /// How many calls after this one; without bound where nothing is said.
        uses: Option<u32>,
    },
}

/// The arguments that a remembered approval covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoveredArgs {
    /// Any.
    Any,
    /// Those that were approved, and no others.
    Same,
}

impl Coverage {
    /// Any call of the tool in the session.
    pub const SESSION: Self = Self::Session { args: CoveredArgs::Any, uses: None };

    /// The coverage of an approval without further choice. The tool, a rule or the settings decide it when the question is asked.
    pub const fn of_plain_yes(question: Remember) -> Self {
        match question {
            Remember::Call => Self::Call,
            Remember::Session => Self::SESSION,
        }
    }

    /// As a person reads it. The tool's path is given as it is shown there; how long a session's approval lasts may be unknown.
    pub fn words(self, tool: &str, lasts: Option<Duration>) -> String {
        let Self::Session { args, uses } = self else { return "this call only".to_owned() };
        let count = match uses {
            None => "later calls".to_owned(),
            Some(1) => "1 later call".to_owned(),
            Some(uses) => format!("at most {uses} later calls"),
        };
        let arguments = match args {
            CoveredArgs::Any => "with any arguments",
            CoveredArgs::Same => "with exactly these arguments",
        };
        let end = match lasts {
            Some(lasts) => format!("for {} or until revoked", span(lasts)),
            None => "until it expires or is revoked".to_owned(),
        };
        format!("this call and {count} of {tool} in this session, {arguments}, {end}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_A_DAY: Option<Duration> = Some(Duration::from_secs(12 * 60 * 60));

    #[test]
    fn a_yes_without_a_word_covers_what_the_question_says() {
        assert_eq!(Coverage::of_plain_yes(Remember::Call), Coverage::Call);
        assert_eq!(Coverage::of_plain_yes(Remember::Session), Coverage::SESSION);
    }

    #[test]
    fn the_words_name_tool_arguments_number_and_end() {
        assert_eq!(Coverage::Call.words("lab.erase", HALF_A_DAY), "this call only");
        assert_eq!(
            Coverage::SESSION.words("lab.erase", HALF_A_DAY),
            "this call and later calls of lab.erase in this session, with any arguments, for 12 h or until revoked"
        );
        let narrow = |uses| Coverage::Session { args: CoveredArgs::Same, uses: Some(uses) };
        assert_eq!(
            narrow(3).words("lab.erase", None),
            "this call and at most 3 later calls of lab.erase in this session, with exactly these arguments, until it expires or \
             is revoked"
        );
        assert!(narrow(1).words("lab.erase", None).contains("and 1 later call of lab.erase"));
    }
}
