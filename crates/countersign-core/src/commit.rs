//! The stored form of a commit: all events that one change added to a journal, as one text.
//!
//! `{"v":1,"at":1700000000000,"events":[{"started":{…}},{"callIssued":{…}},{"askedOfCall":{…}}]}`. `at` is one moment, or a list
//! with one for each event. Two events refer to what the journal already holds instead of repeating it: a question about the
//! arguments of its call is `askedOfCall`, and an end with the outcome of a call is `finishedAsCall`. The form is golden-tested:
//! fields are added with a default, never renamed.
//!
//! Promise: what is read is what was written, or an error. A reference is written only where the referred value is equal.

use std::borrow::Cow;
use std::sync::Arc;

use countersign_sdk::{AskKind, Remember, ToolPath};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::canonical::Canonical;
use crate::digest::Digest;
use crate::elicitation::{Elicitation, Origin};
use crate::event::{CallIssued, CallOutcome, Event, EventBody, Settlement};
use crate::execution::{Execution, Phase};
use crate::ids::{CallNo, ElicitationId};
use crate::time::Timestamp;

/// The version of the stored form.
pub const COMMIT_VERSION: u32 = 1;
/// How large the text of a commit usually is at most.
const USUAL_TEXT_BYTES: usize = 1_000;

/// The events of one commit in their stored form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCommit {
    text: String,
    events: u64,
}

/// Why a stored commit cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another version wrote it.
    #[error(
        "the journal was written in version {0}, this build reads version {COMMIT_VERSION}; run a newer countersign"
    )]
    Version(u32),
    /// It refers to something that no earlier event of the journal holds.
    #[error("an event refers to call {0}, which no event before it tells of")]
    Dangling(CallNo),
    /// Its moments and events do not match.
    #[error("a commit has another number of events than of moments")]
    Moments,
    /// It is not of the stored form.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
}

#[expect(missing_docs, reason = "the names say it")]
impl StoredCommit {
    /// Brings events into their stored form. `execution` is the execution after them; given that, they may also refer to earlier
    /// commits.
    pub fn of(events: &[Event], execution: Option<&Execution>) -> Result<Self, serde_json::Error> {
        let bodies =
            events.iter().enumerate().map(|(n, event)| match reference(event, &events[..n], execution) {
                Some(reference) => StoredBody::Refers(reference),
                None => StoredBody::Whole(&event.body),
            });
        let form = Form { v: COMMIT_VERSION, at: Moments::of(events), events: bodies.collect() };
        Ok(Self { text: text_of(&form)?, events: events.len() as u64 })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn into_text(self) -> String {
        self.text
    }

    pub fn events(&self) -> u64 {
        self.events
    }
}

/// A stored commit whose events are read one after the other.
#[derive(Debug)]
pub struct Commit<'t> {
    at: Moments,
    events: Vec<&'t RawValue>,
}

impl<'t> Commit<'t> {
    /// Reads the outer form. The events stay raw until they are wanted.
    pub fn parse(text: &'t str) -> Result<Self, CommitError> {
        match serde_json::from_str(text) {
            Ok(Raw { v, .. }) if v != COMMIT_VERSION => Err(CommitError::Version(v)),
            Ok(Raw { at: Moments::Each(moments), events, .. }) if moments.len() != events.len() => {
                Err(CommitError::Moments)
            }
            Ok(Raw { at, events, .. }) => Ok(Self { at, events }),
            // Another version may have other fields.
            Err(error) => match serde_json::from_str(text) {
                Ok(Version { v }) if v != COMMIT_VERSION => Err(CommitError::Version(v)),
                _ => Err(error.into()),
            },
        }
    }

    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// One of its events, given those that are before it in the journal, and its size in bytes with what it refers to.
    pub fn event(&self, n: usize, before: &[Event]) -> Result<Option<(Event, usize)>, CommitError> {
        let Some(raw) = self.events.get(n).map(|raw| raw.get()) else { return Ok(None) };
        let at = match &self.at {
            Moments::All(at) => *at,
            Moments::Each(moments) => moments.get(n).copied().ok_or(CommitError::Moments)?,
        };
        let (body, referred) = if Reference::is(raw) {
            serde_json::from_str::<Reference<'_>>(raw)?.resolve(before)?
        } else {
            (serde_json::from_str(raw)?, 0)
        };
        Ok(Some((Event { at, body }, raw.len() + referred)))
    }

    /// Reads all of its events onto the end of a journal.
    pub fn append_to(&self, journal: &mut Vec<Event>) -> Result<(), CommitError> {
        for n in 0..self.len() {
            let event = self.event(n, journal)?;
            journal.extend(event.map(|(event, _)| event));
        }
        Ok(())
    }
}

/// A value as JSON. Most commits and audit records fit into the first allocation, which grows where one does not.
pub(crate) fn text_of(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::with_capacity(USUAL_TEXT_BYTES);
    serde_json::to_writer(&mut bytes, value)?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[derive(Deserialize)]
struct Raw<'t> {
    v: u32,
    at: Moments,
    #[serde(borrow)]
    events: Vec<&'t RawValue>,
}

#[derive(Serialize)]
struct Form<'e> {
    v: u32,
    at: Moments,
    events: Vec<StoredBody<'e>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Moments {
    All(Timestamp),
    Each(Vec<Timestamp>),
}

