//! Asking the person at this terminal.
//!
//! Promises: they see the whole question before they can answer it; no key but the named ones decides anything, and
//! neither does an end of input; a question whose time is up, or that somebody decided elsewhere, is not answered by whoever
//! types a moment later, and what they had begun to type does not answer the next one.

mod choice;
mod form;
mod keyboard;

use std::time::Duration;

use countersign_sdk::{FormSchema, Remember};
use countersign_server::wire::{
    Decision, Elicitation, ExecutionResult, Pending, PendingKind, ResolveRequest,
};
use serde_json::Value;

pub(crate) use form::fields;
pub(crate) use keyboard::Keyboard;
use keyboard::TypedAhead;

use crate::contact::Contact;
use crate::report::{self, Background};
use crate::screen::Screen;

/// How long the server's clock may take to close what expired.
const A_MOMENT: Duration = Duration::from_millis(50);
/// How often a question that is asked here is looked at, in case somebody decides it elsewhere.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    /// They answered.
    Answer(ResolveRequest),
    /// They leave it for later.
    Leave,
}

/// Yes.
pub(crate) fn yes(remember: Option<Remember>, data: Option<Value>) -> ResolveRequest {
    let remember = remember.map(|remember| match remember {
        Remember::Call => "call".to_owned(),
        Remember::Session => "session".to_owned(),
    });
    ResolveRequest { approved: true, data, remember, ..ResolveRequest::default() }
}

/// No.
pub(crate) fn no(reason: Option<String>) -> ResolveRequest {
    ResolveRequest { comment: reason, ..ResolveRequest::default() }
}

/// Asks until the execution ends or the person leaves it waiting.
pub(crate) async fn see_through(
    contact: &Contact,
    mut result: ExecutionResult,
) -> anyhow::Result<ExecutionResult> {
    let mut keyboard = Keyboard::of_process();
    while result.paused.is_some() {
        match ask_oldest(contact, &result, &mut keyboard).await? {
            Asked::Answered => result = contact.operator.until_it_rests(&result.execution_id).await?,
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
    contact: &Contact,
    result: &ExecutionResult,
    keyboard: &mut Keyboard,
) -> anyhow::Result<Asked> {
    let screen = contact.screen;
    let Some(pending) = &result.paused else { return Ok(Asked::Answered) };
    let background = contact.background(&pending.elicitation_id).await;
    let time_up = tokio::time::sleep(report::time_left(pending).unwrap_or_default());
    let reply = tokio::select! {
        reply = ask(pending, &background, keyboard, screen) => reply,
        () = time_up => {
            screen.note("\nThe time to decide is up.");
            tokio::time::sleep(A_MOMENT).await;
            return Ok(Asked::Answered);
        }
        decided = decided_elsewhere(contact, &pending.elicitation_id) => {
            let words = report::told_decision(&decided, contact.names().await);
            screen.note(&format!("\nDecided elsewhere: {words}."));
            return Ok(Asked::Answered);
        }
    };
    let Reply::Answer(answer) = reply else { return Ok(Asked::Left) };
    match contact.operator.resolve(pending, &answer).await {
        Ok(receipt) => screen.note(&report::receipt(&receipt, pending, screen.err)),
        Err(problem) => match problem.code.as_ref() {
            "expired" => screen.note("The time to decide is up."),
            "already_decided" => screen.note("Somebody else decided it meanwhile."),
            "invalid_data" | "value_too_large" => screen.note(&screen.err.red(&problem.message)),
            "not_allowed" => {
                screen.note(&screen.err.red(&problem.message));
                return Ok(Asked::Left);
            }
            _ => return Err(problem.into()),
        },
    }
    Ok(Asked::Answered)
}

async fn ask(pending: &Pending, background: &Background, keyboard: &mut Keyboard, screen: Screen) -> Reply {
    show(pending, background, keyboard, screen).await;
    match (pending.kind, &pending.schema) {
        (PendingKind::Form, Some(schema)) if !report::authorises(pending) => match FormSchema::new(schema) {
            Ok(schema) => form::fill(&schema, keyboard, screen).await,
            Err(error) => {
                screen.note(&format!("The form cannot be asked for here: {error}"));
                Reply::Leave
            }
        },
        (PendingKind::Form, _) => choice::confirmation(keyboard, screen).await,
        (PendingKind::Approval, _) => choice::approval(pending, background, keyboard, screen).await,
    }
}

/// Shows a question whole. What was typed before that answers nothing, and whoever typed it is told.
async fn show(pending: &Pending, background: &Background, keyboard: &mut Keyboard, screen: Screen) {
    let before = keyboard.forget_typed_ahead().await;
    screen.note(&format!("\n{}", report::question(pending, background, screen.err)));
    if before == TypedAhead::Lines {
        screen.note("What you typed before this question was shown was not taken.");
    }
}

/// Asks for the fields of a form that nobody else asked for; nothing where the person leaves.
pub(crate) async fn fill_in(schema: &FormSchema, screen: Screen) -> Option<Value> {
    form::complete(schema, &mut Keyboard::of_process(), screen).await
}

/// Waits until somebody else decides a question.
async fn decided_elsewhere(contact: &Contact, elicitation: &str) -> Decision {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // A server that does not answer now is asked again; the person here can answer meanwhile.
        if let Ok(Elicitation { decision: Some(decision), .. }) =
            contact.operator.elicitation(elicitation).await
        {
            return decision;
        }
    }
}

/// Asks whether to approve a question that is shown whole; nothing where the person leaves it waiting.
pub(crate) async fn ask_about(
    asked: &Elicitation,
    background: &Background,
    contact: &Contact,
) -> Option<ResolveRequest> {
    match ask(&asked.question, background, &mut Keyboard::of_process(), contact.screen).await {
        Reply::Answer(answer) => Some(answer),
        Reply::Leave => None,
    }
}

/// Shows a text and asks about it; nothing at the end of input. What was typed before it was shown answers nothing.
pub(crate) async fn answer(
    text: &str,
    question: &str,
    keyboard: &mut Keyboard,
    screen: Screen,
) -> Option<String> {
    let before = keyboard.forget_typed_ahead().await;
    screen.note(text);
    if before == TypedAhead::Lines {
        screen.note("What you typed before this question was shown was not taken.");
    }
    screen.ask(question);
    keyboard.line().await
}

/// Shows a question whole and what a yes covers, and asks for a plain yes or no.
pub(crate) async fn confirms(asked: &Elicitation, background: &Background, screen: Screen) -> bool {
    let mut keyboard = Keyboard::of_process();
    show(&asked.question, background, &mut keyboard, screen).await;
    if let (_, Some(covers)) = background.covers(&asked.question) {
        screen.note(&format!("Approval covers: {covers}."));
    }
    screen.ask("Approve this? [y] yes   anything else: leave it waiting\n> ");
    keyboard.line().await.as_deref() == Some("y")
}
