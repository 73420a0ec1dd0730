//! One request, rendered from the stored canonical arguments (R13): what will run, whole, who wants it, which rule asks, what was
//! decided on the same thing before, and the decision itself.
//!
//! What a tool or an agent wrote is set apart, labelled, and never a heading.

use std::time::Duration;

use axum::response::Response;
use countersign_core::coverage::Coverage;
use countersign_core::elicitation::Origin;
use countersign_core::event::{CallIssued, Event, EventBody};
use countersign_sdk::Remember;
use maud::{Markup, html};
use serde_json::Value;

use super::api::{query, segment};
use super::arguments::{self, Shown};
use super::form;
use super::frame::{Place, Reader, Trouble};
use super::text::{Oddities, person, text, warning};
use super::timeline;
use super::when;
use crate::rest::body::Named;
use crate::wire::{self, PendingKind};

/// Arguments longer than this are read to the end before they are approved.
const LONG_BYTES: usize = 64 * 1024;
/// How many earlier decisions are shown.
const EARLIER: &str = "10";
/// How much of a script is shown around the line that waits.
const AROUND: usize = 6;

/// The page.
pub(super) async fn page(reader: Reader, Named(id): Named<String>) -> Result<Response, Trouble> {
    let item: wire::Elicitation = reader.get(&format!("/api/elicitation/{}", segment(&id))).await?;
    let tool: Option<wire::ToolDetail> =
        reader.find(&format!("/api/tools/{}", segment(&item.question.tool_path))).await?;
    let earlier: wire::List<wire::Elicitation> = reader
        .get(&query(
            "/api/elicitation",
            &[("sameAs", Some(&item.question.elicitation_id)), ("limit", Some(EARLIER))],
        ))
        .await?;
    // All of it: the call that asks may be at its end.
    let journal = reader.journal(&item.question.execution_id, usize::MAX).await?;
    let running = running(&journal.items, &item.question.elicitation_id);
    let runs: Option<wire::ToolDetail> = match &running {
        Some(call) => reader.find(&format!("/api/tools/{}", segment(call.path.as_str()))).await?,
        None => None,
    };
    let around = Around {
        tool: tool.as_ref(),
        earlier: &earlier.items,
        remember_for_ms: reader.standing.remember_for_ms,
        script: timeline::script(&journal.items),
        running: running.map(|call| (call, runs.as_ref())),
    };
    let main = html! { div.single { a.back href="/" { "← Inbox" } (article(&item, &around)) } };
    Ok(reader.page(Place::Inbox, &item.question.tool_path, &main))
}

/// What is known beside the question.
struct Around<'a> {
    tool: Option<&'a wire::ToolDetail>,
    earlier: &'a [wire::Elicitation],
    /// How long an approval for a session lasts.
    remember_for_ms: u64,
    script: Option<String>,
    /// The call whose handler asks, where it is not the gate that does: a yes lets this one go on.
    running: Option<(&'a CallIssued, Option<&'a wire::ToolDetail>)>,
}

/// The call that asks while it runs, where one does.
fn running<'j>(journal: &'j [Event], elicitation: &str) -> Option<&'j CallIssued> {
    let asked = journal.iter().find_map(|event| match &event.body {
        EventBody::Asked(question) if question.id.to_string() == elicitation => Some(question),
        _ => None,
    })?;
    journal.iter().find_map(|event| match &event.body {
        EventBody::CallIssued(issued) if issued.call == asked.call && asked.origin != Origin::Gate => {
            Some(issued)
        }
        _ => None,
    })
}