impl Moments {
    fn of(events: &[Event]) -> Self {
        match events {
            [first, rest @ ..] if rest.iter().all(|event| event.at == first.at) => Self::All(first.at),
            events => Self::Each(events.iter().map(|event| event.at).collect()),
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum StoredBody<'e> {
    Whole(&'e EventBody),
    Refers(Reference<'e>),
}

/// An event that refers to what an earlier one holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reference<'e> {
    /// A question about the tool, the arguments and the line of its call.
    #[serde(borrow)]
    AskedOfCall(Question<'e>),
    /// An end without logs, with the outcome of a call.
    FinishedAsCall { call: CallNo },
}

/// The fields of a question that its call does not have. Without a digest it has that of its call.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question<'e> {
    id: ElicitationId,
    call: CallNo,
    origin: Origin,
    kind: Cow<'e, AskKind>,
    #[serde(borrow)]
    message: Cow<'e, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    #[serde(borrow)]
    because: Cow<'e, str>,
    remember: Remember,
    expires_at: Timestamp,
}

impl Reference<'_> {
    /// Whether a stored event is one. This build writes no spaces.
    fn is(raw: &str) -> bool {
        raw.starts_with(r#"{"askedOfCall":"#) || raw.starts_with(r#"{"finishedAsCall":"#)
    }

    /// The whole event, and how many bytes it referred to.
    fn resolve(self, before: &[Event]) -> Result<(EventBody, usize), CommitError> {
        match self {
            Self::AskedOfCall(question) => {
                let call = issued(question.call, before).ok_or(CommitError::Dangling(question.call))?;
                let bytes = call.args.as_str().len();
                Ok((EventBody::Asked(Arc::new(question.about(call))), bytes))
            }
            Self::FinishedAsCall { call } => {
                let outcome = outcome(call, before).ok_or(CommitError::Dangling(call))?;
                let bytes = outcome.bytes();
                Ok((EventBody::finished(outcome), bytes))
            }
        }
    }
}

impl<'e> Question<'e> {
    fn of(asked: &'e Elicitation, digest: Option<Digest>) -> Self {
        Self {
            id: asked.id,
            call: asked.call,
            origin: asked.origin,
            kind: Cow::Borrowed(&asked.kind),
            message: asked.message.as_str().into(),
            digest,
            because: asked.because.as_str().into(),
            remember: asked.remember,
            expires_at: asked.expires_at,
        }
    }

    fn about(self, call: &CallIssued) -> Elicitation {
        Elicitation {
            id: self.id,
            call: self.call,
            origin: self.origin,
            kind: self.kind.into_owned(),
            tool: call.path.clone(),
            message: self.message.into_owned(),
            args: call.args.clone(),
            digest: self.digest.unwrap_or(call.digest),
            because: self.because.into_owned(),
            remember: self.remember,
            expires_at: self.expires_at,
            line: call.line,
        }
    }
}

/// How an event can be stored as a reference, if it can.
fn reference<'e>(
    event: &'e Event,
    before: &'e [Event],
    execution: Option<&Execution>,
) -> Option<Reference<'e>> {
    match &event.body {
        EventBody::Asked(asked) => {
            if let Some(call) = issued(asked.call, before) {
                let digest = (asked.digest != call.digest).then_some(asked.digest);
                let is_same = is_about(asked, &call.path, &call.args, call.line);
                return is_same.then(|| Reference::AskedOfCall(Question::of(asked, digest)));
            }
            // A call's digest may have changed since it was issued, so that the question keeps its own.
            let call = execution?.call(asked.call)?;
            let is_same = is_about(asked, &call.path, &call.args, call.line);
            is_same.then(|| Reference::AskedOfCall(Question::of(asked, Some(asked.digest))))
        }
        EventBody::Finished { outcome: end, logs } if logs.is_empty() => {
            let settled = before.iter().rev().find_map(|event| settled_call(&event.body));
            if let Some(call) = settled {
                return (outcome(call, before).as_ref() == Some(end))
                    .then_some(Reference::FinishedAsCall { call });
            }
            let call = execution?.calls().first().filter(|call| is_settled_as(call.phase(), end))?;
            Some(Reference::FinishedAsCall { call: call.no })
        }
        _ => None,
    }
}

fn is_about(asked: &Elicitation, path: &ToolPath, args: &Canonical, line: Option<u32>) -> bool {
    (&asked.tool, &asked.args, asked.line) == (path, args, line)
}

fn issued(call: CallNo, before: &[Event]) -> Option<&CallIssued> {
    before.iter().rev().find_map(|event| match &event.body {
        EventBody::CallIssued(issued) if issued.call == call => Some(issued),
        _ => None,
    })
}

fn settled_call(body: &EventBody) -> Option<CallNo> {
    match body {
        EventBody::CallSettled { call, .. }
        | EventBody::DoubtSettled { call, settlement: Settlement::Done { .. }, .. } => Some(*call),
        _ => None,
    }
}

/// The outcome that a call has, where an event holds it whole.
fn outcome(wanted: CallNo, before: &[Event]) -> Option<CallOutcome> {
    before.iter().rev().find_map(|event| match &event.body {
        EventBody::CallSettled { call, outcome } if *call == wanted => Some(outcome.clone()),
        EventBody::DoubtSettled { call, settlement: Settlement::Done { value }, .. } if *call == wanted => {
            Some(CallOutcome::Succeeded(value.clone()))
        }
        _ => None,
    })
}

/// Whether a call ended so, in an event that holds the outcome whole: a failure may have come from a settlement that holds only
/// its message.
fn is_settled_as(phase: &Phase, end: &CallOutcome) -> bool {
    matches!((phase, end), (Phase::Settled(outcome), CallOutcome::Succeeded(_)) if outcome == end)
}
