//! How executions, questions and decisions look to a person.

use std::time::Duration;

use countersign_core::coverage::Coverage;
use countersign_core::elicitation::Decider;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Clock as _, SystemClock};
use countersign_sdk::Outcome;
use countersign_server::wire::{
    Damaged, Decision, ElicitationResponse, ExecutionResult, Pending, PendingKind, Status,
};
use serde_json::Value;

use crate::coverage;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::names::Names;
use crate::screen::{Audience, Format, Paint, Screen};
use crate::shown;
use crate::span::{moment, span};

/// Codes of failures that are a person's, a rule's or the clock's no.
const REFUSALS: &[&str] = &["denied", "cancelled", "expired"];

/// Prints an execution as it stands and gives the exit status for it. The value goes to standard output, everything
/// else beside it.
pub(crate) fn result(
    result: &ExecutionResult,
    screen: Screen,
    invocation: &Invocation,
) -> anyhow::Result<Exit> {
    if screen.format == Format::Json {
        screen.print_json(&serde_json::to_value(result)?)?;
        return Ok(exit_of(result));
    }
    for line in &result.logs {
        let text = format!("{}: {}", shown::line(&line.level), shown::line(&line.message));
        screen.note(&screen.err.dim(&text));
    }
    let inspect = invocation.command(&format!("executions {}", result.execution_id));
    match (result.status, &result.error) {
        (Status::Succeeded, _) => {
            let value = result.value.as_ref().unwrap_or(&Value::Null);
            match screen.audience {
                Audience::Program => screen.print_json(value)?,
                Audience::Person | Audience::Reader => screen.print(&shown::json(value))?,
            }
        }
        (_, Some(error)) => {
            let head = screen.err.red(&format!("{}:", shown::line(&error.code)));
            screen.note(&format!("{head} {}", shown::line(&error.message)));
            screen.note(&screen.err.dim(&format!("What happened: `{inspect}`")));
        }
        (Status::InDoubt, _) => screen.note(&in_doubt(result, screen.err, invocation)),
        _ => paused(result, screen, invocation)?,
    }
    Ok(exit_of(result))
}

fn exit_of(result: &ExecutionResult) -> Exit {
    match result.status {
        Status::Succeeded | Status::Paused => Exit::Done,
        Status::Cancelled => Exit::Refused,
        Status::Failed if result.error.as_ref().is_some_and(|e| REFUSALS.contains(&e.code.as_str())) => {
            Exit::Refused
        }
        Status::Failed | Status::Running | Status::InDoubt => Exit::Failed,
    }
}

/// What waits, and how to decide it. A program gets the result as JSON; the words are for whoever reads along.
fn paused(result: &ExecutionResult, screen: Screen, invocation: &Invocation) -> anyhow::Result<()> {
    if screen.audience == Audience::Program {
        screen.print_json(&serde_json::to_value(result)?)?;
    }
    for pending in &result.pending {
        let id = &pending.elicitation_id;
        screen.note(&format!("{} waits for a person ({}).", result.execution_id, pending.tool_path));
        screen.note(&format!("  see it:   {}", invocation.command("inbox")));
        screen.note(&format!("  approve:  {}", invocation.command(&format!("approve {id}"))));
        screen.note(&format!("  deny:     {}", invocation.command(&format!("deny {id}"))));
    }
    Ok(())
}

/// That a call is in doubt, and what to do about it.
fn in_doubt(result: &ExecutionResult, paint: Paint, invocation: &Invocation) -> String {
    let call = result.calls.iter().position(|c| c.status == "in_doubt").unwrap_or(0);
    let settle = invocation.command(&format!("settle {} {call} --as done|failed|retry", result.execution_id));
    format!(
        "{} call {call} of {} started, and its outcome is unknown. It will not run again by itself.\n\
         Look at the outside system, then say what became of it: {settle}",
        paint.yellow("in doubt:"),
        result.execution_id,
    )
}

/// Whether a yes lets something happen, rather than merely filling in fields.
pub(crate) fn authorises(pending: &Pending) -> bool {
    match (pending.kind, &pending.schema) {
        (PendingKind::Approval, _) | (PendingKind::Form, None) => true,
        (PendingKind::Form, Some(schema)) => {
            schema["properties"].as_object().is_none_or(serde_json::Map::is_empty)
        }
    }
}

/// How much time is left to decide; none where it is up.
pub(crate) fn time_left(pending: &Pending) -> Option<std::time::Duration> {
    let now = SystemClock.now();
    // A moment that cannot be read is the server's to judge.
    let end = moment(&pending.expires_at).unwrap_or(Timestamp::from_millis(u64::MAX));
    (now < end).then(|| now.until(end))
}

/// What a person reads about a question that is not in it.
#[derive(Debug, Default)]
pub(crate) struct Background {
    /// How exactly the same thing was denied before.
    pub(crate) denials: Vec<String>,
    /// How long an approval for the session lasts.
    pub(crate) remember_for: Option<Duration>,
    /// What the command line says that an approval is to cover.
    pub(crate) chosen: Option<Coverage>,
}

