//! A journal as a person reads it: what happened, and how long after what came before.

use countersign_core::elicitation::Origin;
use countersign_core::event::{CallOutcome, Event, EventBody, Settlement, StartedBy};

use crate::names::Names;
use crate::report;
use crate::shown;
use crate::span::span;

/// One line for each event.
pub(super) fn lines(journal: &[Event], names: &Names) -> Vec<String> {
    let Some(start) = journal.first().map(|event| event.at) else { return Vec::new() };
    let after = |before: &[Event]| format!("+{}", span(before[0].at.until(before[1].at)));
    let times = std::iter::once(start.to_string()).chain(journal.windows(2).map(after));
    times.zip(journal).map(|(when, event)| format!("  {when:>24}  {}", words(&event.body, names))).collect()
}

fn words(body: &EventBody, names: &Names) -> String {
    match body {
        EventBody::Started(started) => {
            let what = if started.script.is_some() { "a script" } else { "accepted" };
            format!("{what} from {} in {}", names.of(started.requester.id.as_str()), started.session)
        }
        EventBody::CallIssued(issued) => format!("call {} issued: {}", issued.call, issued.path),
        EventBody::Asked(elicitation) => {
            let who = match elicitation.origin {
                Origin::Gate => "the gate",
                Origin::Handler { .. } => "the tool",
            };
            let (id, message, why) =
                (elicitation.id, shown::line(&elicitation.message), shown::line(&elicitation.because));
            format!("{who} asked {id}: {message} ({why})")
        }
        EventBody::Decided { decision, .. } => report::decision(decision, names),
        EventBody::Rejudged { call, .. } => format!("call {call} judged again: the policy changed"),
        EventBody::CallStarted { call, by } => format!("call {call} let run: {}", authority(by)),
        EventBody::CallReentered { call } => format!("call {call} goes on: its handler is entered again"),
        EventBody::StepRecorded { call, name, .. } => {
            format!("call {call} recorded its step {:?}", shown::line(name))
        }
        EventBody::CallSettled { call, outcome } => format!("call {call} {}", outcome_words(outcome)),
        EventBody::CallRefused { path, failure, .. } => {
            format!("a call of {:?} refused: {}", shown::line(path), shown::line(&failure.to_string()))
        }
        EventBody::SleepStarted { ms } => format!("the script sleeps for {ms} ms"),
        EventBody::SleepEnded { .. } => "the script woke up".to_owned(),
        EventBody::ScriptWaits { .. } => "the script can only wait for people".to_owned(),
        EventBody::Finished { .. } => "finished".to_owned(),
        EventBody::CancelRequested { by, reason } => {
            format!("cancel requested by {}: {}", names.of(by.as_str()), shown::line(reason))
        }
        EventBody::Cancelled { by, reason } => {
            let by = by.as_ref().map_or_else(|| "the gateway".to_owned(), |by| names.of(by.as_str()));
            format!("cancelled by {by}: {}", shown::line(reason))
        }
        EventBody::FoundInDoubt { call, reason: None } => {
            format!("call {call} found in doubt: it started, and no outcome was recorded")
        }
        EventBody::FoundInDoubt { call, reason: Some(reason) } => {
            format!("call {call} is in doubt: {}", shown::line(reason))
        }
        EventBody::DoubtSettled { call, settlement, by } => {
            let how = match settlement {
                Settlement::Done { .. } => "as done".to_owned(),
                Settlement::Failed { message } => format!("as failed: {}", shown::line(message)),
                Settlement::Retry => "by running it again".to_owned(),
            };
            format!("call {call} settled by {} {how}", names.of(by.as_str()))
        }
    }
}

fn authority(by: &StartedBy) -> String {
    match by {
        StartedBy::Policy { rule } => shown::line(rule),
        StartedBy::Grant { id } => format!("the remembered approval {id} covers it"),
        StartedBy::Decision { elicitation } => format!("on the answer to {elicitation}"),
        StartedBy::Retry => "a person had it run again".to_owned(),
    }
}

fn outcome_words(outcome: &CallOutcome) -> String {
    /// Results may be a megabyte; `--json` has them whole.
    const MOST_CHARS: usize = 200;
    match outcome {
        CallOutcome::Succeeded(value) => {
            let text = shown::line(value.as_str());
            match text.char_indices().nth(MOST_CHARS) {
                None => format!("succeeded with {text}"),
                Some((at, _)) => format!("succeeded with {}… (--json shows all)", &text[..at]),
            }
        }
        CallOutcome::Failed(failure) => format!("failed: {}", shown::line(&failure.to_string())),
    }
}
