//! Asking the person at this terminal.
//!
//! Promises: they see the whole question before they can answer it; no key but the named ones decides anything, and
//! neither does an end of input; a question whose time is up is not answered by whoever types a moment later.

mod choice;
mod form;
mod keyboard;

use countersign_kernel::{Answer, DecideError, ExecutionResult, Pending, Target};
use countersign_sdk::AskKind;

pub(crate) use keyboard::Keyboard;

use crate::exit::Problem;
use crate::local::Local;
use crate::report;
use crate::screen::Screen;

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    /// They answered.
    Answer(Answer, Option<String>),
    /// They leave it for later.
    Leave,
}

/// Asks until the execution ends or the person leaves it waiting.
pub(crate) async fn see_through(
    local: &Local,
    mut result: ExecutionResult,
) -> anyhow::Result<ExecutionResult> {
    let mut keyboard = Keyboard::of_process();
    while result.paused().is_some() {
        match ask_oldest(local, &result, &mut keyboard).await? {
            Asked::Answered => result = local.until_paused(result.execution).await?,
            Asked::Left => break,
        }
    }
    Ok(result)
}

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It is no longer open, or is to be asked again.
    Answered,
    /// They leave it for later.
    Left,
}

/// Asks the oldest question that an execution waits for, and takes the answer.
pub(crate) async fn ask_oldest(
    local: &Local,
    result: &ExecutionResult,
    keyboard: &mut Keyboard,
) -> anyhow::Result<Asked> {
    let screen = local.screen;
    if let Some(pending) = result.paused().cloned() {
        let time_up = tokio::time::sleep(local.gateway.now().until(pending.elicitation.expires_at));
        let reply = tokio::select! {
            reply = ask(&pending, keyboard, screen) => reply,
            () = time_up => {
                screen.note("\nThe time to decide is up.");
                // The gateway's own clock closes it; a moment later it is recorded.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                return Ok(Asked::Answered);
            }
        };
        let Reply::Answer(answer, comment) = reply else { return Ok(Asked::Left) };
        match local.decide(Target::Elicitation(pending.elicitation.id), answer, comment).await {
            Ok(receipt) => screen.note(&report::receipt(&receipt, &pending.elicitation, screen.err)),
            Err(DecideError::Expired) => screen.note("The time to decide is up."),
            Err(error @ (DecideError::InvalidData(_) | DecideError::OutOfBounds(_))) => {
                screen.note(&screen.err.red(&error.to_string()));
            }
            Err(error) => return Err(Problem::new(error.code(), error.to_string()).into()),
        }
    }
    Ok(Asked::Answered)
}

async fn ask(pending: &Pending, keyboard: &mut Keyboard, screen: Screen) -> Reply {
    let elicitation = &pending.elicitation;
    keyboard.forget_typed_ahead();
    screen.note(&format!("\n{}", report::question(elicitation, screen.err)));
    match &elicitation.kind {
        AskKind::Approval => choice::approval(elicitation.remember, keyboard, screen).await,
        AskKind::Form { schema } if form::is_bare(schema) => choice::confirmation(keyboard, screen).await,
        AskKind::Form { schema } => form::fill(schema, keyboard, screen).await,
    }
}

/// Asks for the fields of a form; nothing where the person leaves or declines.
pub(crate) async fn fill(schema: &countersign_sdk::FormSchema, screen: Screen) -> Option<Answer> {
    match form::fill(schema, &mut Keyboard::of_process(), screen).await {
        Reply::Answer(answer @ Answer::Approve { .. }, _) => Some(answer),
        _ => None,
    }
}
