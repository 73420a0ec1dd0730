//! A conversation as a value: `apply` is the only way it changes, live and on replay, and `next` says what is to be done.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_core::event::Settlement;
use serde_json::Value;

use crate::confirm::Verdict;
use crate::durable::record::{Asker, Record};
use crate::message::{CallKey, Message, OpaqueBlock, ToolCall, ToolResult};
use crate::outcome::ToolOutcome;

/// Where a conversation stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversation {
    pub(crate) id: Option<String>,
    /// What its idempotency keys begin with.
    nonce: Option<String>,
    /// The agent that began, once its model spoke.
    root: Option<String>,
    /// Whom it was handed to since, in order.
    trail: Vec<String>,
    messages: Arc<Vec<Message>>,
    turn: u32,
    /// Turns since a person last spoke.
    iterations: u32,
    calls: Vec<CallState>,
    reply: Option<String>,
    first_input: Option<String>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    /// Nobody has said anything yet.
    AwaitInput,
    /// The model is to speak.
    AskModel,
    /// These calls have no result yet.
    RunCalls(Vec<CallKey>),
    /// The model said its last word.
    Finished(String),
}

/// How far a call got.
#[derive(Debug, Clone)]
pub(crate) struct CallState {
    pub(crate) call: ToolCall,
    /// What a person said before it ran, and about what.
    decision: Option<(String, Verdict)>,
    /// What its handler asked, and what a person said.
    answers: BTreeMap<u32, (String, Option<Verdict>)>,
    pub(crate) started: Option<Begun>,
    last: Last,
    settled: Option<(ToolResult, Option<String>)>,
}

/// What a call was started with.
#[derive(Debug, Clone)]
pub(crate) struct Begun {
    pub(crate) input: Value,
    /// Which tool it was.
    pub(crate) fingerprint: String,
}

/// The last thing recorded of a call that has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It was let on: before it ran, or past a yes to its own question. A crash now leaves doubt, unless it may be repeated.
    LetOn { repeatable: bool },
    /// Anything else: it has done nothing yet, by the contract that a tool asks before it acts.
    Harmless,
}

impl Conversation {
    /// A conversation that goes on from what was said before.
    pub(crate) fn after(history: Vec<Message>) -> Self {
        Self { messages: Arc::new(history), ..Self::default() }
    }

    pub(crate) fn messages(&self) -> &Arc<Vec<Message>> {
        &self.messages
    }

    pub(crate) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    pub(crate) fn trail(&self) -> &[String] {
        &self.trail
    }

    pub(crate) fn iterations(&self) -> u32 {
        self.iterations
    }

    /// What the person said first.
    pub(crate) fn first_input(&self) -> Option<&str> {
        self.first_input.as_deref()
    }

    pub(crate) fn call(&self, key: CallKey) -> Option<&CallState> {
        (key.turn == self.turn).then(|| self.calls.get(key.call.checked_sub(1)? as usize)).flatten()
    }

    /// A key for a call that is the same after every restart, and no other call's of any conversation.
    pub(crate) fn call_key(&self, key: CallKey) -> Option<String> {
        self.nonce.as_ref().map(|nonce| format!("{nonce}:{key}"))
    }

    /// What a person said to a question about a call, where it was this one.
    pub(crate) fn answer(&self, key: CallKey, by: Asker, question: &str) -> Option<Verdict> {
        let call = self.call(key)?;
        let (asked, verdict) = match by {
            Asker::Agent => call.decision.as_ref().map(|(asked, verdict)| (asked, Some(verdict)))?,
            Asker::Handler { nth } => {
                call.answers.get(&nth).map(|(asked, verdict)| (asked, verdict.as_ref()))?
            }
        };
        verdict.filter(|_| asked == question).cloned()
    }

    /// Calls that were let on and have no result: where no process runs them, nobody knows whether they took effect.
    pub(crate) fn let_on(&self) -> impl Iterator<Item = (CallKey, &CallState)> {
        self.of_this_turn()
            .filter(|(_, state)| state.settled.is_none() && state.last == Last::LetOn { repeatable: false })
    }

    pub(crate) fn next(&self) -> Next {
        let open: Vec<CallKey> =
            self.of_this_turn().filter(|(_, state)| state.settled.is_none()).map(|(key, _)| key).collect();
        match (&self.reply, self.messages.last()) {
            _ if !open.is_empty() => Next::RunCalls(open),
            (Some(reply), _) => Next::Finished(reply.clone()),
            (None, None) => Next::AwaitInput,
            (None, Some(_)) => Next::AskModel,
        }
    }

