//! How executions, questions and decisions look to a person.

use countersign_core::elicitation::{Decision, Elicitation};
use countersign_core::execution::Status;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Clock as _, SystemClock};
use countersign_kernel::{ExecutionResult, Receipt};
use countersign_sdk::{AskKind, Outcome};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::screen::{Audience, Format, Paint, Screen};
use crate::shown;
use crate::span::span;
use crate::wire;

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
        screen.print_json(&wire::result(result))?;
        return Ok(exit_of(result));
    }
    for line in &result.logs {
        let level = format!("{:?}", line.level).to_lowercase();
        screen.note(&screen.err.dim(&format!("{level}: {}", shown::line(&line.message))));
    }
    let inspect = invocation.command(&format!("executions {}", result.execution));
    match (result.status, &result.value, &result.error) {
        (Status::Succeeded, Some(value), _) => match screen.audience {
            Audience::Program => screen.print_json(value)?,
            Audience::Person | Audience::Reader => screen.print(&shown::json(value))?,
        },
        (_, _, Some(error)) => {
            let head = screen.err.red(&format!("{}:", shown::line(&error.code)));
            screen.note(&format!("{head} {}", shown::line(&error.message)));
            screen.note(&screen.err.dim(&format!("What happened: `{inspect}`")));
        }
        (Status::InDoubt, ..) => screen.note(&in_doubt(result, screen.err, invocation)),
        _ => paused(result, screen, invocation)?,
    }
    Ok(exit_of(result))
}

fn exit_of(result: &ExecutionResult) -> Exit {
    match result.status {
        Status::Succeeded | Status::Waiting => Exit::Done,
        Status::Cancelled => Exit::Refused,
        Status::Failed if result.error.as_ref().is_some_and(|e| REFUSALS.contains(&e.code.as_str())) => {
            Exit::Refused
        }
        Status::Running if !result.pending.is_empty() => Exit::Done,
        Status::Failed | Status::Running | Status::InDoubt => Exit::Failed,
    }
}

/// What waits, and how to decide it. A program gets the result as JSON; the words are for whoever reads along.
fn paused(result: &ExecutionResult, screen: Screen, invocation: &Invocation) -> anyhow::Result<()> {
    if screen.audience == Audience::Program {
        screen.print_json(&wire::result(result))?;
    }
    for pending in &result.pending {
        let id = pending.elicitation.id;
        screen.note(&format!("{} waits for a person ({}).", result.execution, pending.elicitation.tool));
        screen.note(&format!("  see it:   {}", invocation.command("inbox")));
        screen.note(&format!("  approve:  {}", invocation.command(&format!("approve {id}"))));
        screen.note(&format!("  deny:     {}", invocation.command(&format!("deny {id}"))));
    }
    Ok(())
}

/// That a call is in doubt, and what to do about it.
fn in_doubt(result: &ExecutionResult, paint: Paint, invocation: &Invocation) -> String {
    let call = result.calls.iter().position(|c| c.status == "in_doubt").unwrap_or(0);
    let settle = invocation.command(&format!("settle {} {call} --as done|failed|retry", result.execution));
    format!(
        "{} call {call} of {} started, and its outcome is unknown. It will not run again by itself.\n\
         Look at the outside system, then say what became of it: {settle}",
        paint.yellow("in doubt:"),
        result.execution,
    )
}

/// A question, whole: what a person decides by.
pub(crate) fn question(elicitation: &Elicitation, paint: Paint) -> String {
    let wants = match elicitation.kind {
        AskKind::Approval => "asks for approval",
        AskKind::Form { .. } => "asks for an answer",
    };
    let left = SystemClock.now().until(elicitation.expires_at);
    let form = match &elicitation.kind {
        AskKind::Form { schema } if !elicitation.authorises() => {
            format!("  form\n{}", shown::json_block(&schema.as_value()["properties"], "  ", paint))
        }
        _ => String::new(),
    };
    format!(
        "{} {wants}\n  message\n{}{form}  why       {}\n  arguments\n{}  expires   in {}\n",
        paint.bold(elicitation.tool.as_str()),
        shown::block(&elicitation.message, "  ", paint),
        shown::line(&elicitation.because),
        shown::json_block(&elicitation.args.to_value(), "  ", paint),
        span(left),
    )
}

/// What a decision made here came to.
pub(crate) fn receipt(receipt: &Receipt, elicitation: &Elicitation, paint: Paint) -> String {
    let what = elicitation.tool.as_str();
    match receipt.decision.outcome {
        Outcome::Approved if !elicitation.authorises() => format!("{} {what}", paint.green("Answered.")),
        Outcome::Approved => format!("{} {what}", paint.green("Approved.")),
        Outcome::Denied => format!("{} {what}", paint.red("Denied.")),
        Outcome::Cancelled => format!("{} {what}", paint.yellow("Closed without an answer.")),
        Outcome::Expired => format!("{} {what}", paint.yellow("Expired.")),
    }
}

/// Who decided, how and when.
pub(crate) fn decision(decision: &Decision) -> String {
    use countersign_core::elicitation::Decider;
    let outcome = match decision.outcome {
        Outcome::Approved => "approved",
        Outcome::Denied => "denied",
        Outcome::Cancelled => "closed without an answer",
        Outcome::Expired => "expired",
    };
    let by = match &decision.by {
        Decider::Person { principal, .. } => {
            format!(" by {principal} through {}", shown::line(&decision.channel))
        }
        Decider::Grant { id } => format!(" by the remembered approval {id}"),
        Decider::Clock => ": nobody decided in time".to_owned(),
        Decider::Gateway { reason } => format!(" by the gateway: {}", shown::line(reason)),
    };
    let comment =
        decision.comment.as_deref().map(|c| format!(", saying {:?}", shown::line(c))).unwrap_or_default();
    format!("{outcome}{by}{comment}")
}

/// `3 min 5 s ago`.
pub(crate) fn ago(then: Timestamp) -> String {
    format!("{} ago", span(then.until(SystemClock.now())))
}

/// A status, coloured by how much it wants attention.
pub(crate) fn status(status: Status, paint: Paint) -> String {
    let word = wire::status(status);
    match status {
        Status::Succeeded => paint.green(word),
        Status::Failed | Status::Cancelled => paint.red(word),
        Status::Waiting | Status::InDoubt => paint.yellow(word),
        Status::Running => word.to_owned(),
    }
}
