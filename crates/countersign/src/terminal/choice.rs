//! Yes, no, or later.

use countersign_sdk::Remember;

use super::{Keyboard, Reply, no, yes};
use crate::screen::Screen;

/// Asks about an approval. What cannot be remembered is not offered.
pub(super) async fn approval(remember: Remember, keyboard: &mut Keyboard, screen: Screen) -> Reply {
    let offers = match remember {
        Remember::Session => {
            "[a] approve this call   [s] approve this tool for the session, any arguments   [d] deny   [q] leave it waiting"
        }
        Remember::Call => "[a] approve this call   [d] deny   [q] leave it waiting",
    };
    loop {
        screen.ask(&format!("{offers}\n> "));
        match keyboard.line().await.as_deref() {
            None | Some("q") => return Reply::Leave,
            Some("a") => return Reply::Answer(yes(Some(Remember::Call), None)),
            Some("s") if remember == Remember::Session => {
                return Reply::Answer(yes(Some(Remember::Session), None));
            }
            Some("d") => return Reply::Answer(no(reason(keyboard, screen).await)),
            Some(_) => screen.note("Type one of the letters and press Enter."),
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
        approval(remember, &mut Keyboard::typing(lines), SCREEN).await
    }

    fn approved(remember: Remember) -> Reply {
        Reply::Answer(yes(Some(remember), None))
    }

    #[tokio::test]
    async fn only_the_named_letters_decide() {
        assert_eq!(typed(Remember::Session, &["a"]).await, approved(Remember::Call));
        assert_eq!(typed(Remember::Session, &["s"]).await, approved(Remember::Session));
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
    async fn what_cannot_be_remembered_is_not_taken_as_yes() {
        assert_eq!(typed(Remember::Call, &["s"]).await, Reply::Leave);
    }
}
