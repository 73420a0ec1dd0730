//! What an approval covers, said before it is given; and how an approval for the session is narrowed.

use std::time::Duration;

use countersign_sdk::Remember;
use countersign_server::wire::{Pending, PendingKind, ResolveRequest};

use crate::shown;
use crate::span::span;
use crate::terminal::{most_remembered, yes};

/// How an approval for the session narrows to the arguments that were shown.
pub(crate) const ARGUMENT_CHOICES: &str =
    "[y] any arguments   [e] exactly these arguments   anything else: go back";

/// How its number of calls is asked for.
pub(crate) const USES_PROMPT: &str = "For how many later calls? (Enter: no limit)";

/// Which arguments an approval for the session covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionArguments {
    Any,
    Same,
}

impl SessionArguments {
    /// What was chosen by a letter of [`ARGUMENT_CHOICES`].
    pub(crate) fn chosen(letter: &str) -> Option<Self> {
        match letter {
            "y" => Some(Self::Any),
            "e" => Some(Self::Same),
            _ => None,
        }
    }
}

/// What a yes covers where nothing else is chosen.
pub(crate) fn words(pending: &Pending, remember_for: Option<Duration>) -> Option<String> {
    if pending.kind != PendingKind::Approval {
        return None;
    }
    Some(match most_remembered(pending) {
        Remember::Call => "this call only".to_owned(),
        Remember::Session => {
            format!(
                "this call only; for the session: {}, any arguments unless you narrow it",
                for_session(pending, remember_for)
            )
        }
    })
}

/// Which calls an approval for the session covers, and until when.
pub(crate) fn for_session(pending: &Pending, remember_for: Option<Duration>) -> String {
    let tool = shown::line(&pending.tool_path);
    let end = match remember_for {
        Some(lasts) => format!("for {} or until revoked", span(lasts)),
        None => "until it expires or is revoked".to_owned(),
    };
    format!("later calls of {tool} in this session, {end}")
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

/// Yes, for the session.
pub(crate) fn approval(arguments: SessionArguments, uses: Option<u32>) -> ResolveRequest {
    ResolveRequest {
        remember_args: (arguments == SessionArguments::Same).then(|| "same".to_owned()),
        remember_uses: uses,
        ..yes(Some(Remember::Session), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let narrowed = approval(SessionArguments::Same, Some(2));
        assert_eq!((narrowed.remember_args.as_deref(), narrowed.remember_uses), (Some("same"), Some(2)));
        let wide = approval(SessionArguments::Any, None);
        assert_eq!(
            (wide.remember.as_deref(), wide.remember_args, wide.remember_uses),
            (Some("session"), None, None)
        );
    }
}
