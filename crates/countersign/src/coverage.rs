//! What an approval covers, said before it is given; and how an approval for the session is narrowed.
//!
//! The words are the core's, the same on every surface.

use std::time::Duration;

use countersign_core::coverage::{Coverage, CoveredArgs};
use countersign_sdk::Remember;
use countersign_server::wire::{Pending, PendingKind, ResolveRequest};
use serde_json::Value;

use crate::shown;
use crate::terminal::yes;

/// How an approval for the session narrows to the arguments that were shown.
pub(crate) const ARGUMENT_CHOICES: &str =
    "[y] any arguments   [e] exactly these arguments   anything else: go back";

/// How its number of calls is asked for.
pub(crate) const USES_PROMPT: &str = "For how many later calls? (Enter: no limit)";

/// How much an approval of a question may cover.
pub(crate) fn most_remembered(pending: &Pending) -> Remember {
    if pending.remember == "session" { Remember::Session } else { Remember::Call }
}

/// What a yes without a further word covers.
pub(crate) fn of_plain_yes(pending: &Pending) -> Coverage {
    Coverage::of_plain_yes(most_remembered(pending))
}

/// What an approval that covers this much covers; nothing for a form, whose answer is for its call.
pub(crate) fn words(pending: &Pending, covers: Coverage, lasts: Option<Duration>) -> Option<String> {
    (pending.kind == PendingKind::Approval).then(|| covers.words(&shown::line(&pending.tool_path), lasts))
}

/// Which arguments were chosen by a letter of [`ARGUMENT_CHOICES`].
pub(crate) fn chosen_args(letter: &str) -> Option<CoveredArgs> {
    match letter {
        "y" => Some(CoveredArgs::Any),
        "e" => Some(CoveredArgs::Same),
        _ => None,
    }
}

/// A number of calls as it was typed; nothing for no limit.
pub(crate) fn uses(typed: &str) -> Result<Option<u32>, &'static str> {
    match typed.trim() {
        "" => Ok(None),
        number => match number.parse() {
            Ok(0) | Err(_) => Err("Type a number of calls from 1 on, or only Enter for no limit."),
            Ok(uses) => Ok(Some(uses)),
        },
    }
}

/// Yes, and what it covers: what was shown is said, so that nothing else is meant by it.
pub(crate) fn approval(pending: &Pending, covers: Coverage, data: Option<Value>) -> ResolveRequest {
    match (pending.kind, covers) {
        (PendingKind::Form, _) => yes(None, data),
        (PendingKind::Approval, Coverage::Call) => yes(Some(Remember::Call), data),
        (PendingKind::Approval, Coverage::Session { args, uses }) => ResolveRequest {
            remember_args: (args == CoveredArgs::Same).then(|| "same".to_owned()),
            remember_uses: uses,
            ..yes(Some(Remember::Session), data)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::fixture::{asked, form};

    #[test]
    fn a_number_of_calls_is_at_least_one() {
        assert_eq!(uses(""), Ok(None));
        assert_eq!(uses(" 3 "), Ok(Some(3)));
        for wrong in ["0", "-1", "many", "4294967296"] {
            assert!(uses(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_approval_for_the_session_carries_what_it_was_narrowed_to() {
        let question = asked(1, Value::Null).question;
        let narrowed = Coverage::Session { args: CoveredArgs::Same, uses: Some(2) };
        let narrowed = approval(&question, narrowed, None);
        assert_eq!((narrowed.remember_args.as_deref(), narrowed.remember_uses), (Some("same"), Some(2)));
        let wide = approval(&question, of_plain_yes(&question), None);
        assert_eq!(
            (wide.remember.as_deref(), wide.remember_args, wide.remember_uses),
            (Some("session"), None, None)
        );
        let once = approval(&question, Coverage::Call, None);
        assert_eq!((once.remember.as_deref(), once.remember_uses), (Some("call"), None));
    }

    #[test]
    fn an_answer_to_a_form_covers_its_call_and_says_nothing_of_it() {
        let question = form(1).question;
        assert_eq!(words(&question, of_plain_yes(&question), None), None);
        assert_eq!(approval(&question, Coverage::SESSION, None).remember, None);
    }
}
