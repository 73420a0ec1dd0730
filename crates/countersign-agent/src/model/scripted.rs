//! A model that says what it was told to say: for tests, benches and examples that run without a network.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use crate::message::Message;
use crate::model::{Model, ModelError, ModelRequest, TurnSoFar};

/// One turn of a script.
#[derive(Debug, Default)]
pub struct ScriptedTurn {
    text: Vec<String>,
    calls: Vec<(String, String, String)>,
    error: Option<ModelError>,
}

/// A turn that the model was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Spoken {
    /// What it was told before everything else.
    pub instructions: String,
    /// What it was shown.
    pub messages: Vec<Message>,
    /// The names of the tools it could call.
    pub tools: Vec<String>,
}

/// Says its turns in order, then fails. Clones are one model.
#[derive(Clone, Default)]
pub struct ScriptedModel {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    turns: VecDeque<ScriptedTurn>,
    endless: Option<Arc<dyn Fn(usize) -> ScriptedTurn + Send + Sync>>,
    asked: Vec<Spoken>,
    count: usize,
}

impl ScriptedTurn {
    /// A turn of words; each of them is a delta.
    pub fn text<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        Self { text: deltas.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// A turn that says this.
    pub fn says(text: impl Into<String>) -> Self {
        Self::text([text])
    }

    /// A turn that calls a tool.
    pub fn calls(id: &str, name: &str, input: &Value) -> Self {
        Self::default().and_calls(id, name, input)
    }

    /// The same turn, with one more call.
    #[must_use]
    pub fn and_calls(self, id: &str, name: &str, input: &Value) -> Self {
        self.and_writes(id, name, &input.to_string())
    }

    /// The same turn, with a call whose arguments are this text, JSON or not.
    #[must_use]
    pub fn and_writes(mut self, id: &str, name: &str, input: &str) -> Self {
        self.calls.push((id.to_owned(), name.to_owned(), input.to_owned()));
        self
    }

    /// The same turn, which fails after everything it says.
    #[must_use]
    pub fn and_fails(mut self, error: ModelError) -> Self {
        self.error = Some(error);
        self
    }
}

impl ScriptedModel {
    /// A model with this script.
    pub fn new(turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        let model = Self::default();
        model.locked().turns = turns.into_iter().collect();
        model
    }

    /// A model that makes up its turns by their number, from 0, and keeps nothing of what it is asked.
    pub fn endless(turn: impl Fn(usize) -> ScriptedTurn + Send + Sync + 'static) -> Self {
        let model = Self::default();
        model.locked().endless = Some(Arc::new(turn));
        model
    }

    /// What it was asked, in order.
    pub fn asked(&self) -> Vec<Spoken> {
        self.locked().asked.clone()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, request: ModelRequest<'_>) -> Option<ScriptedTurn> {
        let mut state = self.locked();
        let number = state.count;
        state.count += 1;
        if let Some(endless) = &state.endless {
            return Some(endless(number));
        }
        state.asked.push(Spoken {
            instructions: request.instructions.to_owned(),
            messages: request.messages.to_vec(),
            tools: request.tools.iter().map(|tool| tool.name().to_owned()).collect(),
        });
        state.turns.pop_front()
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn turn(&self, request: ModelRequest<'_>, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        let scripted = self.next(request).ok_or(ModelError::ScriptEnded)?;
        for delta in &scripted.text {
            turn.text(delta)?;
        }
        for (slot, (id, name, input)) in (0..).zip(&scripted.calls) {
            turn.call_started(slot, id, name)?;
            turn.call_delta(slot, input)?;
            turn.call_stopped(slot);
        }
        scripted.error.map_or(Ok(()), Err)
    }
}