    /// Takes a record in, or says why it does not fit.
    pub(crate) fn apply(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Opened { conversation, nonce } => {
                if self.id.is_some() || !self.messages.is_empty() {
                    return Err("a conversation begins once, and before anything is said".to_owned());
                }
                // Earlier builds wrote none, and their keys began with the name.
                let nonce = if nonce.is_empty() { conversation.clone() } else { nonce };
                (self.id, self.nonce) = (Some(conversation), Some(nonce));
            }
            Record::Said { text } => self.said(text)?,
            Record::ModelTurned { agent, text, calls, blocks } => self.turned(agent, text, calls, blocks)?,
            Record::CallAsked { call, nth, question } => {
                let state = self.unsettled(call)?;
                state.answers.insert(nth, (question, None));
                state.last = Last::Harmless;
            }
            Record::CallDecided { call, by, question, verdict, repeatable } => {
                self.unsettled(call)?.decided(by, question, verdict, repeatable);
            }
            Record::CallWaived { call, repeatable } => {
                self.unsettled(call)?.last = Last::LetOn { repeatable };
            }
            Record::CallStarted { call, input, repeatable, fingerprint } => {
                let state = self.unsettled(call)?;
                state.started = Some(Begun { input, fingerprint });
                state.last = Last::LetOn { repeatable };
            }
            Record::FoundInDoubt { call } => {
                self.unsettled(call)?.last = Last::LetOn { repeatable: false };
            }
            Record::CallSettled { call, result, handoff } => {
                self.unsettled(call)?.settled = Some((result, handoff));
                self.close_turn();
            }
            Record::DoubtSettled { call, settlement, .. } => {
                self.unsettled(call)?.doubt_settled(settlement)?;
                self.close_turn();
            }
        }
        Ok(())
    }

    fn said(&mut self, text: String) -> Result<(), String> {
        if !matches!(self.next(), Next::AwaitInput | Next::Finished(_)) && self.first_input.is_some() {
            return Err("a person speaks once the model has ended".to_owned());
        }
        self.first_input.get_or_insert_with(|| text.clone());
        (self.reply, self.iterations) = (None, 0);
        Arc::make_mut(&mut self.messages).push(Message::User { text });
        Ok(())
    }

    fn turned(
        &mut self,
        agent: String,
        text: String,
        calls: Vec<ToolCall>,
        blocks: Vec<OpaqueBlock>,
    ) -> Result<(), String> {
        if self.next() != Next::AskModel {
            return Err("the model speaks once everything it asked for has a result".to_owned());
        }
        self.root.get_or_insert(agent);
        self.turn += 1;
        self.iterations += 1;
        if calls.is_empty() {
            self.reply = Some(text.clone());
        }
        self.calls = calls.iter().cloned().map(CallState::new).collect();
        Arc::make_mut(&mut self.messages).push(Message::Assistant { text, calls, blocks });
        Ok(())
    }

    fn unsettled(&mut self, key: CallKey) -> Result<&mut CallState, String> {
        let found = if key.turn == self.turn { key.call.checked_sub(1) } else { None };
        let state = found.and_then(|index| self.calls.get_mut(index as usize));
        state.filter(|state| state.settled.is_none()).ok_or_else(|| format!("call {key} is not open"))
    }

    /// Once every call has its result, the model is shown them, in the order in which it made the calls.
    fn close_turn(&mut self) {
        if self.calls.iter().any(|state| state.settled.is_none()) {
            return;
        }
        let messages = Arc::make_mut(&mut self.messages);
        for (result, handoff) in self.calls.drain(..).filter_map(|state| state.settled) {
            messages.push(Message::Tool(result));
            self.trail.extend(handoff);
        }
    }

    /// The calls of the turn that is not over, in the order in which the model made them.
    pub(crate) fn of_this_turn(&self) -> impl Iterator<Item = (CallKey, &CallState)> {
        (1..).zip(&self.calls).map(|(call, state)| (CallKey { turn: self.turn, call }, state))
    }
}

impl CallState {
    fn new(call: ToolCall) -> Self {
        Self {
            call,
            decision: None,
            answers: BTreeMap::new(),
            started: None,
            last: Last::Harmless,
            settled: None,
        }
    }

    fn decided(&mut self, by: Asker, question: String, verdict: Verdict, repeatable: bool) {
        match by {
            Asker::Agent => self.decision = Some((question, verdict)),
            Asker::Handler { nth } => {
                if verdict == Verdict::Approve {
                    self.last = Last::LetOn { repeatable };
                }
                self.answers.insert(nth, (question, Some(verdict)));
            }
        }
    }

    fn doubt_settled(&mut self, settlement: Settlement) -> Result<(), String> {
        if self.last != (Last::LetOn { repeatable: false }) {
            return Err("the call is not in doubt".to_owned());
        }
        let outcome = match settlement {
            Settlement::Done { value } => ToolOutcome::of(Ok(value.to_value())),
            Settlement::Failed { message } => ToolOutcome::failed(&message),
            // It did not run: it goes its way anew, past the hooks and by what the person said of this very input.
            Settlement::Retry => {
                (self.last, self.started) = (Last::Harmless, None);
                return Ok(());
            }
        };
        self.settled = Some((result(&self.call, &outcome), None));
        Ok(())
    }
}

/// What the model is told of a call.
pub(crate) fn result(call: &ToolCall, outcome: &ToolOutcome) -> ToolResult {
    ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: outcome.content.clone(),
        is_error: outcome.is_error(),
    }
}