fn article(item: &wire::Elicitation, around: &Around<'_>) -> Markup {
    let question = &item.question;
    let schema = around.tool.map_or(&Value::Null, |tool| &tool.input_schema);
    let shown = Shown::of(&question.args, schema);
    let mut odd = Oddities::default();
    let message = odd.text(&shown.secrets().cut_from(&question.message));
    let (tree, size) = (arguments::tree(&shown, &mut odd), question.args.to_string().len());
    let is_long = size > LONG_BYTES;
    html! {
        article #request data-id=(question.elicitation_id) data-execution=(question.execution_id) data-status=(item.status) data-digest=(question.digest)
            data-kind=(kind(question.kind)) data-long[is_long] {
            header {
                h1.path { (text(around.running.map_or(&question.tool_path, |(call, _)| call.path.as_str()))) }
                (effects(around.running.map_or(around.tool, |(_, tool)| tool)))
                p { "Requested by " (person(item.requester_name.as_deref(), &item.requester)) ", " (when::age(&question.asked_at)) }
            }
            (warning(odd.warnings()))
            section aria-labelledby="asks" {
                h2 #asks { "The tool asks" }
                blockquote.quoted { (message) }
                p.faint.small { "This text is from the tool and may contain agent input. Check the arguments." }
            }
            section aria-labelledby="arguments" {
                @match around.running {
                    None => h2 #arguments { "Arguments, as they will run" },
                    Some((call, _)) => {
                        h2 #arguments { "What it shows you" }
                        p.warning { (text(call.path.as_str())) " has started and needs your " @match question.kind { PendingKind::Approval => "approval", PendingKind::Form => "answer" } " to continue. It shows you the following" @if question.tool_path != call.path.as_str() { ", about " code { (text(&question.tool_path)) } } "." }
                    }
                }
                @if is_long { p.warning { "These are " (size / 1024) " KiB. Read to their end to approve." } }
                (tree)
                details.raw { summary { "Raw JSON" } pre tabindex="0" { (arguments::raw(&shown)) } }
            }
            (runs_with(question, around))
            (wrote(around.script.as_deref(), question.line, &shown))
            (facts(item))
            (before(item, around.earlier))
            span #end-of-request {}
            (decision(item, around, is_long))
        }
    }
}

/// What the call that asks was started with, where that is not what it shows.
fn runs_with(question: &wire::Pending, around: &Around<'_>) -> Markup {
    let other = around.running.filter(|(call, _)| call.args.to_value() != *question.args);
    html! {
        @if let Some((call, tool)) = other {
            @let (args, schema) = (call.args.to_value(), tool.map_or(&Value::Null, |tool| &tool.input_schema));
            section aria-labelledby="runs" {
                h2 #runs { "Arguments it runs with" }
                (arguments::tree(&Shown::of(&args, schema), &mut Oddities::default()))
            }
        }
    }
}

fn kind(kind: PendingKind) -> &'static str {
    match kind {
        PendingKind::Approval => "approval",
        PendingKind::Form => "form",
    }
}

fn effects(tool: Option<&wire::ToolDetail>) -> Markup {
    html! {
        @match tool {
            None => p.warning { "This tool is no longer in the catalog. It cannot run." },
            Some(tool) => {
                p.badges { (badges(tool)) }
                p.describes { (text(&tool.description)) }
            }
        }
    }
}

/// What a tool does to the world, as labels.
pub(super) fn badges(tool: &wire::ToolDetail) -> Markup {
    let effects = tool.effects;
    html! {
        span.badge.destructive[tool.effect == wire::ToolEffect::Destroys] { (tool.effect.label()) }
        @if effects.idempotent { span.badge { "idempotent" } }
        @if effects.open_world { span.badge { "reaches outside" } }
    }
}

fn facts(item: &wire::Elicitation) -> Markup {
    let question = &item.question;
    html! {
        dl.facts {
            dt { "Why it asks" } dd { (text(&question.because)) }
            @if item.decision.is_none() { dt { "Expires in" } dd { (when::left(&question.expires_at)) } }
            dt { "Requested by" } dd { (text(&item.requester)) }
            dt { "Session" } dd { a href={ "/sessions/" (segment(&item.session_id)) } { (text(&item.session_id)) } }
            dt { "Execution" } dd { a href={ "/executions/" (question.execution_id) } { (question.execution_id) } }
            dt { "Asked" } dd { (when::moment(&question.asked_at)) }
        }
    }
}

/// The agent's own words: its script around the line that waits.
fn wrote(script: Option<&str>, line: Option<u32>, shown: &Shown<'_>) -> Markup {
    // It may well spell out what the arguments hide.
    let script = script.map(|script| shown.secrets().cut_from(script));
    html! {
        @if let Some(script) = script {
            section.agents aria-labelledby="wrote" {
                h2 #wrote { "What the agent wrote" }
                p.faint { "For context only. You are approving the arguments above." }
                (timeline::listing(&script, line, Some(AROUND)))
            }
        }
    }
}

