//! Ids as people type them: cut to any length that is still unique.
//!
//! Promises: a whole id is taken as it is, without a look at any list; a beginning is taken only where exactly one id has it;
//! where several have it they are listed; where there are more ids than are looked at, nothing is guessed.

use std::collections::BTreeSet;

use countersign_core::ids::{ElicitationId, ExecutionId, GrantId, TokenId};

use crate::client::Part;
use crate::contact::Contact;
use crate::exit::Problem;
use crate::shown;

/// The most ids that a beginning is looked up among. Past this a whole id is needed.
const MOST_IDS: usize = 10_000;
/// How many digits of an id a list shows: enough to be unique.
const LISTED_DIGITS: usize = 16;
/// How many candidates are listed where a beginning is not enough.
const MOST_LISTED: usize = 10;
/// Hexadecimal digits of the longest ids: those of executions and elicitations.
const DIGITS: usize = 44;

/// An id as a list shows it, to leave room for what people read. It is taken wherever an id is.
pub(crate) fn in_a_list(id: &str) -> &str {
    let prefix = id.find('_').map_or(0, |end| end + 1);
    id.get(..prefix + LISTED_DIGITS).unwrap_or(id)
}

/// Whether a text is an id of this prefix, or the beginning of one.
pub(crate) fn is_beginning(text: &str, prefix: &str) -> bool {
    let digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    text.strip_prefix(prefix)
        .is_some_and(|digits| !digits.is_empty() && digits.len() <= DIGITS && digits.chars().all(digit))
}

/// The execution that an id, or the beginning of one, names.
pub(crate) async fn execution(contact: &Contact, text: &str) -> Result<String, Problem> {
    if !is_cut::<ExecutionId>(text, ExecutionId::PREFIX) {
        return Ok(text.to_owned());
    }
    let mut found = Candidates::of(text);
    let mut part = Some(Part::default());
    while let Some(wanted) = part {
        let list = contact.operator.executions(&[], &wanted).await?;
        part = Part::after(&list);
        found.look_at(list.items.into_iter().map(|item| item.execution_id))?;
    }
    found.only_one("execution", &contact.invocation.command("executions"))
}

/// The question, or the execution that waits, which an id or the beginning of one names.
pub(crate) async fn waiting(contact: &Contact, text: &str) -> Result<String, Problem> {
    let is_execution = is_cut::<ExecutionId>(text, ExecutionId::PREFIX);
    if !is_execution && !is_cut::<ElicitationId>(text, ElicitationId::PREFIX) {
        return Ok(text.to_owned());
    }
    let mut found = Candidates::of(text);
    let mut part = Some(Part::default());
    while let Some(wanted) = part {
        let list = contact.operator.elicitations(&wanted).await?;
        part = Part::after(&list);
        let ids = list.items.into_iter().map(|asked| asked.question);
        found
            .look_at(ids.map(|asked| if is_execution { asked.execution_id } else { asked.elicitation_id }))?;
    }
    found.only_one("pending request", &contact.invocation.command("inbox"))
}

/// The token that an id, or the beginning of one, names.
pub(crate) async fn token(contact: &Contact, text: &str) -> Result<String, Problem> {
    if !is_cut::<TokenId>(text, TokenId::PREFIX) {
        return Ok(text.to_owned());
    }
    let mut found = Candidates::of(text);
    let tokens = contact.operator.tokens().await?;
    // One whose record is damaged can be revoked too.
    found.look_at(tokens.damaged.into_iter().map(|damaged| damaged.id))?;
    found.look_at(tokens.items.into_iter().map(|token| token.token_id))?;
    found.only_one("token", &contact.invocation.command("token list"))
}

/// The remembered approval of a session that an id, or the beginning of one, names.
pub(crate) async fn grant(contact: &Contact, session: &str, text: &str) -> Result<String, Problem> {
    if !is_cut::<GrantId>(text, GrantId::PREFIX) {
        return Ok(text.to_owned());
    }
    let mut found = Candidates::of(text);
    found.look_at(contact.operator.grants(session).await?.items.into_iter().map(|grant| grant.grant_id))?;
    let list = contact.invocation.command(&format!("grants list --session {session}"));
    found.only_one("remembered approval", &list)
}

