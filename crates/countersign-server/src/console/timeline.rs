//! An execution over time, from its journal: a lane for each call with bars for waiting and running, and every event in words.

use std::time::Duration;

use countersign_core::elicitation::{Decider, Decision};
use countersign_core::event::{CallOutcome, Event, EventBody, StartedBy};
use countersign_core::ids::{CallNo, ElicitationId};
use countersign_core::time::Timestamp;
use maud::{Markup, html};

use super::arguments::Secrets;
use super::text::{short, text};
use super::when;

/// How wide a lane is drawn, in units of its own.
const WIDTH: u64 = 1_000;
/// What happened in less than this is drawn as wide as this, to be seen at all.
const NARROWEST: u64 = 4;

/// What a bar stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waited,
    Ran,
    InDoubt,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Waited => "waited",
            Self::Ran => "ran",
            Self::InDoubt => "in doubt",
        }
    }
}

#[derive(Debug, PartialEq)]
struct Bar {
    phase: Phase,
    from: Timestamp,
    /// Nothing where it goes on.
    to: Option<Timestamp>,
}

#[derive(Debug, PartialEq)]
struct Lane {
    call: CallNo,
    path: String,
    bars: Vec<Bar>,
}

/// The script of an execution, if it is one.
pub(super) fn script(journal: &[Event]) -> Option<String> {
    journal.iter().find_map(|event| match &event.body {
        EventBody::Started(started) => started.script.as_ref().map(|script| script.source.clone()),
        _ => None,
    })
}

/// A script with its lines numbered and one of them marked; only so many lines around it, if that is wanted.
pub(super) fn listing(source: &str, line: Option<u32>, around: Option<usize>) -> Markup {
    let marked = line.and_then(|line| usize::try_from(line).ok());
    let is_near = |n: usize| match (marked, around) {
        (Some(marked), Some(around)) => n.abs_diff(marked) <= around,
        _ => true,
    };
    html! {
        ol.listing tabindex="0" {
            @for (n, line) in source.lines().enumerate().map(|(n, line)| (n + 1, line)).filter(|(n, _)| is_near(*n)) {
                li value=(n) aria-current=[(Some(n) == marked).then_some("step")] { code { (text(line)) } }
            }
        }
    }
}

/// The lanes. `now` ends what goes on.
pub(super) fn lanes(journal: &[Event], now: Timestamp) -> Markup {
    let (Some(first), lanes) = (journal.first().map(|event| event.at), lanes_of(journal)) else {
        return html! {};
    };
    let goes_on = lanes.iter().flat_map(|lane| &lane.bars).any(|bar| bar.to.is_none());
    let last = journal.last().map_or(first, |event| if goes_on { now.max(event.at) } else { event.at });
    let whole = first.until(last).max(Duration::from_millis(1));
    html! {
        div.lanes role="img" aria-label="Each call over time; the events below say the same in words" {
            @for lane in &lanes {
                div.lane {
                    span.path { (lane.path) }
                    svg viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" aria-hidden="true" {
                        rect.ground x="0" y="4" width=(WIDTH) height="2" {}
                        @for bar in &lane.bars {
                            @let (x, width) = place(bar, first, last, whole);
                            rect class=(bar.phase.name().replace(' ', "-")) x=(x) y="0" width=(width) height="10" {}
                        }
                    }
                    span.took { @for bar in &lane.bars { span { (bar.phase.name()) " " (when::span(bar.from.until(bar.to.unwrap_or(last)))) } } }
                }
            }
        }
    }
}

fn place(bar: &Bar, first: Timestamp, last: Timestamp, whole: Duration) -> (u64, u64) {
    let scaled = |at: Timestamp| {
        u64::try_from(first.until(at).as_millis() * u128::from(WIDTH) / whole.as_millis()).unwrap_or(WIDTH)
    };
    let (from, to) = (scaled(bar.from), scaled(bar.to.unwrap_or(last)));
    let width = to.saturating_sub(from).max(NARROWEST);
    (from.min(WIDTH - NARROWEST), width)
}

fn lanes_of(journal: &[Event]) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    let mut asked: Vec<(ElicitationId, CallNo)> = Vec::new();
    for event in journal {
        let mut begin = |call: CallNo, phase| {
            if let Some(lane) = lanes.iter_mut().find(|lane| lane.call == call) {
                lane.bars.push(Bar { phase, from: event.at, to: None });
            }
        };
        match &event.body {
            EventBody::CallIssued(issued) => {
                lanes.push(Lane { call: issued.call, path: issued.path.to_string(), bars: Vec::new() });
            }
            EventBody::Asked(question) => {
                asked.push((question.id, question.call));
                begin(question.call, Phase::Waited);
            }
            EventBody::Decided { elicitation, .. } => {
                let call = asked.iter().find(|(id, _)| id == elicitation).map(|(_, call)| *call);
                end(&mut lanes, call, Phase::Waited, event.at);
            }
            EventBody::CallStarted { call, .. } => begin(*call, Phase::Ran),
            EventBody::CallSettled { call, .. } => end(&mut lanes, Some(*call), Phase::Ran, event.at),
            EventBody::FoundInDoubt { call, .. } => {
                begin(*call, Phase::InDoubt);
                end(&mut lanes, Some(*call), Phase::Ran, event.at);
            }
            EventBody::DoubtSettled { call, .. } => end(&mut lanes, Some(*call), Phase::InDoubt, event.at),
            EventBody::Finished { .. } | EventBody::Cancelled { .. } => {
                lanes.iter_mut().flat_map(|lane| &mut lane.bars).for_each(|bar| {
                    bar.to.get_or_insert(event.at);
                });
            }
            _ => {}
        }
    }
    lanes
}