impl Background {
    /// What a yes without a further word covers here, and the words for it; no words for a form.
    pub(crate) fn covers(&self, pending: &Pending) -> (Coverage, Option<String>) {
        let covers = self.chosen.unwrap_or_else(|| coverage::of_plain_yes(pending));
        (covers, coverage::words(pending, covers, self.remember_for))
    }
}

/// A question, whole: what a person decides by, and how it was denied before.
pub(crate) fn question(pending: &Pending, background: &Background, paint: Paint) -> String {
    let wants = match pending.kind {
        PendingKind::Approval => "asks for approval",
        PendingKind::Form => "asks for an answer",
    };
    let left = time_left(pending).map_or_else(|| "now".to_owned(), |left| format!("in {}", span(left)));
    let form = match &pending.schema {
        Some(schema) if !authorises(pending) => {
            format!("  form\n{}", shown::json_block(&schema["properties"], "  ", paint))
        }
        _ => String::new(),
    };
    let denials = background.denials.iter();
    let denials: String = denials.map(|denial| format!("  before    {}\n", paint.yellow(denial))).collect();
    let covers =
        background.covers(pending).1.map(|words| format!("  covers    {words}\n")).unwrap_or_default();
    format!(
        "{} {wants}\n{denials}  message\n{}{form}  why       {}\n  arguments\n{}{covers}  expires   {left}\n",
        paint.bold(&shown::line(&pending.tool_path)),
        shown::block(&pending.message, "  ", paint),
        shown::line(&pending.because),
        shown::json_block(&pending.args, "  ", paint),
    )
}

/// What a decision made here came to.
pub(crate) fn receipt(receipt: &ElicitationResponse, pending: &Pending, paint: Paint) -> String {
    let what = shown::line(&pending.tool_path);
    match receipt.outcome.as_str() {
        "approved" if !authorises(pending) => format!("{} {what}", paint.green("Answered.")),
        "approved" => format!("{} {what}", paint.green("Approved.")),
        "denied" => format!("{} {what}", paint.red("Denied.")),
        "cancelled" => format!("{} {what}", paint.yellow("Closed without an answer.")),
        other => format!("{} {what}", paint.yellow(&format!("{}.", shown::line(other)))),
    }
}

/// Who decided, how and when, as a journal has it.
pub(crate) fn decision(decision: &countersign_core::elicitation::Decision, names: &Names) -> String {
    if let Decider::Gateway { reason } = &decision.by {
        return format!("withdrawn: {}", shown::line(reason));
    }
    let outcome = outcome_words(match decision.outcome {
        Outcome::Approved => "approved",
        Outcome::Denied => "denied",
        Outcome::Cancelled => "cancelled",
        Outcome::Expired => "expired",
    });
    let by = match &decision.by {
        Decider::Person { principal, .. } => {
            let who = names.of(principal.as_str());
            format!(" by {who} through {}", shown::line(&decision.channel))
        }
        Decider::Grant { id } => format!(" by the remembered approval {id}"),
        Decider::Clock => ": nobody decided in time".to_owned(),
        Decider::Gateway { .. } => String::new(),
    };
    format!("{outcome}{by}{}", saying(decision.comment.as_deref()))
}

/// Who decided and how, as the server tells it.
pub(crate) fn told_decision(decision: &Decision, names: &Names) -> String {
    if let Some(reason) = &decision.reason {
        return format!("withdrawn: {}", shown::line(reason));
    }
    let outcome = outcome_words(&decision.outcome);
    let by = match decision.by.as_str() {
        "clock" => ": nobody decided in time".to_owned(),
        by => format!(" by {} through {}", names.of(by), shown::line(&decision.channel)),
    };
    format!("{outcome}{by}{}", saying(decision.comment.as_deref()))
}

fn outcome_words(outcome: &str) -> String {
    match outcome {
        "cancelled" => "closed without an answer".to_owned(),
        other => shown::line(other),
    }
}

fn saying(comment: Option<&str>) -> String {
    comment.map(|c| format!(", saying {:?}", shown::line(c))).unwrap_or_default()
}

/// `3 min 5 s ago`.
pub(crate) fn ago(then: &str) -> String {
    match moment(then) {
        Some(then) => format!("{} ago", span(then.until(SystemClock.now()))),
        None => shown::line(then),
    }
}

/// `in 3 h 5 min`.
pub(crate) fn left_until(then: &str) -> String {
    match moment(then) {
        Some(then) => format!("in {}", span(SystemClock.now().until(then))),
        None => shown::line(then),
    }
}

/// A status as callers know it.
pub(crate) fn status_text(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Paused => "paused",
        Status::InDoubt => "in_doubt",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

/// A status, coloured by how much it wants attention.
pub(crate) fn status(status: Status, paint: Paint) -> String {
    let word = status_text(status);
    match status {
        Status::Succeeded => paint.green(word),
        Status::Failed | Status::Cancelled => paint.red(word),
        Status::Paused | Status::InDoubt => paint.yellow(word),
        Status::Running => word.to_owned(),
    }
}

/// Names the records of a list that are damaged, so that nobody takes the rest for all there is.
pub(crate) fn damaged(rows: &[Damaged], screen: Screen) {
    for row in rows {
        screen.note(&format!("{}: {}", shown::line(&row.id), row.message));
    }
}
