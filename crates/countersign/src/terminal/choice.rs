//! Yes, no, or later.

use countersign_sdk::Remember;

use countersign_server::wire::ResolveRequest;

use super::{Keyboard, Reply, no, yes};
use crate::coverage::{self, ARGUMENT_CHOICES, SessionArguments, USES_PROMPT};
use crate::screen::Screen;

/// Asks about an approval. What cannot be remembered is not offered; what is remembered is said and can be narrowed first.
pub(super) async fn approval(
    remember: Remember,
    session_scope: &str,
    keyboard: &mut Keyboard,
    screen: Screen,
) -> Reply {
    let offers = match remember {
        Remember::Session => {
            "[a] approve this call   [s] approve for the session …   [d] deny   [q] leave it waiting"
        }
        Remember::Call => "[a] approve this call   [d] deny   [q] leave it waiting",
    };
    loop {
        screen.ask(&format!("{offers}\n> "));
        match keyboard.line().await.as_deref() {
            None | Some("q") => return Reply::Leave,
            Some("a") => return Reply::Answer(yes(Some(Remember::Call), None)),
            Some("s") if remember == Remember::Session => {
                if let Some(answer) = for_session(session_scope, keyboard, screen).await {
                    return Reply::Answer(answer);
                }
            }
            Some("d") => return Reply::Answer(no(reason(keyboard, screen).await)),
            Some(_) => screen.note("Type one of the letters and press Enter."),
        }
    }
}

/// Says what an approval for the session covers, and asks how far it goes; nothing where the person goes back.
async fn for_session(scope: &str, keyboard: &mut Keyboard, screen: Screen) -> Option<ResolveRequest> {
    screen.note(&format!("For the session: also {scope}."));
    screen.ask(&format!("{ARGUMENT_CHOICES}\n> "));
    let arguments = SessionArguments::chosen(keyboard.line().await?.as_str())?;
    loop {
        screen.ask(&format!("{USES_PROMPT}\n> "));
        match coverage::uses(&keyboard.line().await?) {
            Ok(uses) => return Some(coverage::approval(arguments, uses)),
            Err(problem) => screen.note(problem),
        }
    }
}

/// Asks a plain yes or no.
pub(super) async fn confirmation(keyboard: &mut Keyboard, screen: Screen) -> Reply {
    loop {
        screen.ask("[y] yes   [n] no   [q] leave it waiting\n> ");
        match keyboard.line().await.as_deref() {
            None | Some("q") => return Reply::Leave,
            Some("y") => return Reply::Answer(yes(None, None)),
            Some("n") => return Reply::Answer(no(reason(keyboard, screen).await)),
            Some(_) => screen.note("Type one of the letters and press Enter."),
        }
    }
}

/// Why they say no; the caller reads it.
pub(super) async fn reason(keyboard: &mut Keyboard, screen: Screen) -> Option<String> {
    screen.ask("Reason, sent to the agent (Enter to skip)\n> ");
    keyboard.line().await.filter(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, Format, Paint};

    const SCREEN: Screen =
        Screen { format: Format::Text, audience: Audience::Person, out: Paint::Plain, err: Paint::Plain };

    async fn typed(remember: Remember, lines: &[&str]) -> Reply {
        approval(remember, "later calls of lab.destroy", &mut Keyboard::typing(lines), SCREEN).await
    }

    fn approved(remember: Remember) -> Reply {
        Reply::Answer(yes(Some(remember), None))
    }

    #[tokio::test]
    async fn only_the_named_letters_decide() {
        assert_eq!(typed(Remember::Session, &["a"]).await, approved(Remember::Call));
        for nothing in ["", "A", "yes", "approve", "aa", "\u{1b}[A"] {
            assert_eq!(typed(Remember::Session, &[nothing]).await, Reply::Leave, "{nothing:?}");
        }
        assert_eq!(
            typed(Remember::Session, &["d", "no way"]).await,
            Reply::Answer(no(Some("no way".into())))
        );
        assert_eq!(typed(Remember::Session, &["d"]).await, Reply::Answer(no(None)));
        assert_eq!(typed(Remember::Session, &[]).await, Reply::Leave);
    }

    #[tokio::test]
    async fn for_the_session_takes_a_second_word_and_can_be_narrowed() {
        let wide = coverage::approval(SessionArguments::Any, None);
        assert_eq!(typed(Remember::Session, &["s", "y", ""]).await, Reply::Answer(wide));
        let narrow = coverage::approval(SessionArguments::Same, Some(3));
        assert_eq!(typed(Remember::Session, &["s", "e", "0", "3"]).await, Reply::Answer(narrow));
        assert_eq!(typed(Remember::Session, &["s", "n", "a"]).await, approved(Remember::Call), "gone back");
        assert_eq!(typed(Remember::Session, &["s"]).await, Reply::Leave);
    }

    #[tokio::test]
    async fn what_cannot_be_remembered_is_not_taken_as_yes() {
        assert_eq!(typed(Remember::Call, &["s"]).await, Reply::Leave);
    }
}