fn end(lanes: &mut [Lane], call: Option<CallNo>, phase: Phase, at: Timestamp) {
    let of_call = lanes.iter_mut().filter(|lane| Some(lane.call) == call).flat_map(|lane| &mut lane.bars);
    for bar in of_call.filter(|bar| bar.phase == phase && bar.to.is_none()) {
        bar.to = Some(at);
    }
}

/// Every event, in words, with how long after the one before.
pub(super) fn events(journal: &[Event], secrets: &Secrets) -> Markup {
    html! {
        table.events {
            thead { tr { th scope="col" { "When" } th scope="col" { "After" } th scope="col" { "What" } } }
            tbody {
                @for (n, event) in journal.iter().enumerate() {
                    tr {
                        td { (when::of(event.at)) }
                        td.number { @if let Some(before) = n.checked_sub(1).and_then(|n| journal.get(n)) { (when::span(before.at.until(event.at))) } }
                        td { (words(&event.body, secrets)) }
                    }
                }
            }
        }
    }
}

fn words(body: &EventBody, secrets: &Secrets) -> Markup {
    let clean = |said: &str| text(&secrets.cut_from(said));
    html! {
        @match body {
            EventBody::Started(started) => { "accepted for " (short(started.requester.id.as_str())) }
            EventBody::CallIssued(issued) => { "call " (issued.call) ": " code { (issued.path) } }
            EventBody::Asked(question) => { "asked: " a href={ "/elicitations/" (question.id) } { (clean(&question.message)) } }
            EventBody::Decided { decision, .. } => (decided(decision)),
            EventBody::Rejudged { call, .. } => { "call " (call) " judged again: the policy changed" }
            EventBody::CallStarted { call, by } => { "call " (call) " started, " (authority(by)) }
            EventBody::CallReentered { call } => { "call " (call) " goes on: its handler is entered again" }
            EventBody::StepRecorded { call, name, .. } => { "call " (call) " finished its step " code { (text(name)) } }
            EventBody::CallSettled { call, outcome } => { "call " (call) " " (ended(outcome, secrets)) }
            EventBody::CallRefused { path, failure, .. } => { "call of " code { (text(path)) } " refused: " (clean(&failure.message)) }
            EventBody::SleepStarted { ms } => { "sleeps " (when::span(Duration::from_millis(*ms))) }
            EventBody::SleepEnded { .. } => "woke up",
            EventBody::ScriptWaits { .. } => "the script waits for people",
            EventBody::Finished { outcome, .. } => { strong { (ended(outcome, secrets)) } }
            EventBody::CancelRequested { by, reason } => { "cancel requested by " (short(by.as_str())) ": " (text(reason)) }
            EventBody::Cancelled { by, reason } => {
                strong { "cancelled" } @if let Some(by) = by { " by " (short(by.as_str())) } ": " (text(reason))
            }
            EventBody::FoundInDoubt { call, reason } => {
                strong { "call " (call) " is in doubt" } ": "
                @if let Some(reason) = reason { (text(reason)) } @else { "it started, and nothing tells how it ended" }
            }
            EventBody::DoubtSettled { call, by, .. } => { "call " (call) " settled by " (short(by.as_str())) }
        }
    }
}

fn decided(decision: &Decision) -> Markup {
    let withdrawn = matches!(decision.by, Decider::Gateway { .. });
    html! {
        strong { @if withdrawn { "withdrawn" } @else { (format!("{:?}", decision.outcome).to_lowercase()) } }
        @match &decision.by {
            Decider::Person { principal, .. } => { " by " (short(principal.as_str())) " through " (text(&decision.channel)) }
            Decider::Grant { .. } => " by a remembered approval",
            Decider::Clock => ": nobody answered in time",
            Decider::Gateway { reason } => { ": " (text(reason)) }
        }
        @if let Some(comment) = &decision.comment { ": “" (text(comment)) "”" }
    }
}

fn authority(by: &StartedBy) -> Markup {
    html! {
        @match by {
            StartedBy::Policy { rule } => { "allowed by " (text(rule)) }
            StartedBy::Grant { .. } => "on a remembered approval",
            StartedBy::Decision { .. } => "on the decision",
            StartedBy::Retry => "again, as a person said",
        }
    }
}

fn ended(outcome: &CallOutcome, secrets: &Secrets) -> Markup {
    html! {
        @match outcome {
            CallOutcome::Succeeded(_) => "succeeded",
            CallOutcome::Failed(failure) => { "failed: " (text(&secrets.cut_from(&failure.message))) " (" code { (failure.code) } ")" }
        }
    }
}
