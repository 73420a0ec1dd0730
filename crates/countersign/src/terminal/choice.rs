//! Yes, no, or later.

use countersign_core::coverage::Coverage;
use countersign_sdk::Remember;
use countersign_server::wire::Pending;

use super::{Keyboard, Reply, no, yes};
use crate::coverage::{self, ARGUMENT_CHOICES, USES_PROMPT, most_remembered};
use crate::report::Background;
use crate::screen::Screen;

/// Asks about an approval that was shown with what it covers. What cannot be remembered is not offered; what is remembered can be
/// narrowed first, to fewer calls or to this one.
pub(super) async fn approval(
    pending: &Pending,
    background: &Background,
    keyboard: &mut Keyboard,
    screen: Screen,
) -> Reply {
    let (covers, _) = background.covers(pending);
    let may_remember = most_remembered(pending) == Remember::Session;
    let offers = match (covers, may_remember) {
        (Coverage::Session { .. }, _) => {
            "[a] approve for the session   [o] approve this call only   [s] choose how far …   [d] deny   [q] leave it waiting"
        }
        (Coverage::Call, true) => {
            "[a] approve this call   [s] choose how far …   [d] deny   [q] leave it waiting"
        }
        (Coverage::Call, false) => "[a] approve this call   [d] deny   [q] leave it waiting",
    };
    let answer = |covers| Reply::Answer(coverage::approval(pending, covers, None));
    loop {
        screen.ask(&format!("{offers}\n> "));
        match keyboard.line().await.as_deref() {
            None | Some("q") => return Reply::Leave,
            Some("a") => return answer(covers),
            Some("o") if may_remember => return answer(Coverage::Call),
            Some("s") if may_remember => {
                if let Some(narrowed) = how_far(pending, background, keyboard, screen).await {
                    return answer(narrowed);
                }
            }
            Some("d") => return Reply::Answer(no(reason(keyboard, screen).await)),
            Some(_) => screen.note("Type one of the letters and press Enter."),
        }
    }
}

/// Asks how far an approval for the session goes; nothing where the person goes back.
async fn how_far(
    pending: &Pending,
    background: &Background,
    keyboard: &mut Keyboard,
    screen: Screen,
) -> Option<Coverage> {
    if let Some(words) = coverage::words(pending, Coverage::SESSION, background.remember_for) {
        screen.note(&format!("An approval for the session covers: {words}, unless you narrow it."));
    }
    screen.ask(&format!("{ARGUMENT_CHOICES}\n> "));
    let args = coverage::chosen_args(keyboard.line().await?.as_str())?;
    loop {
        screen.ask(&format!("{USES_PROMPT}\n> "));
        match coverage::uses(&keyboard.line().await?) {
            Ok(uses) => return Some(Coverage::Session { args, uses }),
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
    use countersign_core::coverage::CoveredArgs;
    use serde_json::json;

    use super::*;
    use crate::screen::{Audience, Format, Paint};
    use crate::watch::fixture::{asked, each_call};

    const SCREEN: Screen =
        Screen { format: Format::Text, audience: Audience::Person, out: Paint::Plain, err: Paint::Plain };

    /// A question that says this of what a yes covers.
    fn question(remember: Remember) -> Pending {
        match remember {
            Remember::Session => asked(1, json!({ "id": 1 })).question,
            Remember::Call => each_call(1).question,
        }
    }

    async fn typed(remember: Remember, lines: &[&str]) -> Reply {
        let background = Background::default();
        approval(&question(remember), &background, &mut Keyboard::typing(lines), SCREEN).await
    }

    fn approved(covers: Coverage) -> Reply {
        Reply::Answer(coverage::approval(&question(Remember::Session), covers, None))
    }

    #[tokio::test]
    async fn only_the_named_letters_decide() {
        assert_eq!(typed(Remember::Call, &["a"]).await, approved(Coverage::Call));
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
    async fn a_plain_yes_covers_what_the_question_says_and_can_be_narrowed() {
        assert_eq!(typed(Remember::Session, &["a"]).await, approved(Coverage::SESSION));
        assert_eq!(typed(Remember::Session, &["o"]).await, approved(Coverage::Call));
        assert_eq!(typed(Remember::Session, &["s", "y", ""]).await, approved(Coverage::SESSION));
        let narrow = Coverage::Session { args: CoveredArgs::Same, uses: Some(3) };
        assert_eq!(typed(Remember::Session, &["s", "e", "0", "3"]).await, approved(narrow));
        assert_eq!(typed(Remember::Session, &["s", "n", "o"]).await, approved(Coverage::Call), "gone back");
        assert_eq!(typed(Remember::Session, &["s"]).await, Reply::Leave);
    }

    #[tokio::test]
    async fn what_the_command_line_chose_is_what_a_plain_yes_covers() {
        let chosen = Coverage::Session { args: CoveredArgs::Same, uses: Some(2) };
        let background = Background { chosen: Some(chosen), ..Background::default() };
        let keyboard = &mut Keyboard::typing(&["a"]);
        let reply = approval(&question(Remember::Session), &background, keyboard, SCREEN).await;
        assert_eq!(reply, approved(chosen));
    }

    #[tokio::test]
    async fn what_cannot_be_remembered_is_not_taken_as_yes() {
        for letter in ["s", "o"] {
            assert_eq!(typed(Remember::Call, &[letter]).await, Reply::Leave);
        }
    }
}