fn before(item: &wire::Elicitation, earlier: &[wire::Elicitation]) -> Markup {
    let others: Vec<_> = earlier
        .iter()
        .filter(|other| other.question.elicitation_id != item.question.elicitation_id)
        .collect();
    html! {
        @if !others.is_empty() {
            section aria-labelledby="before" {
                h2 #before { "Identical requests" }
                ul.plain {
                    @for other in others {
                        li { a href={ "/elicitations/" (other.question.elicitation_id) } { (outcome(other)) } }
                    }
                }
            }
        }
    }
}

/// How a question ended, in one line.
pub(super) fn outcome(item: &wire::Elicitation) -> Markup {
    html! {
        @match &item.decision {
            None => { "waiting since " (when::moment(&item.question.asked_at)) }
            Some(wire::Decision { reason: Some(reason), at, .. }) => {
                strong.outcome { "Withdrawn" } ": " (text(reason)) ". The call did not run. " (when::moment(at))
            }
            Some(decision) => {
                strong.outcome { (decision.outcome) } " by " (person(decision.by_name.as_deref(), &decision.by)) " through " (text(&decision.channel)) ", " (when::moment(&decision.at))
                @if let Some(comment) = &decision.comment { ": “" (text(comment)) "”" }
            }
        }
    }
}

fn decision(item: &wire::Elicitation, around: &Around<'_>, is_long: bool) -> Markup {
    let question = &item.question;
    let is_blocked = is_long || item.cannot_approve.is_some();
    html! {
        @if item.decision.is_some() {
            footer.decided { p { (outcome(item)) } }
        } @else {
            form #decide.decide method="post" {
                @if let (PendingKind::Form, Some(schema)) = (question.kind, &question.schema) {
                    fieldset.fields { legend { "Your answer" } (form::fields(schema, "data")) }
                }
                p #why-not role="alert" { @if let Some(why) = &item.cannot_approve { (text(why)) } }
                div.actions {
                    @if plain_yes(question) == Some(Coverage::SESSION) {
                        button.primary name="answer" value="session" disabled[is_blocked] { "Approve for session " kbd { "a" } }
                        button name="answer" value="call" disabled[is_blocked] { "Approve once " kbd { "o" } }
                    } @else {
                        button.primary name="answer" value="call" disabled[is_blocked] {
                            @match question.kind { PendingKind::Approval => "Approve once ", PendingKind::Form => "Send answer " }
                            kbd { "a" }
                        }
                    }
                    button name="answer" value="deny" formnovalidate { "Deny " kbd { "d" } }
                }
                (covers(question, around.remember_for_ms))
                label.reason { "Reason, sent to the agent (optional)" input name="reason" autocomplete="off" maxlength="1000"; }
            }
        }
    }
}

/// The coverage of an approval without further choice; none for a form.
fn plain_yes(question: &wire::Pending) -> Option<Coverage> {
    let remember = if question.remember == "session" { Remember::Session } else { Remember::Call };
    (question.kind == PendingKind::Approval).then(|| Coverage::of_plain_yes(remember))
}

/// What an approval covers, said before it is given; for a session it can be narrowed.
fn covers(question: &wire::Pending, remember_for_ms: u64) -> Markup {
    let lasts = Duration::from_millis(remember_for_ms);
    html! {
        @if let Some(plain) = plain_yes(question) {
            p.covers { "Approval covers: " (text(&plain.words(&question.tool_path, Some(lasts)))) "." }
            @if plain != Coverage::Call {
                fieldset.scope {
                    legend { "Narrow the approval for the session " kbd { "s" } }
                    label { "Arguments " select name="scope" { option value="any" { "any arguments" } option value="same" { "exactly these arguments" } } }
                    label { "At most " input type="number" name="uses" min="1" max="1000000" inputmode="numeric" placeholder="no limit"; " later calls" }
                }
            }
        }
    }
}