/// Whether a text is the beginning of an id, and not a whole one. What is neither is for the server to refuse.
fn is_cut<I: std::str::FromStr>(text: &str, prefix: &str) -> bool {
    text.parse::<I>().is_err() && is_beginning(text, prefix)
}

/// What begins with a text, out of what was looked at.
struct Candidates<'t> {
    text: &'t str,
    looked_at: usize,
    found: BTreeSet<String>,
}

impl<'t> Candidates<'t> {
    fn of(text: &'t str) -> Self {
        Self { text, looked_at: 0, found: BTreeSet::new() }
    }

    fn look_at(&mut self, ids: impl Iterator<Item = String>) -> Result<(), Problem> {
        for id in ids {
            self.looked_at += 1;
            if self.looked_at > MOST_IDS {
                let message =
                    format!("there are more than {MOST_IDS} ids, too many to find {} among them", self.text);
                return Err(Problem::new("id_too_short", message).hint("Give the whole id."));
            }
            if id.starts_with(self.text) {
                self.found.insert(id);
            }
        }
        Ok(())
    }

    fn only_one(self, what: &str, list: &str) -> Result<String, Problem> {
        let mut found = self.found.iter();
        match (found.next(), found.next()) {
            (Some(id), None) => Ok(id.clone()),
            (None, _) => Err(Problem::new("not_found", format!("no {what} begins with {}", self.text))
                .hint(format!("`{list}` lists them."))),
            (Some(_), Some(_)) => {
                let ids = self.found.iter().take(MOST_LISTED).map(|id| format!("\n  {}", shown::line(id)));
                let more = match self.found.len().saturating_sub(MOST_LISTED) {
                    0 => String::new(),
                    more => format!("\n  and {more} more"),
                };
                let message = format!("{} is not unique: {} match{}{more}", self.text, self.found.len(), {
                    ids.collect::<String>()
                });
                Err(Problem::new("ambiguous_id", message).hint("Give more of the id."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_up(text: &str, ids: &[&str]) -> Result<String, Problem> {
        let mut found = Candidates::of(text);
        found.look_at(ids.iter().map(|id| (*id).to_owned()))?;
        found.only_one("execution", "countersign executions")
    }

    #[test]
    fn a_beginning_is_taken_only_where_one_id_has_it() {
        let ids = ["exec_aa11", "exec_aa22", "exec_b"];
        assert_eq!(looked_up("exec_aa1", &ids).unwrap(), "exec_aa11");
        assert_eq!(looked_up("exec_b", &ids).unwrap(), "exec_b");
        let several = looked_up("exec_aa", &ids).unwrap_err();
        assert_eq!(several.code, "ambiguous_id");
        assert!(several.message.contains("exec_aa11") && several.message.contains("exec_aa22"), "{several}");
        assert_eq!(looked_up("exec_c", &ids).unwrap_err().code, "not_found");
    }

    #[test]
    fn past_the_bound_nothing_is_guessed() {
        let ids = |number: usize| (0..number).map(|n| format!("exec_{n:x}"));
        let mut found = Candidates::of("exec_fff");
        found.look_at(ids(MOST_IDS)).unwrap();
        let mut beyond = Candidates::of("exec_fff");
        assert_eq!(beyond.look_at(ids(MOST_IDS + 1)).unwrap_err().code, "id_too_short");
    }

    #[test]
    fn a_list_shows_enough_of_an_id_to_name_it() {
        assert_eq!(in_a_list("exec_0123456789abcdef0123456789abcdef018bcfe56800"), "exec_0123456789abcdef");
        assert_eq!(in_a_list("exec_1"), "exec_1");
        assert_eq!(in_a_list(""), "");
    }

    #[test]
    fn what_is_a_beginning() {
        for yes in ["exec_1", "exec_0123456789abcdef0123456789abcdef018bcfe56800"] {
            assert!(is_beginning(yes, "exec_"), "{yes}");
        }
        for no in ["exec_", "exec", "exec_G", "eli_1", &format!("exec_{}", "0".repeat(45)), ""] {
            assert!(!is_beginning(no, "exec_"), "{no}");
        }
    }
}
